//! Admitting events to an inbox, whatever the database: its table is read once, values are made to fit, and what was
//! entered is first.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use postrider_core::layout::Identifier;
use postrider_core::{Admission, Arrival, StoreError};

use crate::fitting::{Entries, Fitting, admissions};
use crate::sql::dialect::Dialect;
use crate::sql::inbox::InboxLayout;
use crate::sql::table::Table;
use crate::structure::is_stale;

pub(crate) const READ: &str = "read the table's columns";

/// An inbox's layout, and what was read of its table until a statement shows that it has changed. Clones share that.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    pub(crate) layout: Arc<InboxLayout>,
    known: Arc<Mutex<Option<Arc<Fitting>>>>,
}

impl Book {
    pub(crate) fn new(layout: InboxLayout) -> Self {
        Self {
            layout: Arc::new(layout),
            known: Arc::default(),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.layout.table.to_string()
    }

    fn known(&self) -> Option<Arc<Fitting>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    fn remember(&self, fitting: Option<Arc<Fitting>>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = fitting;
    }
}

/// Where events are admitted. A database says how its tables are read and written.
#[async_trait]
pub(crate) trait Desk: Sync {
    const DIALECT: &'static Dialect;
    type Connection: Send;

    fn book(&self) -> &Book;

    /// The table, and whether no two of its rows can have the same values in these columns.
    async fn shape(
        &self,
        connection: &mut Self::Connection,
        key: &[&str],
    ) -> Result<(Option<Table>, bool), StoreError>;

    /// Runs [`Fitting::admit`] and gives the ids that were entered.
    async fn enter(
        &self,
        connection: &mut Self::Connection,
        fitting: &Fitting,
        entries: &Entries,
    ) -> Result<HashSet<String>, StoreError>;

    /// Reads the table, whatever was known of it.
    async fn read(&self, connection: &mut Self::Connection) -> Result<Arc<Fitting>, StoreError> {
        let layout = &self.book().layout;
        let key: Vec<&str> = layout.key().map(Identifier::as_str).collect();
        let (table, unique) = self.shape(connection, &key).await?;
        let fitting = Arc::new(Fitting::new(layout, Self::DIALECT, table, unique)?);
        self.book().remember(Some(fitting.clone()));
        Ok(fitting)
    }

    async fn admit(
        &self,
        connection: &mut Self::Connection,
        consumer: &str,
        arrivals: &[Arrival<'_>],
    ) -> Result<Vec<Admission>, StoreError> {
        if arrivals.is_empty() {
            return Ok(Vec::new());
        }
        let book = self.book();
        let mut fitting = match book.known() {
            Some(known) => known,
            None => self.read(connection).await?,
        };
        let entries = match fitting.entries(&book.layout, consumer, arrivals) {
            // The table may have changed since it was read.
            Err(_) => {
                fitting = self.read(connection).await?;
                fitting.entries(&book.layout, consumer, arrivals)?
            }
            entries => entries?,
        };
        let entered = self.enter(connection, &fitting, &entries).await;
        if entered.as_ref().is_err_and(is_stale) {
            book.remember(None);
        }
        let ids = entries.lists.into_iter().next().unwrap_or_default();
        Ok(admissions(ids, entered?))
    }
}
