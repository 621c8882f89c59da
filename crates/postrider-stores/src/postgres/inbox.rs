//! Inboxes in Postgres: which events a consumer has applied, entered in the transaction of their effects.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::layout::Identifier;
use postrider_core::{Admission, Arrival, InboxStore, Purge, StoreError};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row as _};

pub use crate::sql::inbox::{IdType, InboxColumns, InboxLayout};

use super::error::{is_stale, store_error};
use super::outbox::query;
use super::tx::Tx;
use super::{schema, shape};
use crate::fitting::{ADMIT, Entries, Fitting, admissions};
use crate::sql::dialect::POSTGRES;
use crate::sql::inbox::{create, purge};
use crate::sql::micros_of;

/// The statements of [`init`], each of which may be run again.
pub fn ddl(layout: &InboxLayout) -> Vec<String> {
    schema::schema(&layout.table)
        .into_iter()
        .chain(create(layout, &POSTGRES))
        .collect()
}

/// Creates the table and its index by age, unless the table is there: then it is left as it is. Safe from any number
/// of processes at once.
pub async fn init(pool: &PgPool, layout: &InboxLayout) -> Result<(), StoreError> {
    schema::create_missing(pool, &layout.table, &create(layout, &POSTGRES)).await
}

/// One inbox table. Cheap to clone; clones share what was read of the table.
#[derive(Debug, Clone)]
pub struct PgInbox {
    layout: Arc<InboxLayout>,
    /// What was read of the table, until a statement shows that it has changed.
    known: Arc<Mutex<Option<Arc<Fitting>>>>,
}

impl PgInbox {
    /// Does no I/O: the table is looked at when it is first needed.
    pub fn new(layout: InboxLayout) -> Self {
        Self {
            layout: Arc::new(layout),
            known: Arc::default(),
        }
    }

    pub fn layout(&self) -> &InboxLayout {
        &self.layout
    }

    /// Whether the layout fits the table, its privileges and its key; the error says what to do.
    pub async fn check(&self, pool: &PgPool) -> Result<(), StoreError> {
        let failed = store_error("read the table's columns", &self.name());
        let mut connection = pool.acquire().await.map_err(failed)?;
        self.read(&mut connection).await.map(drop)
    }

    /// Deletes up to `limit` entries that are older than `keep`, and says how many. Passes over entries that
    /// somebody has locked, and keeps nobody from entering others.
    ///
    /// `keep` is how long a duplicate is recognised. Let it be longer than an event can take to come again: the
    /// broker's retention, or the longest that an outbox may stay unpublished.
    pub async fn purge(
        &self,
        pool: &PgPool,
        keep: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let purge = sqlx::query(AssertSqlSafe(purge(&self.layout, &POSTGRES)))
            .bind(i64::from(limit))
            .bind(micros_of(keep));
        let purged = purge.execute(pool).await;
        let purged = purged.map_err(store_error("purge the inbox", &self.name()))?;
        Ok(purged.rows_affected())
    }

    /// This inbox as what the runtime cleans up.
    pub fn upkeep(&self, pool: PgPool) -> InboxUpkeep {
        let inbox = self.clone();
        InboxUpkeep { inbox, pool }
    }

    fn name(&self) -> String {
        self.layout.table.to_string()
    }

    async fn fitting(&self, tx: &mut PgConnection) -> Result<Arc<Fitting>, StoreError> {
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match known {
            Some(known) => Ok(known),
            None => self.read(tx).await,
        }
    }

    async fn read(&self, tx: &mut PgConnection) -> Result<Arc<Fitting>, StoreError> {
        let failed = store_error("read the table's columns", &self.name());
        let table = &self.layout.table;
        let found = shape::read(tx, table).await.map_err(&failed)?;
        let key: Vec<&str> = self.layout.key().map(Identifier::as_str).collect();
        let unique = shape::is_unique(tx, table, &key).await.map_err(&failed)?;
        let fitting = Arc::new(Fitting::new(&self.layout, &POSTGRES, found, unique)?);
        self.remember(Some(fitting.clone()));
        Ok(fitting)
    }

    fn remember(&self, fitting: Option<Arc<Fitting>>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = fitting;
    }

    async fn enter(
        &self,
        tx: &mut PgConnection,
        fitting: &Fitting,
        entries: Entries,
    ) -> Result<HashSet<String>, StoreError> {
        let failed = store_error(ADMIT, &self.name());
        let mut insert = query(&fitting.admit);
        for list in entries.lists {
            insert = insert.bind(list);
        }
        if let Some(consumer) = entries.consumer {
            insert = insert.bind(consumer);
        }
        let rows = insert.fetch_all(tx).await.map_err(&failed);
        if rows.as_ref().is_err_and(is_stale) {
            self.remember(None);
        }
        rows?
            .iter()
            .map(|row| row.try_get(0).map_err(&failed))
            .collect()
    }
}

/// Deletes old entries of an inbox: see [`PgInbox::purge`].
#[derive(Debug, Clone)]
pub struct InboxUpkeep {
    inbox: PgInbox,
    pool: PgPool,
}

#[async_trait]
impl Purge for InboxUpkeep {
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        self.inbox.purge(&self.pool, keep, limit).await
    }
}

#[async_trait]
impl InboxStore<Tx> for PgInbox {
    async fn admit(
        &self,
        tx: &mut Tx,
        consumer: &str,
        arrivals: &[Arrival<'_>],
    ) -> Result<Vec<Admission>, StoreError> {
        if arrivals.is_empty() {
            return Ok(Vec::new());
        }
        let mut fitting = self.fitting(tx).await?;
        let entries = match fitting.entries(&self.layout, consumer, arrivals) {
            // The table may have changed since it was read.
            Err(_) => {
                fitting = self.read(tx).await?;
                fitting.entries(&self.layout, consumer, arrivals)?
            }
            entries => entries?,
        };
        let ids = entries.lists[0].clone();
        let entered = self.enter(tx, &fitting, entries).await?;
        Ok(admissions(ids, entered))
    }
}
