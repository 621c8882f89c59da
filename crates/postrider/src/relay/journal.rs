//! One log line per event, with what an operator searches for, and a bounded memory of the last failures. Never a
//! payload.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use postrider_core::text::{ERROR_BYTES_MAX, short};
use postrider_core::{Fate, Record, RecordId, Refused, Timestamp};

use crate::lines::{cut, cut_some};

/// Failed attempts that are remembered, of one outbox. An error has 1 KiB at most and an id less, so this is about 14 MB at
/// most.
const FAILURES_MAX: usize = 10_000;

/// A failure of a record whose id is longer is not remembered.
const ID_BYTES_MAX: usize = 256;

/// Records whose refused fate is told once until their wait is over; what more there are is told each time.
const REFUSED_MAX: usize = 10_000;

/// An attempt that failed. A table keeps the last one only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    pub at: Timestamp,
    /// 1 for the first.
    pub attempt: u32,
    pub error: Arc<str>,
    /// Whether it was the last one.
    pub dead: bool,
}

/// Clones share one memory.
#[derive(Clone, Default)]
pub(super) struct Journal {
    failures: Arc<Mutex<VecDeque<(RecordId, FailedAttempt)>>>,
    /// By a hash of the id: until when nothing more is said of it.
    refused: Arc<Mutex<HashMap<u64, Instant>>>,
}

impl Journal {
    /// Publishing is said at debug level (a line per event costs more than the event), trouble always.
    pub(super) fn write(&self, outbox: &str, records: &[Record], fates: &[Fate]) {
        let chatty = tracing::enabled!(target: "postrider::event", tracing::Level::DEBUG);
        for (record, fate) in std::iter::zip(records, fates) {
            match fate {
                Fate::Published if chatty => line!(DEBUG, outbox, record, "published"),
                Fate::Released if chatty => line!(DEBUG, outbox, record, "released"),
                Fate::Published | Fate::Released => {}
                Fate::Retry {
                    attempts,
                    after,
                    error,
                } => {
                    let error = &*short(error, ERROR_BYTES_MAX);
                    line!(WARN, outbox, record, "failed, will be tried again", attempts, error, retry_in = ?after);
                    self.remember(record, *attempts, error, false);
                }
                Fate::Dead { attempts, error } => {
                    let error = &*short(error, ERROR_BYTES_MAX);
                    line!(ERROR, outbox, record, "dead", attempts, error);
                    self.remember(record, *attempts, error, true);
                }
            }
        }
    }

    /// Says of each record whose fate the database refuses to store that it does, once until it is tried again.
    pub(super) fn refused(&self, outbox: &str, refused: &[Refused]) {
        for record in refused.iter().filter(|record| self.is_news(record)) {
            tracing::warn!(
                target: "postrider::event",
                outbox,
                record_id = &*cut(&text_of(&record.id)),
                published = record.published,
                reason = &*short(&record.reason, ERROR_BYTES_MAX),
                retry_in = ?record.wait,
                "the database refuses to store what became of the record; it is left alone until then"
            );
        }
    }

    fn is_news(&self, record: &Refused) -> bool {
        let mut hasher = DefaultHasher::new();
        record.id.hash(&mut hasher);
        let (id, now) = (hasher.finish(), Instant::now());
        let mut told = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if told.get(&id).is_some_and(|until| *until > now) {
            return false;
        }
        if told.len() >= REFUSED_MAX {
            told.retain(|_, until| *until > now);
        }
        if told.len() < REFUSED_MAX
            && let Some(until) = now.checked_add(record.wait)
        {
            told.insert(id, until);
        }
        true
    }

    /// The failures of a record, the earliest first.
    pub(super) fn failures(&self, id: &RecordId) -> Vec<FailedAttempt> {
        let of_record =
            |(record, failed): &(RecordId, FailedAttempt)| (record == id).then(|| failed.clone());
        self.lock().iter().filter_map(of_record).collect()
    }

    fn remember(&self, record: &Record, attempt: u32, error: &str, dead: bool) {
        if text_of(&record.id).len() > ID_BYTES_MAX {
            return;
        }
        let failed = FailedAttempt {
            at: Timestamp::now(),
            attempt,
            error: error.into(),
            dead,
        };
        let mut failures = self.lock();
        if failures.len() == FAILURES_MAX {
            failures.pop_front();
        }
        failures.push_back((record.id.clone(), failed));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(RecordId, FailedAttempt)>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

macro_rules! line {
    ($level:ident, $outbox:ident, $record:ident, $text:literal $(, $($field:tt)+)?) => {
        tracing::event!(
            target: "postrider::event",
            tracing::Level::$level,
            outbox = $outbox,
            record_id = &*cut(&text_of(&$record.id)),
            event_id = &*cut($record.event_id.as_str()),
            event_type = cut_some($record.event_type.as_deref()).as_deref(),
            aggregate_type = cut_some($record.aggregate_type.as_deref()).as_deref(),
            aggregate_id = cut_some($record.aggregate_id.as_deref()).as_deref(),
            trace_id = trace_id($record).as_deref(),
            $($($field)+,)?
            $text
        )
    };
}
use line;

/// An id that is text already is not copied to be cut.
fn text_of(id: &RecordId) -> Cow<'_, str> {
    match id {
        RecordId::Text(id) => (&**id).into(),
        RecordId::Uuid(_) | RecordId::Int(_) => id.to_string().into(),
    }
}

/// The trace id: within a W3C trace parent (`00-<32 hex digits>-…`), or as the record's metadata has it.
fn trace_id(record: &Record) -> Option<Cow<'_, str>> {
    let parent = record
        .traceparent()
        .and_then(|parent| parent.split('-').nth(1));
    if let Some(id) = parent.filter(|id| id.len() == 32) {
        return Some(cut(id));
    }
    let metadata: Metadata<'_> = serde_json::from_slice(record.metadata.as_deref()?).ok()?;
    let id = metadata.trace_id?;
    let is_shown = id.len() <= TRACE_ID_BYTES_MAX;
    is_shown.then(|| cut(&id).into_owned().into())
}

/// No longer text from a row is put into a log line as its trace id.
const TRACE_ID_BYTES_MAX: usize = 64;

#[derive(serde::Deserialize)]
struct Metadata<'a> {
    #[serde(rename = "traceId", borrow)]
    trace_id: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: i64) -> Record {
        Record::bare(RecordId::Int(id), id.to_string().into())
    }

    fn dead(error: &str) -> Fate {
        Fate::Dead {
            attempts: 2,
            error: error.into(),
        }
    }

    #[test]
    fn failures_are_remembered_in_their_order() {
        let journal = Journal::default();
        let retry = Fate::Retry {
            attempts: 1,
            after: std::time::Duration::ZERO,
            error: "first".into(),
        };
        let records = [record(1), record(2)];
        journal.write("orders", &records, &[retry, Fate::Published]);
        journal.write("orders", &records[..1], &[dead("second")]);
        let of_first = journal.failures(&RecordId::Int(1));
        let seen: Vec<(u32, &str, bool)> = of_first
            .iter()
            .map(|failed| (failed.attempt, &*failed.error, failed.dead))
            .collect();
        assert_eq!(seen, [(1, "first", false), (2, "second", true)]);
        assert_eq!(journal.failures(&RecordId::Int(2)), []);
    }

    #[test]
    fn a_refused_fate_is_news_once_until_its_wait_is_over() {
        let journal = Journal::default();
        let refused = |id, wait| Refused {
            id: RecordId::Int(id),
            published: true,
            reason: "no".into(),
            wait,
        };
        let (none, hour) = (
            std::time::Duration::ZERO,
            std::time::Duration::from_secs(3600),
        );
        assert!(journal.is_news(&refused(1, hour)) && !journal.is_news(&refused(1, hour)));
        assert!(journal.is_news(&refused(2, none)) && journal.is_news(&refused(2, hour)));
        assert!(!journal.is_news(&refused(2, hour)));
        for id in 0..20_000 {
            journal.is_news(&refused(id, hour));
        }
        assert!(journal.refused.lock().unwrap().len() <= REFUSED_MAX);
    }

    #[test]
    fn the_failures_of_a_record_with_an_endless_id_are_not_remembered() {
        let journal = Journal::default();
        let id = RecordId::Text("x".repeat(300).into());
        let record = Record::bare(id.clone(), "1".into());
        journal.write("orders", &[record], &[dead("no")]);
        assert_eq!(journal.failures(&id), []);
    }

    #[test]
    fn only_the_last_failures_are_remembered() {
        let journal = Journal::default();
        for id in 0..=10_000 {
            journal.write("orders", &[record(id)], &[dead("no")]);
        }
        assert_eq!(journal.lock().len(), FAILURES_MAX);
        assert_eq!(journal.failures(&RecordId::Int(0)), []);
        assert_eq!(journal.failures(&RecordId::Int(10_000)).len(), 1);
    }
}
