//! A claim's records and their fates, whatever the database: what is let go of, and what is to be written.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postrider_core::layout::State;
use postrider_core::{Fate, Layout, MessageKey, Ordering, Record, RecordId, Share, StoreError};

use crate::resting::{Resting, after};
use crate::sql::{LANES, micros_of};

/// A claim's records, sorted by what is to be written of them.
#[derive(Debug, Default)]
pub(crate) struct Sorted<'a> {
    pub published: Vec<&'a Record>,
    pub failed: Vec<Failed<'a>>,
    pub released: Vec<&'a Record>,
}

#[derive(Debug)]
pub(crate) struct Failed<'a> {
    pub record: &'a Record,
    pub attempts: i32,
    pub error: &'a str,
    pub wait: Duration,
    pub dead: bool,
}

impl<'a> Sorted<'a> {
    pub(crate) fn new(records: &'a [Record], fates: &'a [Fate]) -> Result<Self, StoreError> {
        if records.len() != fates.len() {
            let reason = format!("{} records have {} fates", records.len(), fates.len());
            return Err(StoreError::Refused {
                action: "settle a claim",
                reason,
                source: None,
            });
        }
        let mut sorted = Self::default();
        for (record, fate) in std::iter::zip(records, fates) {
            let (attempts, error, wait, dead) = match fate {
                Fate::Published => {
                    sorted.published.push(record);
                    continue;
                }
                Fate::Released => {
                    sorted.released.push(record);
                    continue;
                }
                Fate::Retry {
                    attempts,
                    after,
                    error,
                } => (attempts, error, *after, false),
                Fate::Dead { attempts, error } => (attempts, error, Duration::ZERO, true),
            };
            let attempts = i32::try_from(*attempts).unwrap_or(i32::MAX);
            sorted.failed.push(Failed {
                record,
                attempts,
                error,
                wait,
                dead,
            });
        }
        Ok(sorted)
    }
}

impl Failed<'_> {
    pub(crate) fn wait_micros(&self) -> i64 {
        micros_of(self.wait)
    }
}

pub(crate) fn ids<'a>(records: &[&'a Record]) -> impl Iterator<Item = &'a RecordId> {
    records.iter().map(|record| &record.id)
}

/// Takes records out of a claim, and with order per key also what follows them in their key.
pub(crate) fn let_go(
    records: &mut Vec<Record>,
    ordering: Ordering,
    mut waits: impl FnMut(&Record) -> bool,
) {
    let mut blocked: HashSet<MessageKey> = HashSet::new();
    records.retain(|record| {
        let key = record.key.as_ref().filter(|_| ordering == Ordering::Key);
        if waits(record) {
            blocked.extend(key.cloned());
            return false;
        }
        !key.is_some_and(|key| blocked.contains(key))
    });
}

/// What is kept aside of a record: how often it was tried, and whether it may not be tried now.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trouble {
    pub attempts: u32,
    pub blocked: bool,
}

/// Gives records the attempts that are kept aside. What may not be tried now is let go, and with it what follows it in its
/// key.
pub(crate) fn recall(
    records: &mut Vec<Record>,
    ordering: Ordering,
    troubles: &HashMap<String, Trouble>,
) {
    let of = |record: &Record| {
        let trouble = troubles.get(&record.id.to_string());
        trouble.copied().unwrap_or_default()
    };
    for record in records.iter_mut() {
        record.attempts = of(record).attempts;
    }
    let_go(records, ordering, |record| of(record).blocked);
}

/// Where the table keeps no retry time, who failed rests in memory.
pub(crate) fn rest(resting: &Mutex<Resting>, layout: &Layout, sorted: &Sorted<'_>) {
    if !matches!(layout.state, State::Timestamp { .. }) {
        return;
    }
    let mut resting = resting.lock().unwrap_or_else(PoisonError::into_inner);
    for record in &sorted.published {
        resting.wake(&record.id);
    }
    for failed in &sorted.failed {
        if failed.dead {
            resting.wake(&failed.record.id);
        } else {
            resting.rest(
                failed.record.id.clone(),
                failed.record.key.clone(),
                after(failed.wait),
            );
        }
    }
}

/// Of so many records that were to be written, how many were not there any more.
pub(crate) fn missing(expected: usize, found: u64) -> u64 {
    (expected as u64).saturating_sub(found)
}

/// The lanes that are a worker's share.
pub(crate) fn lanes(share: Share) -> Vec<u32> {
    (0..LANES)
        .filter(|lane| lane % share.of.max(1) == share.index)
        .collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    fn record(id: i64, key: Option<&str>) -> Record {
        Record {
            key: key.map(Into::into),
            ..Record::bare(RecordId::Int(id), id.to_string().into())
        }
    }

    #[test]
    fn what_is_let_go_takes_the_rest_of_its_key_with_it() {
        let keys = [Some("a"), Some("b"), Some("a"), None, Some("b"), Some("a")];
        let left = |ordering| {
            let mut records: Vec<Record> =
                (0..).zip(keys).map(|(id, key)| record(id, key)).collect();
            let_go(&mut records, ordering, |record| {
                matches!(record.id, RecordId::Int(2 | 3))
            });
            records
                .iter()
                .map(|record| record.id.to_string())
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(left(Ordering::Key), "0,1,4");
        assert_eq!(left(Ordering::None), "0,1,4,5");
    }
}
