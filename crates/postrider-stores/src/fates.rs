//! A claim's records and their fates, whatever the database: what is let go of, and what is to be written.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::layout::State;
use postrider_core::text::bounded;
use postrider_core::{
    Fate, Finding, Layout, Level, MessageKey, Ordering, Record, RecordId, Refused, Share,
    StoreError,
};

use crate::refusals::{Refusals, What};
use crate::resting::Resting;
use crate::settle::Written;
use crate::sql::{LANES, micros_of};

/// A claim's records, sorted by what is to be written of them.
#[derive(Debug, Default)]
pub(crate) struct Sorted<'a> {
    pub published: Vec<&'a Record>,
    pub failed: Vec<Failed<'a>>,
    pub released: Vec<&'a Record>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Failed<'a> {
    pub record: &'a Record,
    pub attempts: i32,
    /// `None` leaves the error that the table has.
    pub error: Option<&'a str>,
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
                error: Some(error),
                wait,
                dead,
            });
        }
        Ok(sorted)
    }
}

impl Sorted<'_> {
    pub(crate) fn len(&self) -> usize {
        self.published.len() + self.failed.len() + self.released.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn only_published(&self) -> Self {
        Self {
            published: self.published.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn only_unpublished(&self) -> Self {
        Self {
            published: Vec::new(),
            failed: self.failed.clone(),
            released: self.released.clone(),
        }
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

/// What a store keeps in memory of its records.
#[derive(Debug)]
pub(crate) struct Memory {
    resting: Mutex<Resting>,
    refusals: Mutex<Refusals>,
    /// Records that no claim takes, because they have no id.
    nameless: Mutex<Option<Finding>>,
    /// Records that were passed over lately, because their id cannot be read as text.
    unreadable: Mutex<Option<(u32, Instant)>>,
    /// When what is stuck is looked after next; locked while somebody does.
    next_turn: tokio::sync::Mutex<Instant>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            resting: Mutex::default(),
            refusals: Mutex::default(),
            nameless: Mutex::default(),
            unreadable: Mutex::default(),
            next_turn: tokio::sync::Mutex::new(Instant::now()),
        }
    }
}

/// How long records that had to be passed over are told of.
const UNREADABLE_FOR: Duration = Duration::from_secs(60);

/// What is stuck is looked after in one part of so many of the time, and not more often than this.
const TURN_PART: u32 = 100;
const TURN_EVERY_MIN: Duration = Duration::from_secs(1);

/// A turn at looking after what is stuck. One that is not done comes again at once.
pub(crate) struct Turn<'a> {
    next: tokio::sync::MutexGuard<'a, Instant>,
    began: Instant,
}

impl Turn<'_> {
    pub(crate) fn done(mut self) {
        *self.next = Instant::now() + (self.began.elapsed() * TURN_PART).max(TURN_EVERY_MIN);
    }
}

impl Memory {
    pub(crate) fn resting(&self) -> MutexGuard<'_, Resting> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn, if it is time for one and nobody else has it.
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        let next = self.next_turn.try_lock().ok()?;
        let began = Instant::now();
        (*next <= began).then_some(Turn { next, began })
    }

    pub(crate) fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_nameless(&self, finding: Option<Finding>) {
        *self.nameless.lock().unwrap_or_else(PoisonError::into_inner) = finding;
    }

    /// A look that wants records asks for as many more as it had to pass over the last time.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
    pub(crate) fn unreadable(&self) -> u32 {
        let seen = *self
            .unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        seen.filter(|(_, at)| at.elapsed() < UNREADABLE_FOR)
            .map_or(0, |(records, _)| records)
    }

    #[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
    pub(crate) fn set_unreadable(&self, records: u32) {
        // Others may look at other lanes, and see none.
        if records > 0 {
            let mut seen = self
                .unreadable
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *seen = Some((records, Instant::now()));
        }
    }

    /// What is known to be wrong with single records.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = self.refusals().findings();
        findings.extend(
            self.nameless
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        );
        if self.unreadable() > 0 {
            let message = "records have an id that is not text in UTF-8, and are never published";
            let remedy = "give them another id by UPDATE";
            findings.push(Finding::new(Level::Error, "records", message).remedy(remedy));
        }
        findings
    }

    /// Notes what could not be claimed, and tells the log.
    pub(crate) fn note_unclaimed(&self, layout: &Layout, refused: &[(Record, StoreError)]) {
        for (record, error) in refused {
            let told = (self.refusals()).refuse(record, What::Claim, &error.to_string());
            tracing::warn!(
                table = %layout.table,
                record = bounded(&record.id.to_string(), 100),
                reason = told.reason,
                "a record cannot be claimed and is left alone for a while"
            );
        }
    }

    /// Forgets those of the refused that are not among these, which wait to be published.
    pub(crate) fn forget_settled(&self, asked: &[RecordId], pending: &HashSet<RecordId>) {
        let gone = asked.iter().filter(|id| !pending.contains(id));
        self.refusals().forget(gone);
    }

    /// Notes what was settled, before a commit lets another claim see it: who failed rests where the table keeps no
    /// retry time, and who was refused is left alone. Should the commit not succeed, they rest for nothing.
    pub(crate) fn note(
        &self,
        layout: &Layout,
        sorted: &Sorted<'_>,
        written: Written<'_>,
    ) -> Vec<Refused> {
        if matches!(layout.state, State::Timestamp { .. }) {
            let mut resting = self.resting();
            ids(&sorted.published).for_each(|id| resting.wake(id));
            for failed in &sorted.failed {
                match failed.dead {
                    true => resting.wake(&failed.record.id),
                    false => resting.rest(&failed.record.id, failed.wait, failed.attempts > 0),
                }
            }
        }
        let mut refusals = self.refusals();
        if written.refused.is_empty() && refusals.is_empty() {
            return Vec::new();
        }
        let refused: HashSet<&RecordId> = written.refused.iter().map(|(r, ..)| &r.id).collect();
        let settled = ids(&sorted.published).chain(sorted.failed.iter().map(|f| &f.record.id));
        refusals.forget(settled.filter(|id| !refused.contains(id)));
        let refuse = |(record, published, error): &(&Record, bool, StoreError)| {
            let what = match published {
                true => What::Publication,
                false => What::Failure,
            };
            refusals.refuse(record, what, &error.to_string())
        };
        written.refused.iter().map(refuse).collect()
    }
}

/// What is stored where the text of an error is refused: nothing, unless a dead record is told by having one.
pub(crate) fn plain_error(layout: &Layout) -> Option<&'static str> {
    match layout.state {
        State::Flag {
            dead_is_flagged: true,
            ..
        } => Some("failed"),
        _ => None,
    }
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
