//! Outboxes, inboxes and handlers' transactions in a SQLite file, for one machine and any number of its processes.
//!
//! SQLite locks no rows and has one writer at a time. So nothing here keeps a write transaction open for longer than its
//! statements take: see `claims`.

mod audit;
mod bind;
mod capture;
mod check;
mod claims;
mod connect;
mod dead;
mod diagnosis;
mod emit;
mod error;
mod hold;
pub mod inbox;
mod lease;
mod outbox;
pub mod parked;
mod process;
mod records;
mod rows;
mod schema;
mod settling;
mod shape;
mod transactions;
mod tx;
mod upkeep;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::layout::ClaimMode;
use postrider_core::{
    Backlog, Claim, Diagnosis, Finding, Limits, OutboxStore, Purge, StoreError, Want,
};
pub use sqlx::SqliteConnection;

pub use crate::options::Options;
pub use crate::wake::Wake;
pub use connect::{BUSY_TIMEOUT, Database, LOG_BYTES_MAX, connect};
pub use emit::Outbox;
pub use inbox::{InboxLayout, SqliteInbox};
pub use parked::SqliteParkedKeys;
pub use schema::{InitOptions, ddl, init};
pub use transactions::SqliteTransactions;
pub use tx::Tx;

use crate::fates::Memory;
use error::{is_busy, store_error};
use outbox::Ready;

/// How often settling tries to begin, each time for [`BUSY_TIMEOUT`]: what is not settled is published again.
const SETTLE_TRIES: u32 = 3;

/// One outbox table. Cheap to clone; clones share what was read of the table.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    options: Options,
    claims: claims::Statements,
    /// What was read of the table, until a statement shows that it has changed.
    ready: tokio::sync::Mutex<Option<Arc<Ready>>>,
    memory: Memory,
}

impl SqliteStore {
    /// Does no I/O: the table is looked at when it is first needed.
    pub fn new(database: Database, options: Options) -> Self {
        Self {
            inner: Arc::new(Inner {
                claims: claims::Statements::new(&options.layout.table),
                options: options.checked(),
                database,
                ready: tokio::sync::Mutex::default(),
                memory: Memory::default(),
            }),
        }
    }

    /// Wakes when anybody has committed to the file, in this process or another. A hint that shortens the wait: polling
    /// stays the truth.
    pub fn listen(&self) -> Wake {
        wake::start(&self.inner.database)
    }
}

impl Inner {
    async fn begin_settling(&self) -> Result<Tx, StoreError> {
        let mut tries = 1;
        loop {
            match self.database.try_begin().await {
                Err(error) if is_busy(&error) && tries < SETTLE_TRIES => tries += 1,
                begun => return begun.map_err(store_error("settle a claim", &self.name())),
            }
        }
    }
}

#[async_trait]
impl Purge for SqliteStore {
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        let ready = self.inner.ready().await?;
        let purged = upkeep::purge(&self.inner, &ready, keep, limit).await;
        self.inner.forget_if_stale(purged).await
    }
}

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn claim(&self, want: Want) -> Result<Option<Box<dyn Claim>>, StoreError> {
        let ready = self.inner.ready().await?;
        self.inner.look_after_stuck(&ready).await?;
        let claimed = match self.inner.options.layout.claim {
            ClaimMode::Hold => hold::claim(&self.inner, ready, want).await,
            ClaimMode::Lease => lease::claim(&self.inner, ready, want).await,
            // Such a layout fits no table here, so there is nothing that is ready.
            ClaimMode::Stream => Ok(None),
        };
        self.inner.forget_if_stale(claimed).await
    }

    async fn open(&self) -> Result<(), StoreError> {
        self.inner.ready().await.map(drop)
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let ready = self.inner.ready().await?;
        let counted = upkeep::backlog(&self.inner, &ready).await;
        self.inner.forget_if_stale(counted).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        upkeep::ping(&self.inner.database).await
    }

    fn findings(&self) -> Vec<Finding> {
        self.inner.memory.findings()
    }
}

#[async_trait]
impl Diagnosis for SqliteStore {
    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        check::findings(&self.inner).await
    }

    async fn diagnose(&self, limits: &Limits) -> Result<Vec<Finding>, StoreError> {
        diagnosis::findings(self, limits).await
    }
}
