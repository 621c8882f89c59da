//! What is written down of an operator's act, whatever the database. Everything is cut to a bound.

use postrider_core::{Act, Actor, RecordId, text};

const WHO_BYTES_MAX: usize = 256;
const DETAIL_BYTES_MAX: usize = 1024;

/// What a row says besides the record.
pub(crate) struct Entry {
    pub who: String,
    pub action: String,
    pub outbox: String,
    pub detail: Option<String>,
}

impl Entry {
    pub(crate) fn new(by: &Actor, act: &Act, outbox: &str) -> Self {
        Self {
            who: text::bounded(&by.0, WHO_BYTES_MAX),
            action: text::bounded(&act.action, WHO_BYTES_MAX),
            outbox: outbox.to_owned(),
            detail: act
                .detail
                .as_ref()
                .map(|detail| text::bounded(detail, DETAIL_BYTES_MAX)),
        }
    }
}

/// A record's id as the audit has it.
pub(crate) fn audited_id(id: &RecordId) -> String {
    text::bounded(&id.to_string(), DETAIL_BYTES_MAX)
}
