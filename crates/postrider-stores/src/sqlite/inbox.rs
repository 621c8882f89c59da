//! Inboxes in SQLite: which events a consumer has applied, entered in the transaction of their effects.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::layout::Identifier;
use postrider_core::{Admission, Arrival, InboxStore, Purge, StoreError};
use serde_json::Value;
use sqlx::{Row as _, SqliteConnection};

pub use crate::sql::inbox::{IdType, InboxColumns, InboxLayout};

use super::bind::Bound;
use super::connect::Database;
use super::error::{is_stale, store_error};
use super::tx::Tx;
use super::{schema, shape};
use crate::fitting::{ADMIT, Entries, Fitting, admissions};
use crate::sql::dialect::SQLITE;
use crate::sql::inbox::{create, purge};
use crate::sql::micros_of;

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
    layout: Arc<InboxLayout>,
    /// What was read of the table, until a statement shows that it has changed.
    known: Arc<Mutex<Option<Arc<Fitting>>>>,
}

impl SqliteInbox {
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

    /// Whether the layout fits the table and its key; the error says what to do.
    pub async fn check(&self, database: &Database) -> Result<(), StoreError> {
        let failed = store_error("read the table's columns", &self.name());
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
        let failed = store_error("purge the inbox", &self.name());
        let purge = Bound::new(&purge(&self.layout, &SQLITE).into())
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

    fn name(&self) -> String {
        self.layout.table.to_string()
    }

    async fn fitting(&self, tx: &mut SqliteConnection) -> Result<Arc<Fitting>, StoreError> {
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

    async fn read(&self, tx: &mut SqliteConnection) -> Result<Arc<Fitting>, StoreError> {
        let failed = store_error("read the table's columns", &self.name());
        let table = &self.layout.table;
        let found = shape::read(tx, table).await.map_err(&failed)?;
        let key: Vec<&str> = self.layout.key().map(Identifier::as_str).collect();
        let unique = shape::is_unique(tx, table, &key).await.map_err(&failed)?;
        let fitting = Arc::new(Fitting::new(&self.layout, &SQLITE, found, unique)?);
        self.remember(Some(fitting.clone()));
        Ok(fitting)
    }

    fn remember(&self, fitting: Option<Arc<Fitting>>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = fitting;
    }

    async fn enter(
        &self,
        tx: &mut SqliteConnection,
        fitting: &Fitting,
        entries: &Entries,
    ) -> Result<HashSet<String>, StoreError> {
        let failed = store_error(ADMIT, &self.name());
        let rows = (0..entries.lists[0].len()).map(|event| {
            let values = entries.lists.iter().map(|list| list[event].clone().into());
            Value::Array(values.collect())
        });
        let mut insert = Bound::new(&fitting.admit).list(1, rows.collect());
        if let Some(consumer) = &entries.consumer {
            insert = insert.text(entries.lists.len() + 1, consumer.clone());
        }
        let rows = insert.rows(tx).await.map_err(&failed);
        if rows.as_ref().is_err_and(is_stale) {
            self.remember(None);
        }
        rows?
            .iter()
            .map(|row| row.try_get_unchecked(0).map_err(&failed))
            .collect()
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
        let entered = self.enter(tx, &fitting, &entries).await?;
        let ids = entries.lists.into_iter().next().unwrap_or_default();
        Ok(admissions(ids, entered))
    }
}
