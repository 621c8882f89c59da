//! Parts of a broker that take no writes for now: a topic that was deleted, one that may not be written, a partition
//! without a leader. What goes to one fails at once, without a question, until its time has come. So a
//! part that is down costs the others nothing but one try from time to time.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider_core::{Backoff, PublishError, Topic, text};
use tokio::time::Instant;

/// Between two tries. The longest wait is also what a part's messages may lose after it is back.
const WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// How long a try may take: the more of them failed, the longer, since the part may just be slow.
const TRY_TIMES: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(10));
/// A try that nobody has heard of for so long was dropped half way, and another one is allowed.
const TRY_MAX: Duration = Duration::from_secs(15);
/// What nobody has asked for is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Names of topics come from rows. What is not remembered is found out again.
const PARTS_MAX: usize = 10_000;
const REASON_BYTES_MAX: usize = 500;
const NAME_BYTES_MAX: usize = 300;

/// A topic, or one of its partitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) topic: Topic,
    pub(crate) partition: Option<i32>,
}

/// What is known of the parts of one broker. Calls share it.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// How many there are, so that a broker that is well costs no lock.
    count: AtomicUsize,
    troubles: Mutex<HashMap<Part, Trouble>>,
}

#[derive(Debug)]
struct Trouble {
    reason: String,
    /// Tries that failed, which make the waits grow.
    failures: u32,
    retry_at: Instant,
    is_tried: bool,
}

impl Part {
    pub(crate) fn topic(topic: &Topic) -> Self {
        Self {
            topic: topic.clone(),
            partition: None,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = text::bounded(self.topic.as_str(), NAME_BYTES_MAX);
        match self.partition {
            Some(partition) => write!(f, "partition {partition} of topic {name}"),
            None => write!(f, "topic {name}"),
        }
    }
}

impl Parts {
    pub(crate) fn is_well(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Why nothing may go to a part, except a try by whoever is told to make it ([`Parts::try_again`]).
    pub(crate) fn closed(&self, part: &Part) -> Option<PublishError> {
        if self.is_well() {
            return None;
        }
        self.lock().get(part).map(|trouble| trouble.error(part))
    }

    /// The parts in trouble that `belongs` picks.
    #[cfg(feature = "kafka")]
    pub(crate) fn in_trouble(&self, belongs: impl Fn(&Part) -> bool) -> Vec<Part> {
        let troubles = self.lock();
        troubles
            .keys()
            .filter(|part| belongs(part))
            .cloned()
            .collect()
    }

    /// If the part is due, the caller is to try it, for so long. Nobody else is, until it says how that went.
    pub(crate) fn try_again(&self, part: &Part) -> Option<Duration> {
        let mut troubles = self.lock();
        let trouble = troubles.get_mut(part).filter(|trouble| trouble.is_due())?;
        trouble.is_tried = true;
        trouble.retry_at = Instant::now() + TRY_MAX;
        Some(TRY_TIMES.delay(trouble.failures, 0.0))
    }

    /// The part takes no writes. Several messages, or calls, may find out at once: that is one failure.
    pub(crate) fn failed(&self, part: &Part, reason: &str) -> PublishError {
        let mut troubles = self.lock();
        if troubles.len() >= PARTS_MAX && !troubles.contains_key(part) {
            troubles.retain(|_, trouble| !trouble.is_forgotten());
            if troubles.len() >= PARTS_MAX {
                return Trouble::first(reason).error(part);
            }
        }
        let trouble = troubles.entry(part.clone()).or_insert_with(|| {
            tracing::warn!(%part, reason, "a part of the broker takes no writes; what goes to it waits and keeps its attempts");
            Trouble::first(reason)
        });
        if trouble.is_tried || trouble.is_due() {
            trouble.fail_again(reason);
            tracing::debug!(%part, reason, failures = trouble.failures, "still takes no writes");
        }
        let error = trouble.error(part);
        self.count.store(troubles.len(), Ordering::Release);
        error
    }

    /// The part has taken a message, or refused one for a reason of its own.
    pub(crate) fn recovered(&self, part: &Part) {
        if self.is_well() {
            return;
        }
        let mut troubles = self.lock();
        if troubles.remove(part).is_some() {
            tracing::info!(%part, "takes writes again");
        }
        self.count.store(troubles.len(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Part, Trouble>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trouble {
    fn first(reason: &str) -> Self {
        let mut trouble = Self {
            reason: String::new(),
            failures: 0,
            retry_at: Instant::now(),
            is_tried: false,
        };
        trouble.fail_again(reason);
        trouble
    }

    fn fail_again(&mut self, reason: &str) {
        self.failures = self.failures.saturating_add(1);
        self.reason = text::bounded(reason, REASON_BYTES_MAX);
        self.retry_at = Instant::now() + WAITS.delay(self.failures, 0.0);
        self.is_tried = false;
    }

    fn is_due(&self) -> bool {
        self.retry_at <= Instant::now()
    }

    fn is_forgotten(&self) -> bool {
        self.retry_at.elapsed() > FORGET_AFTER
    }

    fn error(&self, part: &Part) -> PublishError {
        PublishError::PartUnavailable {
            part: part.to_string(),
            reason: self.reason.clone(),
            retry_after: self.retry_at.saturating_duration_since(Instant::now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str) -> Part {
        Part::topic(&Topic::from(name))
    }

    fn wait(error: &PublishError) -> Duration {
        match error {
            PublishError::PartUnavailable { retry_after, .. } => *retry_after,
            other => panic!("{other}"),
        }
    }

    /// As if the time had passed.
    fn make_due(parts: &Parts, since: Duration) {
        let at = Instant::now()
            .checked_sub(since)
            .expect("a machine that is up");
        parts
            .lock()
            .values_mut()
            .for_each(|trouble| trouble.retry_at = at);
    }

    #[test]
    fn waits_grow_with_tries_that_fail_and_not_with_messages() {
        let (parts, orders) = (Parts::default(), part("orders"));
        let (mut waits, mut times) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            let first = wait(&parts.failed(&orders, "gone"));
            assert!(wait(&parts.failed(&orders, "gone")) <= first);
            assert_eq!(parts.try_again(&orders), None, "too early");
            waits.push(first.as_millis().div_ceil(1000));
            make_due(&parts, Duration::ZERO);
            times.push(parts.try_again(&orders).expect("it is due").as_secs());
            assert_eq!(parts.try_again(&orders), None, "one at a time");
            assert!(parts.closed(&orders).is_some());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(times, [2, 4, 8, 10, 10, 10, 10]);
        assert!(parts.closed(&part("others")).is_none());
        parts.recovered(&orders);
        assert!(parts.is_well() && parts.closed(&orders).is_none());
        assert!(wait(&parts.failed(&orders, "gone")) <= Duration::from_secs(1));
    }

    #[test]
    fn only_so_many_are_remembered() {
        let parts = Parts::default();
        for number in 0..PARTS_MAX + 10 {
            parts.failed(&part(&number.to_string()), "gone");
        }
        assert_eq!(parts.lock().len(), PARTS_MAX);
        let long_ago = Instant::now().checked_sub(FORGET_AFTER * 2);
        // A machine that was started a moment ago has no such time.
        if long_ago.is_some() {
            make_due(&parts, FORGET_AFTER * 2);
            parts.failed(&part("one more"), "gone");
            assert_eq!(parts.lock().len(), 1);
        }
    }
}
