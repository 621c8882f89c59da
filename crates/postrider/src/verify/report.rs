//! What a comparison found.

use postrider_core::{EventId, ReadbackError, RecordId, RouteError, StoreError, Timestamp};

/// What was compared and what is wrong with it.
#[derive(Debug, Clone)]
pub struct Report {
    pub since: Timestamp,
    pub until: Timestamp,
    /// Published records of the range: those that were compared.
    pub published: u64,
    /// Records of the range that are not published yet. They are not lost.
    pub waiting: u64,
    /// Records of the range that were given up.
    pub dead: u64,
    /// Topics that were read.
    pub topics: u64,
    /// Messages that were read.
    pub messages: u64,
    /// Messages of these records that a replay has sent.
    pub replayed: u64,
    /// Messages that this outbox cannot have made: without an event id, or with another kind of id or event type.
    pub foreign: u64,
    /// Records that the broker does not have.
    pub lost: Tally,
    /// Records that it has more than once, replays left out.
    pub duplicated: Tally,
    /// Records that it has before an earlier one of their key; `None` where the outbox keeps no order.
    pub inverted: Option<Tally>,
    /// Messages of the range with an event id that the outbox does not have. Those of purged records look the same.
    pub unknown: Tally,
    /// What keeps the comparison from being whole.
    pub notes: Vec<String>,
}

/// How many, and the first of them.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    pub count: u64,
    pub first: Vec<Suspect>,
}

/// A record or a message that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspect {
    pub event_id: EventId,
    /// `None` where the outbox has none.
    pub record: Option<RecordId>,
    pub event_type: Option<String>,
    pub key: Option<String>,
    /// What was seen, in words.
    pub seen: String,
}

/// Where a comparison stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifyProgress {
    pub stage: Stage,
    pub done: u64,
    /// 0 where it is not known.
    pub total: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stage {
    /// Records are read.
    #[default]
    Outbox,
    /// Messages are read.
    Broker,
    /// Ids that are not of the range are looked for in the outbox.
    Lookup,
}

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    #[error(
        "layout {layout} puts no event id into the messages' headers, so messages and records cannot be compared; \
         name one under [outbox.attributes], for example event_id = \"event_id\""
    )]
    NoEventId { layout: String },
    #[error(
        "the range has {records} published records, and at most {limit} are compared at a time ({} MB of memory); \
         take a shorter range by since and until, one after the other",
        limit.saturating_mul(super::RECORD_BYTES as u64) / 1_000_000
    )]
    TooMany { records: u64, limit: u64 },
    #[error(
        "records of the range go to more than {limit} topics; take a shorter range by since and until"
    )]
    TooManyTopics { limit: usize },
    #[error("the topic of record {record} is not known")]
    NoTopic {
        record: RecordId,
        #[source]
        source: RouteError,
    },
    #[error("outbox cannot be read")]
    Outbox(#[from] StoreError),
    #[error("broker cannot be read")]
    Broker(#[from] ReadbackError),
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        let inverted = self.inverted.as_ref().map_or(0, |tally| tally.count);
        self.lost.count + self.duplicated.count + inverted + self.unknown.count == 0
    }
}
