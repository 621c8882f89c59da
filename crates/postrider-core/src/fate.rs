//! What becomes of a claimed record. Errors say what happened; [`fates`] says what to do.

use std::collections::HashSet;
use std::time::Duration;

use crate::text::{ERROR_BYTES_MAX, bounded};
use crate::{Backoff, MessageKey, Ordering, Record};

/// No record of a part that takes no writes is claimed again sooner, so that a relay never spins on it.
const PART_WAIT_MIN: Duration = Duration::from_millis(100);
const PART_WAIT_MAX: Duration = Duration::from_secs(3600);

/// The end of a record's stay in a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// The broker acknowledged it.
    Published,
    /// It failed and is tried again, not before `after` has passed.
    Retry {
        attempts: u32,
        after: Duration,
        error: String,
    },
    /// It will not be tried again until an operator says so.
    Dead { attempts: u32, error: String },
    /// It is as if it had never been claimed.
    Released,
}

/// The kinds of failure that are treated differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The broker as a whole does not answer: nobody's fault, no attempt is counted.
    Outage,
    /// A part of the broker takes no writes: nobody's fault either, but only what belongs to it waits.
    PartOutage { retry_after: Duration },
    /// This message was not tried.
    Untried,
    /// This message failed and may succeed later.
    Transient,
    /// This message can never succeed.
    Permanent,
}

/// What happens to a key whose record is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDead {
    /// Later records of the key wait until an operator resends or discards the dead one.
    #[default]
    Park,
    /// Later records go on.
    Skip,
}

/// When to give up, and how long to wait before.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// A record that failed this often is dead.
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub on_dead: OnDead,
    /// Whether an outage counts as an attempt (a literal reading of one source system; off).
    pub count_outages: bool,
}

/// What came of one record before its fate is decided: the broker's or the router's word.
#[derive(Debug)]
pub struct Outcome {
    pub failure: Option<(Failure, String)>,
}

impl Outcome {
    pub const PUBLISHED: Self = Self { failure: None };

    pub fn failed(failure: Failure, error: impl Into<String>) -> Self {
        Self {
            failure: Some((failure, error.into())),
        }
    }
}

/// Decides every record's fate. `outcomes` belong to `records` one by one. With order per key, what
/// follows a failed record of its key is released, unless the broker has taken it already.
pub fn fates(
    records: &[Record],
    outcomes: &[Outcome],
    ordering: Ordering,
    policy: &RetryPolicy,
) -> Vec<Fate> {
    let mut blocked: HashSet<&MessageKey> = HashSet::new();
    std::iter::zip(records, outcomes)
        .map(|(record, outcome)| {
            let Some((failure, error)) = &outcome.failure else {
                return Fate::Published;
            };
            let key = record.key.as_ref().filter(|_| ordering == Ordering::Key);
            if key.is_some_and(|key| blocked.contains(key)) {
                return Fate::Released;
            }
            let fate = fate(record, *failure, error, policy);
            let blocks = !matches!(fate, Fate::Dead { .. }) || policy.on_dead == OnDead::Park;
            if let Some(key) = key.filter(|_| blocks) {
                blocked.insert(key);
            }
            fate
        })
        .collect()
}

fn fate(record: &Record, failure: Failure, error: &str, policy: &RetryPolicy) -> Fate {
    let attempts = record.attempts.saturating_add(1);
    let error = || bounded(error, ERROR_BYTES_MAX);
    match failure {
        Failure::Untried => Fate::Released,
        Failure::Outage if !policy.count_outages => Fate::Released,
        // Not released: it would be claimed again at once, ahead of what can be published.
        // What waits for the same part does not become due at once, in front of everything else.
        Failure::PartOutage { retry_after } if !policy.count_outages => Fate::Retry {
            attempts: record.attempts,
            after: (retry_after.clamp(PART_WAIT_MIN, PART_WAIT_MAX)).mul_f64(1.0 + fastrand::f64()),
            error: error(),
        },
        Failure::Permanent => Fate::Dead {
            attempts,
            error: error(),
        },
        Failure::Outage | Failure::PartOutage { .. } | Failure::Transient
            if attempts >= policy.max_attempts =>
        {
            Fate::Dead {
                attempts,
                error: error(),
            }
        }
        Failure::Outage | Failure::PartOutage { .. } | Failure::Transient => Fate::Retry {
            attempts,
            after: policy.backoff.random_delay(attempts),
            error: error(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    const POLICY: RetryPolicy = RetryPolicy {
        max_attempts: 3,
        backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(60)),
        on_dead: OnDead::Park,
        count_outages: false,
    };

    fn kinds(fates: &[Fate]) -> Vec<&'static str> {
        fates
            .iter()
            .map(|fate| match fate {
                Fate::Published => "published",
                Fate::Retry { .. } => "retry",
                Fate::Dead { .. } => "dead",
                Fate::Released => "released",
            })
            .collect()
    }

    fn decide(keys: &[&str], outcomes: &[Outcome], policy: &RetryPolicy) -> Vec<&'static str> {
        let records: Vec<Record> = keys.iter().map(|key| sample(key)).collect();
        kinds(&fates(&records, outcomes, Ordering::Key, policy))
    }

    fn failed(failure: Failure) -> Outcome {
        Outcome::failed(failure, "no")
    }

    #[test]
    fn what_follows_a_failed_record_of_its_key_is_released() {
        let outcomes = [
            failed(Failure::Transient),
            failed(Failure::Transient),
            Outcome::PUBLISHED,
        ];
        assert_eq!(
            decide(&["a", "a", "b"], &outcomes, &POLICY),
            ["retry", "released", "published"]
        );
    }

    #[test]
    fn a_dead_record_parks_its_key_unless_told_to_skip() {
        let outcomes = [failed(Failure::Permanent), failed(Failure::Transient)];
        assert_eq!(
            decide(&["a", "a"], &outcomes, &POLICY),
            ["dead", "released"]
        );
        let skip = RetryPolicy {
            on_dead: OnDead::Skip,
            ..POLICY
        };
        assert_eq!(decide(&["a", "a"], &outcomes, &skip), ["dead", "retry"]);
    }

    #[test]
    fn an_outage_burns_no_attempts_unless_told_to() {
        let outcomes = [failed(Failure::Outage), failed(Failure::Outage)];
        assert_eq!(
            decide(&["a", "b"], &outcomes, &POLICY),
            ["released", "released"]
        );
        let literal = RetryPolicy {
            count_outages: true,
            ..POLICY
        };
        assert_eq!(decide(&["a", "b"], &outcomes, &literal), ["retry", "retry"]);
    }

    #[test]
    fn a_part_of_the_broker_that_is_down_burns_no_attempts_and_holds_its_keys() {
        let part = || {
            failed(Failure::PartOutage {
                retry_after: Duration::from_secs(7),
            })
        };
        let outcomes = [part(), part(), Outcome::PUBLISHED];
        let mut records: Vec<Record> = ["a", "a", "b"].map(sample).into();
        records[0].attempts = 2;
        let found = fates(&records, &outcomes, Ordering::Key, &POLICY);
        assert_eq!(kinds(&found), ["retry", "released", "published"]);
        let Fate::Retry {
            attempts: 2, after, ..
        } = found[0]
        else {
            panic!("{:?}", found[0]);
        };
        let [least, most] = [7, 14].map(Duration::from_secs);
        assert!((least..=most).contains(&after), "{after:?}");
        let literal = RetryPolicy {
            count_outages: true,
            ..POLICY
        };
        let found = fates(&records, &outcomes, Ordering::Key, &literal);
        assert_eq!(kinds(&found), ["dead", "released", "published"]);
    }

    #[test]
    fn dead_when_attempts_reach_the_maximum() {
        let mut record = sample("a");
        record.attempts = 1;
        let outcome = [failed(Failure::Transient)];
        let second = fates(
            std::slice::from_ref(&record),
            &outcome,
            Ordering::None,
            &POLICY,
        );
        assert!(
            matches!(second[0], Fate::Retry { attempts: 2, .. }),
            "{second:?}"
        );
        record.attempts = 2;
        let third = fates(&[record], &outcome, Ordering::None, &POLICY);
        assert!(
            matches!(third[0], Fate::Dead { attempts: 3, .. }),
            "{third:?}"
        );
    }

    #[test]
    fn without_order_a_key_blocks_nobody() {
        let records = [sample("a"), sample("a")];
        let outcomes = [failed(Failure::Transient), failed(Failure::Transient)];
        assert_eq!(
            kinds(&fates(&records, &outcomes, Ordering::None, &POLICY)),
            ["retry", "retry"]
        );
    }

    #[test]
    fn errors_are_bounded() {
        let outcome = [Outcome::failed(Failure::Permanent, "é".repeat(100_000))];
        let fates = fates(&[sample("a")], &outcome, Ordering::Key, &POLICY);
        let Fate::Dead { error, .. } = &fates[0] else {
            panic!("{fates:?}")
        };
        assert!(error.len() <= ERROR_BYTES_MAX);
    }
}
