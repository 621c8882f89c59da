//! When failed records are due, for tables that have no column for it. Forgotten at a restart: then a record is tried at
//! once, which harms neither order nor counting. A million of them take about 100 MB.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use postrider_core::RecordId;

/// Those beyond it wait until they are found in the table again.
const RESTING_MAX: usize = 2_000_000;

/// How many ids one claim is told of, those that are due and those that are not. Of more, claims are told in turn.
const TOLD_MAX: usize = 100_000;

/// A failure that another process has seen waits at least this long here, and twice as long for each attempt.
const FOUND_WAIT: Duration = Duration::from_secs(1);
const FOUND_WAIT_MAX: Duration = Duration::from_secs(60);

/// Hundredths of a second since the memory began.
type Tick = u32;

#[derive(Debug)]
pub(crate) struct Resting {
    began: Instant,
    due_at: HashMap<RecordId, Tick>,
    by_time: BTreeSet<(Tick, RecordId)>,
    /// Those of them whose row does not show that they failed: what they wait for counts no attempt.
    uncounted: HashSet<RecordId>,
    /// Where the next claim goes on, if the last one could not be told of all that are due.
    next_told: Option<(Tick, RecordId)>,
    /// Whether the table has been looked through for records that failed before.
    has_looked: bool,
}

impl Default for Resting {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            due_at: HashMap::new(),
            by_time: BTreeSet::new(),
            uncounted: HashSet::new(),
            next_told: None,
            has_looked: false,
        }
    }
}

impl Resting {
    /// `counted`: whether the row has an attempt.
    pub(crate) fn rest(&mut self, id: &RecordId, wait: Duration, counted: bool) {
        self.wake(id);
        if self.due_at.len() < RESTING_MAX {
            // Not a moment early.
            let wait = wait.min(Duration::from_secs(10_000_000));
            let due_at = match wait.is_zero() {
                true => self.tick(Instant::now()),
                false => self.tick(Instant::now() + wait) + 1,
            };
            self.due_at.insert(id.clone(), due_at);
            self.by_time.insert((due_at, id.clone()));
            if !counted {
                self.uncounted.insert(id.clone());
            }
        }
    }

    pub(crate) fn wake(&mut self, id: &RecordId) {
        if let Some((id, due_at)) = self.due_at.remove_entry(id) {
            self.uncounted.remove(&id);
            self.by_time.remove(&(due_at, id));
        }
    }

    /// Those that may be tried, the longest due first.
    pub(crate) fn due(&mut self) -> Vec<RecordId> {
        let now = self.tick(Instant::now());
        let from = self
            .next_told
            .take()
            .map_or(Bound::Unbounded, Bound::Included);
        let range = self.by_time.range((from, Bound::Unbounded));
        let mut due = range.take_while(|(due_at, _)| *due_at <= now);
        let told = due.by_ref().take(TOLD_MAX).map(|(_, id)| id.clone());
        let told = told.collect();
        self.next_told = due.next().cloned();
        told
    }

    /// Those that wait although their row looks as if nothing had happened.
    pub(crate) fn uncounted(&self) -> Vec<RecordId> {
        let now = self.tick(Instant::now());
        let waits = |id: &&RecordId| self.due_at.get(*id).is_some_and(|due_at| *due_at > now);
        let waiting = self.uncounted.iter().filter(waits);
        waiting.take(TOLD_MAX).cloned().collect()
    }

    /// Learns from a look at all records that failed and wait. What failed before this process began is due at once;
    /// what another process has seen fail, after a while. What is due and no longer there is forgotten.
    pub(crate) fn learn(&mut self, waiting: &HashMap<RecordId, i32>) {
        let now = self.tick(Instant::now());
        let is_gone =
            |(due_at, id): &&(Tick, RecordId)| *due_at <= now && !waiting.contains_key(id);
        let gone: HashSet<RecordId> = (self.by_time.iter().filter(is_gone))
            .map(|(_, id)| id.clone())
            .collect();
        gone.iter().for_each(|id| self.wake(id));
        for (id, attempts) in waiting {
            if self.due_at.contains_key(id) {
                continue;
            }
            let doubled = FOUND_WAIT.saturating_mul(1 << (*attempts).clamp(0, 10));
            let wait = match self.has_looked {
                true => doubled.min(FOUND_WAIT_MAX),
                false => Duration::ZERO,
            };
            self.rest(id, wait, true);
        }
        self.has_looked = true;
    }

    fn tick(&self, at: Instant) -> Tick {
        let hundredths = at.saturating_duration_since(self.began).as_millis() / 10;
        Tick::try_from(hundredths).unwrap_or(Tick::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_secs(3600);

    fn id(n: i64) -> RecordId {
        RecordId::Int(n)
    }

    #[test]
    fn a_million_rest_and_the_longest_due_come_first() {
        let mut resting = Resting::default();
        for n in 0..1_000_000 {
            resting.rest(&id(n), FAR, true);
        }
        assert_eq!(resting.due(), []);
        resting.rest(&id(7), Duration::ZERO, true);
        assert_eq!(resting.due(), [id(7)]);
        resting.wake(&id(7));
        assert_eq!(resting.due(), []);
        assert_eq!(resting.due_at.len(), 999_999);
        assert_eq!(resting.by_time.len(), 999_999);
    }

    #[test]
    fn those_that_are_not_counted_are_told_until_they_are_due() {
        let mut resting = Resting::default();
        resting.rest(&id(1), FAR, false);
        resting.rest(&id(2), Duration::ZERO, false);
        resting.rest(&id(3), FAR, true);
        assert_eq!(resting.uncounted(), [id(1)]);
        resting.learn(&HashMap::from([(id(3), 1)]));
        assert_eq!(resting.uncounted(), [id(1)]);
        resting.wake(&id(1));
        assert_eq!(resting.uncounted(), []);
        assert!(resting.uncounted.len() <= 1);
    }

    #[test]
    fn all_that_are_due_are_told_in_turn() {
        let mut resting = Resting::default();
        for n in 0..TOLD_MAX as i64 + 10 {
            resting.rest(&id(n), Duration::ZERO, true);
        }
        let first: HashSet<RecordId> = resting.due().into_iter().collect();
        let second = resting.due();
        assert_eq!((first.len(), second.len()), (TOLD_MAX, 10));
        assert!(second.iter().all(|id| !first.contains(id)));
        assert_eq!(resting.due().len(), TOLD_MAX);
    }

    #[test]
    fn what_failed_before_is_due_at_once_and_what_fails_elsewhere_is_not() {
        let mut resting = Resting::default();
        resting.learn(&HashMap::from([(id(1), 3)]));
        assert_eq!(resting.due(), [id(1)]);
        resting.learn(&HashMap::from([(id(1), 3), (id(2), 1)]));
        assert_eq!(resting.due(), [id(1)]);
        resting.learn(&HashMap::from([(id(2), 1)]));
        assert_eq!(resting.due(), [], "1 is gone, 2 waits");
        assert!(resting.due_at.contains_key(&id(2)));
    }
}
