//! Inboxes in SQLite: which events a consumer has applied, entered in the transaction of their effects.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Admission, Arrival, InboxStore, Purge, StoreError};
use serde_json::Value;
use sqlx::{Row as _, SqliteConnection};

pub use crate::sql::inbox::{IdType, InboxColumns, InboxLayout};

use super::bind::Bound;
use super::connect::Database;
use super::error::store_error;
use super::tx::Tx;
use super::{schema, shape};
use crate::desk::{Book, Desk, READ};
use crate::fitting::{ADMIT, Entries, Fitting};
use crate::sql::dialect::{Dialect, SQLITE};
use crate::sql::inbox::{create, purge};
use crate::sql::micros_of;
use crate::sql::table::Table;

/// The statements of [`init`], each of which may be run again.
pub fn ddl(layout: &InboxLayout) -> Vec<String> {
    create(layout, &SQLITE).into()
}

/// Creates the table and its index by age, unless the table is there: then it is left as it is. Safe from any number
/// of processes at once.
pub async fn init(database: &Database, layout: &InboxLayout) -> Result<(), StoreError> {
    schema::create(database, &layout.table, |found| match found {
        Some(_) => Vec::new(),
        None => ddl(layout),
    })
    .await
}

/// One inbox table. Cheap to clone; clones share what was read of the table.
#[derive(Debug, Clone)]
pub struct SqliteInbox {
    book: Book,
}

impl SqliteInbox {
    /// Does no I/O: the table is looked at when it is first needed.
    pub fn new(layout: InboxLayout) -> Self {
        Self {
            book: Book::new(layout),
        }
    }

    pub fn layout(&self) -> &InboxLayout {
        &self.book.layout
    }

    /// Whether the layout fits the table and its key; the error says what to do.
    pub async fn check(&self, database: &Database) -> Result<(), StoreError> {
        let failed = store_error(READ, &self.book.name());
        let mut connection = database.reader().await.map_err(failed)?;
        self.read(&mut connection).await.map(drop)
    }

    /// Deletes up to `limit` entries that are older than `keep`, and says how many.
    ///
    /// `keep` is how long a duplicate is recognised. Let it be longer than an event can take to come again: the
    /// broker's retention, or the longest that an outbox may stay unpublished.
    pub async fn purge(
        &self,
        database: &Database,
        keep: Duration,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let failed = store_error("purge the inbox", &self.book.name());
        let purge = Bound::new(&purge(&self.book.layout, &SQLITE).into())
            .int(1, i64::from(limit))
            .int(2, micros_of(keep));
        let mut tx = database.begin_to("purge the inbox").await?;
        let purged = purge.execute(&mut tx).await.map_err(&failed)?;
        tx.commit().await.map_err(&failed)?;
        Ok(purged.rows_affected())
    }

    /// This inbox as what the runtime cleans up.
    pub fn upkeep(&self, database: Database) -> InboxUpkeep {
        let inbox = self.clone();
        InboxUpkeep { inbox, database }
    }
}

/// Deletes old entries of an inbox: see [`SqliteInbox::purge`].
#[derive(Debug, Clone)]
pub struct InboxUpkeep {
    inbox: SqliteInbox,
    database: Database,
}

#[async_trait]
impl Purge for InboxUpkeep {
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        self.inbox.purge(&self.database, keep, limit).await
    }
}

#[async_trait]
impl InboxStore<Tx> for SqliteInbox {
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
impl Desk for SqliteInbox {
    const DIALECT: &'static Dialect = &SQLITE;
    type Connection = SqliteConnection;

    fn book(&self) -> &Book {
        &self.book
    }

    async fn shape(
        &self,
        connection: &mut SqliteConnection,
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
        connection: &mut SqliteConnection,
        fitting: &Fitting,
        entries: &Entries,
    ) -> Result<HashSet<String>, StoreError> {
        let failed = store_error(ADMIT, &self.book.name());
        let rows = (0..entries.lists[0].len()).map(|event| {
            let values = entries.lists.iter().map(|list| list[event].clone().into());
            Value::Array(values.collect())
        });
        let mut insert = Bound::new(&fitting.admit).list(1, rows.collect());
        if let Some(consumer) = &entries.consumer {
            insert = insert.text(entries.lists.len() + 1, consumer.clone());
        }
        let rows = insert.rows(connection).await.map_err(&failed)?;
        rows.iter()
            .map(|row| row.try_get_unchecked(0).map_err(&failed))
            .collect()
    }
}
