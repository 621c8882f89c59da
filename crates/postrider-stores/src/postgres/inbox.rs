//! Inboxes in Postgres: which events a consumer has applied, entered in the transaction of their effects.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Admission, Arrival, InboxStore, Purge, StoreError};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row as _};

pub use crate::sql::inbox::{IdType, InboxColumns, InboxLayout};

use super::error::store_error;
use super::outbox::query;
use super::pool::Pool;
use super::tx::{OPERATOR_MAX, Tx, bounded};
use super::{schema, shape};
use crate::desk::{Book, Desk, READ};
use crate::fitting::{ADMIT, Entries, Fitting};
use crate::sql::dialect::{Dialect, POSTGRES};
use crate::sql::inbox::{create, purge};
use crate::sql::micros_of;
use crate::sql::table::Table;

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

/// Deletes that take longer are given up, and keep no locks.
const PURGING_MAX: Duration = Duration::from_secs(60);

/// One inbox table. Cheap to clone; clones share what was read of the table.
#[derive(Debug, Clone)]
pub struct PgInbox {
    book: Book,
}

impl PgInbox {
    /// Does no I/O: the table is looked at when it is first needed.
    pub fn new(layout: InboxLayout) -> Self {
        Self {
            book: Book::new(layout),
        }
    }

    pub fn layout(&self) -> &InboxLayout {
        &self.book.layout
    }

    /// Whether the layout fits the table, its privileges and its key; the error says what to do.
    pub async fn check(&self, pool: &PgPool) -> Result<(), StoreError> {
        let failed = store_error(READ, &self.book.name());
        let pool = Pool::new(pool.clone());
        let begun = Tx::begin(&pool, bounded(OPERATOR_MAX).into()).await;
        let (mut tx, _) = begun.map_err(&failed)?;
        self.read(&mut tx).await?;
        tx.commit().await.map_err(failed)
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
        let purge = sqlx::query(AssertSqlSafe(purge(&self.book.layout, &POSTGRES)))
            .bind(i64::from(limit))
            .bind(micros_of(keep));
        let pool = Pool::new(pool.clone());
        let purged = async {
            let (mut tx, _) = Tx::begin(&pool, bounded(PURGING_MAX).into()).await?;
            let purged = purge.execute(tx.connection()).await?;
            tx.commit().await?;
            Ok(purged)
        };
        let purged: Result<_, sqlx::Error> = purged.await;
        let purged = purged.map_err(store_error("purge the inbox", &self.book.name()))?;
        Ok(purged.rows_affected())
    }

    /// This inbox as what the runtime cleans up.
    pub fn upkeep(&self, pool: PgPool) -> InboxUpkeep {
        let inbox = self.clone();
        InboxUpkeep { inbox, pool }
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
        Desk::admit(self, tx, consumer, arrivals).await
    }
}

#[async_trait]
impl Desk for PgInbox {
    const DIALECT: &'static Dialect = &POSTGRES;
    type Connection = PgConnection;

    fn book(&self) -> &Book {
        &self.book
    }

    async fn shape(
        &self,
        connection: &mut PgConnection,
        key: &[&str],
    ) -> Result<(Option<Table>, bool), StoreError> {
        let failed = store_error(READ, &self.book.name());
        let table = &self.book.layout.table;
        let found = shape::read(connection, table).await.map_err(&failed)?;
        let unique = shape::is_unique(connection, table, key).await;
        Ok((found, unique.map_err(&failed)?))
    }

    async fn enter(
        &self,
        connection: &mut PgConnection,
        fitting: &Fitting,
        entries: &Entries,
    ) -> Result<HashSet<String>, StoreError> {
        let failed = store_error(ADMIT, &self.book.name());
        let mut insert = query(&fitting.admit);
        for list in &entries.lists {
            insert = insert.bind(list.clone());
        }
        if let Some(consumer) = &entries.consumer {
            insert = insert.bind(consumer.clone());
        }
        let rows = insert.fetch_all(connection).await.map_err(&failed)?;
        rows.iter()
            .map(|row| row.try_get(0).map_err(&failed))
            .collect()
    }
}
