//! One log line per event, with what an operator searches for. Never a payload.

use std::borrow::Cow;

use postrider_core::{Fate, Record};

/// Publishing is said at debug level (a line per event costs more than the event), trouble always.
pub(super) fn write(outbox: &str, records: &[Record], fates: &[Fate]) {
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
            }
            Fate::Dead { attempts, error } => {
                line!(ERROR, outbox, record, "dead", attempts, error);
            }
        }
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
