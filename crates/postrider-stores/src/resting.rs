//! Who waits for its retry time, for tables that have no column for it. Forgotten at a restart: then a
//! record is tried at once, which harms neither order nor counting.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use postrider_core::{MessageKey, RecordId};

/// More than these do not rest; the one that would be due first goes.
const RESTING_MAX: usize = 50_000;

#[derive(Debug, Default)]
pub(crate) struct Resting(HashMap<RecordId, Rest>);

#[derive(Debug)]
struct Rest {
    until: Instant,
    key: Option<MessageKey>,
}

impl Resting {
    pub(crate) fn rest(&mut self, id: RecordId, key: Option<MessageKey>, until: Instant) {
        self.0.insert(id, Rest { until, key });
        if self.0.len() > RESTING_MAX {
            let first = self
                .0
                .iter()
                .min_by_key(|(_, rest)| rest.until)
                .map(|(id, _)| id.clone());
            first.map(|id| self.0.remove(&id));
        }
    }

    pub(crate) fn wake(&mut self, id: &RecordId) {
        self.0.remove(id);
    }

    pub(crate) fn rests(&self, id: &RecordId, now: Instant) -> bool {
        self.0.get(id).is_some_and(|rest| rest.until > now)
    }

    /// Ids and keys that still rest.
    pub(crate) fn asleep(&mut self, now: Instant) -> (Vec<RecordId>, Vec<String>) {
        self.0.retain(|_, rest| rest.until > now);
        let ids = self.0.keys().cloned().collect();
        let keys = self
            .0
            .values()
            .filter_map(|rest| rest.key.as_ref())
            .map(ToString::to_string);
        (ids, keys.collect())
    }
}

/// The end of a wait that begins now.
pub(crate) fn after(wait: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(wait).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_ends_in_time_and_has_a_bound() {
        let mut resting = Resting::default();
        let start = Instant::now();
        for n in 0..RESTING_MAX + 10 {
            let until = start + Duration::from_millis(n as u64 + 1);
            resting.rest(RecordId::Int(n as i64), Some("k".into()), until);
        }
        assert_eq!(resting.asleep(start).0.len(), RESTING_MAX);
        let last = start + Duration::from_millis(RESTING_MAX as u64 + 9);
        assert_eq!(
            resting.asleep(last).0,
            [RecordId::Int(RESTING_MAX as i64 + 9)]
        );
    }
}
