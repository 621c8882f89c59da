//! The seam to databases: claims of records, and their fates.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::{BoxError, Fate, Finding, Record, RecordId};

/// A table that grows and has to be cut back.
#[async_trait]
pub trait Purge: Send + Sync + 'static {
    /// Deletes up to `limit` entries that have been done with for longer than `keep`, and says how many. An
    /// outbox's records that wait or are dead are never deleted.
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError>;
}

/// An outbox table, as the relay works on it.
#[async_trait]
pub trait OutboxStore: Purge {
    /// Takes up to `want.limit` records that nobody else holds, oldest first, or `None` where
    /// there is nothing to take now.
    ///
    /// * Two claims that are held at the same time never share a record; with order per key they never
    ///   share a key either.
    /// * With order per key, no record is given whose key has an earlier record that waits for
    ///   its retry time, is held elsewhere, or is dead and parks the key.
    /// * Dropping a claim without settling releases its records, at once or when its lease ends.
    async fn claim(&self, want: Want) -> Result<Option<Box<dyn Claim>>, StoreError>;

    /// Whether the table is there and fits, without looking at its records.
    async fn open(&self) -> Result<(), StoreError>;

    /// What the table holds right now, read from the table. Takes longer the more it holds.
    async fn backlog(&self) -> Result<Backlog, StoreError>;

    /// Whether the database answers. Used for readiness, never for correctness.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Keeps claims cheap: called beside them by whoever runs the store, again after the time that it gives, or never
    /// again. Claims are right without it.
    async fn tend(&self) -> Result<Option<Duration>, StoreError> {
        Ok(None)
    }

    /// What the store itself knows to be wrong right now, without asking the database.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// Records held by one relay: by an open transaction, a lease or a cursor. Which, is the store's business.
#[async_trait]
pub trait Claim: Send {
    /// In the order in which they must be published. Never empty.
    fn records(&self) -> &[Record];

    /// How many lanes the claim holds; 0 where order is not kept.
    fn lanes(&self) -> u32 {
        0
    }

    /// Whether several claims at once would get more done than one large one after the other.
    fn is_better_shared(&self) -> bool {
        true
    }

    /// When the claim lapses by itself. Nothing may be sent after that.
    fn lapses_at(&self) -> Option<Instant>;

    /// Goes on to further records without letting go, if the store has them at hand; asked only where all of `records` are
    /// published. After `true`, `records` are the further ones, and that the earlier ones are published is written when the
    /// claim is settled, whatever the fates of the others. Until then a crash sends all of them again.
    async fn go_on(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Writes one fate per record and lets go: all of them or none.
    async fn settle(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError>;
}

/// What a worker asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Most records.
    pub limit: u32,
    /// Most bytes. A record that is larger than this is claimed alone.
    pub bytes: usize,
    pub share: Share,
}

/// The part of the lanes that one worker looks at: those whose number leaves `index` when divided by
/// `of`. Only a way to keep one relay's workers apart; the store's locks keep relays apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub index: u32,
    pub of: u32,
}

impl Share {
    pub const ALL: Self = Self { index: 0, of: 1 };
}

/// What settling did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Records whose fate could not be written because the claim had lapsed and they belong to
    /// somebody else by now.
    pub lapsed: u64,
    /// Records whose fate the database refused to store. The store leaves them alone for a while, and longer each time.
    pub refused: Vec<Refused>,
}

/// A record whose fate the database refused to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub id: RecordId,
    /// Whether the broker has it: then it is sent again after each wait.
    pub published: bool,
    /// What the database said.
    pub reason: String,
    /// Until it is tried again.
    pub wait: Duration,
}

/// The state of an outbox, counted in the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Records that are still to be published, those in flight included.
    pub pending: u64,
    /// Age of the oldest of them.
    pub oldest_age: Option<Duration>,
    /// Records that were given up.
    pub dead: u64,
}

/// Why the database did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Cannot be reached, was cut off, or is too busy: the same call may succeed later.
    #[error("database unavailable: {reason}")]
    Unavailable {
        reason: String,
        #[source]
        source: Option<BoxError>,
    },
    /// The layout does not fit the table; trying again will not help.
    #[error("{0}")]
    Mismatch(String),
    /// What was to be stored or looked for does not fit; the same thing never will.
    #[error("cannot {action}: {reason}")]
    Unfit {
        action: &'static str,
        reason: String,
    },
    /// The database refused a statement.
    #[error("database refused to {action}: {reason}")]
    Refused {
        action: &'static str,
        reason: String,
        #[source]
        source: Option<BoxError>,
    },
}

impl StoreError {
    pub fn unavailable(error: impl Into<BoxError>) -> Self {
        let source = error.into();
        Self::Unavailable {
            reason: crate::text::chain(&*source),
            source: Some(source),
        }
    }

    pub fn refused(action: &'static str, error: impl Into<BoxError>) -> Self {
        let source = error.into();
        Self::Refused {
            action,
            reason: crate::text::chain(&*source),
            source: Some(source),
        }
    }
}
