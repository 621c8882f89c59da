//! Outboxes, inboxes and handlers' transactions in Postgres, 13 and later.
//!
//! Nothing outlives a transaction but prepared statements, and behind a pooler not even those: poolers in transaction mode
//! work, also those that do not track prepared statements (PgBouncer before 1.21). A pooler is found out by itself;
//! `?statement-cache-capacity=0` in the URL says that there is one.

mod audit;
mod capture;
mod check;
mod claim;
mod connect;
mod dead;
mod depth;
mod diagnosis;
mod emit;
mod error;
mod floor;
mod hold;
mod idle;
mod ids;
pub mod inbox;
mod lease;
mod outbox;
pub mod parked;
#[cfg(test)]
mod plans;
mod pool;
mod records;
mod rows;
mod schema;
mod settling;
mod shape;
mod stream;
mod stuck;
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
pub use sqlx::{PgConnection, PgPool};

pub use crate::options::Options;
pub use crate::wake::Wake;
pub use connect::{connect, connect_relay};
pub use emit::Outbox;
pub use inbox::{InboxLayout, PgInbox};
pub use parked::PgParkedKeys;
pub use schema::{InitOptions, ddl, init, init_table, table_ddl};
pub use stream::{Anchored, GroupStatus};
pub use transactions::PgTransactions;
pub use tx::Tx;

use crate::fates::Memory;
use outbox::Ready;
use pool::Pool;

/// One outbox table. Cheap to clone; clones share what was read of the table.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pool: Pool,
    options: Options,
    /// What was read of the table, until a statement shows that it has changed.
    ready: tokio::sync::Mutex<Option<Arc<Ready>>>,
    memory: Memory,
}

impl PostgresStore {
    /// Does no I/O: the table is looked at when it is first needed.
    pub fn new(pool: PgPool, options: Options) -> Self {
        let options = options.checked();
        let ready = tokio::sync::Mutex::default();
        Self {
            inner: Arc::new(Inner {
                pool: Pool::new(pool),
                options,
                ready,
                memory: Memory::default(),
            }),
        }
    }

    /// Wakes when rows are inserted, where `init` has set up the notifying trigger. A hint that shortens
    /// the wait: polling stays the truth. Behind a pooler there are no hints.
    pub fn listen(&self) -> Wake {
        wake::start(&self.inner.pool, &self.inner.options.layout.table)
    }
}

#[async_trait]
impl Purge for PostgresStore {
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        let ready = self.inner.ready().await?;
        self.inner
            .forget_if_stale(upkeep::purge(&self.inner, &ready, keep, limit).await)
            .await
    }
}

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn claim(&self, want: Want) -> Result<Option<Box<dyn Claim>>, StoreError> {
        let ready = self.inner.ready().await?;
        self.inner.look_after_stuck(&ready).await?;
        let idle = match self.inner.options.layout.claim {
            ClaimMode::Hold | ClaimMode::Lease => idle::is_idle(&self.inner, &ready).await,
            ClaimMode::Stream => false,
        };
        if idle {
            return Ok(None);
        }
        let claimed = match self.inner.options.layout.claim {
            ClaimMode::Hold => hold::claim(&self.inner, ready, want).await,
            ClaimMode::Lease => lease::claim(&self.inner, ready, want).await,
            ClaimMode::Stream => stream::claim(&self.inner, ready, want).await,
        };
        self.inner.forget_if_stale(claimed).await
    }

    async fn open(&self) -> Result<(), StoreError> {
        let ready = self.inner.ready().await?;
        self.inner
            .forget_if_stale(stream::check(&self.inner, &ready).await)
            .await
    }

    async fn backlog(&self) -> Result<Backlog, StoreError> {
        let ready = self.inner.ready().await?;
        self.inner
            .forget_if_stale(upkeep::backlog(&self.inner, &ready).await)
            .await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        upkeep::ping(&self.inner.pool).await
    }

    async fn tend(&self) -> Result<Option<Duration>, StoreError> {
        let ready = self.inner.ready().await?;
        self.inner
            .forget_if_stale(floor::tend(&self.inner, &ready).await)
            .await
    }

    fn findings(&self) -> Vec<Finding> {
        self.inner.memory.findings()
    }
}

#[async_trait]
impl Diagnosis for PostgresStore {
    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        check::findings(&self.inner).await
    }

    async fn diagnose(&self, limits: &Limits) -> Result<Vec<Finding>, StoreError> {
        diagnosis::findings(self, limits).await
    }
}
