//! Records that the database refuses to change: to store their fate, or to let them be claimed. They are left alone for a
//! while, longer each time, and told of: to try them again and again would help nobody.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use postrider_core::text::bounded;
use postrider_core::{
    Backoff, Finding, Level, MessageKey, Ordering, Record, RecordId, Refused, StoreError,
};

/// With more, those that were refused the longest ago are let go of, and tried again.
const REFUSALS_MAX: usize = 10_000;
/// So many at once.
const LET_GO: usize = REFUSALS_MAX / 10;
/// Of which so many are named.
const NAMED_MAX: usize = 5;
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
const REASON_BYTES_MAX: usize = 300;
const ID_BYTES_MAX: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    by_id: HashMap<RecordId, Refusal>,
    /// Whether any were let go of since there were none.
    let_go: bool,
}

/// What the database refuses to have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Claim,
    Failure,
    Publication,
}

#[derive(Debug)]
struct Refusal {
    key: Option<MessageKey>,
    what: What,
    reason: String,
    times: u32,
    since: Instant,
    until: Instant,
}

/// What claims leave alone, as texts.
#[derive(Debug, Default, Clone)]
pub(crate) struct LeftAlone {
    pub ids: Vec<String>,
    pub keys: Vec<String>,
}

impl Refusals {
    pub(crate) fn refuse(&mut self, record: &Record, what: What, reason: &str) -> Refused {
        let times = self.by_id.get(&record.id).map_or(0, |known| known.times) + 1;
        let wait = BACKOFF.random_delay(times);
        let reason = bounded(reason, REASON_BYTES_MAX);
        let now = Instant::now();
        let refusal = Refusal {
            key: record.key.clone(),
            what,
            reason: reason.clone(),
            times,
            since: now,
            until: now + wait,
        };
        self.by_id.insert(record.id.clone(), refusal);
        self.let_go_of_the_oldest();
        Refused {
            id: record.id.clone(),
            published: what == What::Publication,
            reason,
            wait,
        }
    }

    fn let_go_of_the_oldest(&mut self) {
        if self.by_id.len() <= REFUSALS_MAX {
            return;
        }
        let mut times: Vec<Instant> = self.by_id.values().map(|refusal| refusal.since).collect();
        let (_, last, _) = times.select_nth_unstable(LET_GO);
        let last = *last;
        self.by_id.retain(|_, refusal| refusal.since > last);
        self.let_go = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn leaves_alone(&self, id: &RecordId) -> bool {
        let now = Instant::now();
        (self.by_id.get(id)).is_some_and(|refusal| refusal.until > now)
    }

    pub(crate) fn ids(&self) -> Vec<RecordId> {
        self.by_id.keys().cloned().collect()
    }

    pub(crate) fn forget<'a>(&mut self, settled: impl IntoIterator<Item = &'a RecordId>) {
        if self.is_empty() {
            return;
        }
        for id in settled {
            self.by_id.remove(id);
        }
        self.let_go &= !self.is_empty();
    }

    /// What is left alone now: with order per key, by key.
    pub(crate) fn left_alone(&self, ordering: Ordering) -> Result<LeftAlone, StoreError> {
        let now = Instant::now();
        let mut alone = LeftAlone::default();
        for (id, refusal) in &self.by_id {
            if refusal.until <= now {
                continue;
            }
            match refusal.key.as_ref().filter(|_| ordering == Ordering::Key) {
                Some(key) => alone.keys.push(key.to_string()),
                None => alone.ids.push(id.to_string()),
            }
        }
        Ok(alone)
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut all: Vec<(&RecordId, &Refusal)> = self.by_id.iter().collect();
        all.sort_by(|a, b| a.0.cmp(b.0));
        let mut findings: Vec<Finding> = all
            .iter()
            .take(NAMED_MAX)
            .map(|(id, refusal)| refusal.finding(id))
            .collect();
        if all.len() > NAMED_MAX {
            let more = all.len() - NAMED_MAX;
            let least = if self.let_go { "at least " } else { "" };
            let message = format!("the database refuses to change {least}{more} more records");
            findings.push(Finding::new(Level::Error, "records", message));
        }
        findings
    }
}

impl Refusal {
    fn finding(&self, id: &RecordId) -> Finding {
        let id = bounded(&id.to_string(), ID_BYTES_MAX);
        let what = match self.what {
            What::Claim => "it cannot be claimed, so it is not sent, and that is tried again",
            What::Failure => "it failed and that cannot be stored, so it is tried again",
            What::Publication => {
                "it was published and cannot be marked as that, so it is sent again"
            }
        };
        let message = format!(
            "the database refuses to change this record ({} times so far): {what} after growing waits: {}",
            self.times, self.reason
        );
        let remedy = "look for a trigger, a CHECK or a limit on the outbox or on postrider_troubles that refuses the change, \
                      or mark or delete the record by hand";
        Finding::new(Level::Error, format!("record {id}"), message).remedy(remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: i64, key: &str) -> Record {
        Record {
            key: Some(key.into()),
            ..Record::bare(RecordId::Int(id), id.to_string().into())
        }
    }

    #[test]
    fn waits_grow_and_end_when_the_record_is_settled() {
        let mut refusals = Refusals::default();
        let waits: Vec<Duration> = (0..12)
            .map(|_| refusals.refuse(&record(1, "a"), What::Claim, "no").wait)
            .collect();
        assert!(waits[8] > waits[0] * 10, "{waits:?}");
        let alone = refusals.left_alone(Ordering::Key).unwrap();
        assert_eq!((alone.ids.len(), alone.keys), (0, vec!["a".to_owned()]));
        let alone = refusals.left_alone(Ordering::None).unwrap();
        assert_eq!((alone.ids, alone.keys.len()), (vec!["1".to_owned()], 0));
        assert_eq!(refusals.findings().len(), 1);
        refusals.forget(&[RecordId::Int(1)]);
        assert!(refusals.findings().is_empty());
    }

    #[test]
    fn of_too_many_the_oldest_are_let_go() {
        let mut refusals = Refusals::default();
        for n in 0..=REFUSALS_MAX {
            refusals.refuse(&record(n as i64, "a"), What::Publication, "no");
        }
        let count = refusals.by_id.len();
        assert!((1..=REFUSALS_MAX - LET_GO).contains(&count), "{count}");
        assert!(!refusals.by_id.contains_key(&RecordId::Int(0)));
        assert!(refusals.leaves_alone(&RecordId::Int(REFUSALS_MAX as i64)));
        let findings = refusals.findings();
        assert_eq!(findings.len(), NAMED_MAX + 1);
        assert!(findings[NAMED_MAX].message.contains("at least"));
    }
}
