//! One log line per event, with what an operator searches for, and a bounded memory of the last failures. Never a
//! payload.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_core::{Fate, Record, RecordId, Timestamp};

/// Failed attempts that are remembered, of one outbox. An error has 1 KiB at most, so this is about 11 MB at most.
const FAILURES_MAX: usize = 10_000;

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
                    line!(WARN, outbox, record, "failed, will be tried again", attempts, error, retry_in = ?after);
                    self.remember(record, *attempts, error, false);
                }
                Fate::Dead { attempts, error } => {
                    line!(ERROR, outbox, record, "dead", attempts, error);
                    self.remember(record, *attempts, error, true);
                }
            }
        }
    }

    /// The failures of a record, the earliest first.
    pub(super) fn failures(&self, id: &RecordId) -> Vec<FailedAttempt> {
        let of_record =
            |(record, failed): &(RecordId, FailedAttempt)| (record == id).then(|| failed.clone());
        self.lock().iter().filter_map(of_record).collect()
    }

    fn remember(&self, record: &Record, attempt: u32, error: &str, dead: bool) {
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
            record_id = %$record.id,
            event_id = %$record.event_id,
            event_type = $record.event_type.as_deref(),
            aggregate_type = $record.aggregate_type.as_deref(),
            aggregate_id = $record.aggregate_id.as_deref(),
            trace_id = trace_id($record).as_deref(),
            $($($field)+,)?
            $text
        )
    };
}
use line;

/// The trace id: within a W3C trace parent (`00-<32 hex digits>-…`), or as the record's metadata has it.
fn trace_id(record: &Record) -> Option<Cow<'_, str>> {
    let parent = record
        .traceparent()
        .and_then(|parent| parent.split('-').nth(1));
    if let Some(id) = parent.filter(|id| id.len() == 32) {
        return Some(id.into());
    }
    let metadata: Metadata<'_> = serde_json::from_slice(record.metadata.as_deref()?).ok()?;
    metadata
        .trace_id
        .filter(|id| id.len() <= TRACE_ID_BYTES_MAX)
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
