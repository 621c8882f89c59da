//! What an operator sees of an outbox and does to it. Works on the table alone: no relay is needed.

use std::time::Duration;

use async_trait::async_trait;

use crate::{EventId, OutboxStore, Record, RecordId, StoreError, Timestamp};

/// A store as the binary uses it.
pub trait ManagedStore: OutboxStore + Records + DeadLetters + Audit + Diagnosis {}
impl<S: OutboxStore + Records + DeadLetters + Audit + Diagnosis> ManagedStore for S {}

/// The records of an outbox, whatever their state.
#[async_trait]
pub trait Records: Send + Sync {
    /// Up to `limit` records that match, in the outbox's order, from just after `from`. Payloads are not read.
    async fn find(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<StoredRecord>, StoreError>;

    /// The same records whole, as a claim would give them, for sending again or reading a payload. Claims nothing.
    async fn read(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Record>, StoreError>;

    async fn count(&self, filter: &RecordFilter) -> Result<u64, StoreError>;

    /// Keys that a dead or waiting record holds up, the longest held first.
    async fn parked(&self, limit: u32) -> Result<Vec<ParkedKey>, StoreError>;
}

/// What may be done with dead records. Every change is written to the audit table in the same transaction; where that
/// table is missing, nothing is changed and the error says that `postrider init` creates it.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Makes dead records pending again, with their attempts counted from 0, and says how many it found dead. Their
    /// error stays readable, marked as resent.
    async fn resend(&self, ids: &[RecordId], by: &Actor) -> Result<u64, StoreError>;

    /// Deletes dead records for good, which frees their keys, and says how many.
    async fn discard(&self, ids: &[RecordId], by: &Actor) -> Result<u64, StoreError>;
}

/// Who did what to an outbox, and when.
#[async_trait]
pub trait Audit: Send + Sync {
    /// Writes down something that changes no record here: a replay, a look at a payload.
    async fn note(&self, by: &Actor, act: &Act) -> Result<(), StoreError>;

    /// The latest first; of one record where `record` is given.
    async fn audited(
        &self,
        record: Option<&RecordId>,
        limit: u32,
    ) -> Result<Vec<Audited>, StoreError>;
}

/// Looks for what is wrong with a table or its database.
#[async_trait]
pub trait Diagnosis: Send + Sync {
    /// Compares the layout with the table, its privileges and indexes, and looks for settings that lose or reorder
    /// events. The worst first.
    async fn check(&self) -> Result<Vec<Finding>, StoreError>;

    /// What holds the backlog up right now, as far as the database knows. The worst first.
    async fn diagnose(&self, limits: &Limits) -> Result<Vec<Finding>, StoreError>;
}

/// What a diagnosis compares the outbox with.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// The largest payload that the broker takes, where it is known.
    pub payload_bytes_max: Option<u64>,
    /// Whether a relay is known to run, so that nobody looks for its session.
    pub relay_runs: bool,
}

/// Where a page ended. Opaque text that stays good when records come and go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

#[derive(Debug, Clone)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page begins; `None` where this one is the last.
    pub next: Option<Cursor>,
}

/// Which records. Empty fields match everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordFilter {
    pub state: Option<RecordState>,
    pub ids: Vec<RecordId>,
    pub event_type: Option<String>,
    pub key: Option<String>,
    /// Of the topic column; layouts without one match nothing.
    pub topic: Option<String>,
    /// Text that the last error contains, in any case.
    pub error: Option<String>,
    /// By `created_at`: from this time on, and before that one.
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl RecordFilter {
    pub fn dead() -> Self {
        Self::in_state(RecordState::Dead)
    }

    pub fn in_state(state: RecordState) -> Self {
        Self {
            state: Some(state),
            ..Self::default()
        }
    }
}

/// Every record is in one state. What is yet to be published, which a backlog counts, is pending or waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordState {
    /// To be published and not failed so far, those in flight included.
    Pending,
    /// Failed and not dead: tried again at its retry time.
    Waiting,
    Dead,
    Published,
}

impl RecordState {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Waiting, Self::Dead, Self::Published];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Waiting => "waiting",
            Self::Dead => "dead",
            Self::Published => "published",
        }
    }
}

/// What is known of a record without its payload.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    pub id: RecordId,
    pub event_id: EventId,
    pub event_type: Option<String>,
    pub aggregate_type: Option<String>,
    pub aggregate_id: Option<String>,
    pub key: Option<String>,
    pub topic: Option<String>,
    pub state: RecordState,
    pub attempts: u32,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub published_at: Option<Timestamp>,
    /// When it is tried again, where it waits and the table says so.
    pub retry_at: Option<Timestamp>,
    /// `None` where the payload is NULL.
    pub payload_bytes: Option<u64>,
}

/// A key whose later records wait for an earlier one.
#[derive(Debug, Clone)]
pub struct ParkedKey {
    pub key: String,
    /// The record that holds the key up.
    pub first: StoredRecord,
    /// Records of the key that wait behind it.
    pub behind: u64,
}

/// Who makes a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// `replay`, `read payload`; a change writes `resend` or `discard` by itself.
    pub action: String,
    pub record: Option<RecordId>,
    /// What was asked for, in words. Never a payload.
    pub detail: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Audited {
    pub at: Timestamp,
    pub by: Actor,
    pub act: Act,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The relay cannot work, or nothing moves.
    Error,
    /// It works, but slowly or with fewer promises.
    Warning,
    /// Worth knowing.
    Note,
}

/// Something that was found in a table, its database or a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// The table, column, key, session or setting.
    pub subject: String,
    pub message: String,
    /// What to do about it: a statement or a command where there is one.
    pub remedy: Option<String>,
}

impl Finding {
    pub fn new(level: Level, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            level,
            subject: subject.into(),
            message: message.into(),
            remedy: None,
        }
    }

    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// A record that is older than this and still pending is worth a word in a diagnosis.
pub const OVERDUE: Duration = Duration::from_secs(60);
