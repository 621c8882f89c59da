//! Recording events in the caller's own transaction, whatever the database: what may be refused is refused before any
//! statement is sent.

mod error;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::layout::{Identifier, TableName};
use postrider_core::{Emitted, Event, HandlerError, Layout, Room, Routes, Timestamp};

pub use error::EmitError;

use crate::sql::draft::{Drafting, Drafts};
use crate::sql::table::Table;
use crate::trace;

/// One statement records no more events, and no more bytes of payload, than these; more take several.
const EVENTS_MAX: usize = 5_000;
const PAYLOAD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A connection in the caller's transaction.
pub(crate) trait Recorder: Send {
    /// The table as it is, or nothing where there is none.
    fn shape(
        &mut self,
        table: &TableName,
    ) -> impl Future<Output = Result<Option<Table>, EmitError>> + Send;

    /// Records events and gives the ids of those that were new.
    fn record(
        &mut self,
        layout: &Layout,
        table: &Table,
        drafts: &Drafts<'_>,
    ) -> impl Future<Output = Result<Vec<String>, EmitError>> + Send;
}

/// Writes events to an outbox table. Clones share what was read of it.
#[derive(Debug, Clone)]
pub(crate) struct Emitter {
    pub(crate) layout: Arc<Layout>,
    routes: Arc<Routes>,
    /// What was read of the table by the first emit.
    table: Arc<Mutex<Option<Arc<Table>>>>,
}

impl Emitter {
    pub(crate) fn new(layout: Layout) -> Self {
        Self {
            layout: Arc::new(layout),
            routes: Arc::default(),
            table: Arc::default(),
        }
    }

    pub(crate) fn with_routes(self, routes: Routes) -> Self {
        Self {
            routes: Arc::new(routes),
            ..self
        }
    }

    pub(crate) async fn emit_all(
        &self,
        tx: &mut impl Recorder,
        events: &[Event],
    ) -> Result<Vec<Emitted>, EmitError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let trace = trace::current();
        let table = self.table(tx).await?;
        let drafting = |table| Drafting {
            layout: &self.layout,
            table,
            routes: &self.routes,
            trace: trace.as_ref(),
            now: Timestamp::now(),
        };
        let chunks = self.chunks(events);
        let draft_all = |table| -> Result<Vec<Drafts<'_>>, EmitError> {
            chunks
                .iter()
                .map(|chunk| drafting(table).draft(chunk))
                .collect()
        };
        let fresh;
        let (drafts, table) = match draft_all(&table) {
            // The table may have changed since it was read: an enum may have got a word.
            Err(
                EmitError::Unfit { .. } | EmitError::NoPlace { .. } | EmitError::Missing { .. },
            ) => {
                fresh = self.read(tx).await?;
                (draft_all(&fresh)?, &fresh)
            }
            drafts => (drafts?, &table),
        };
        let mut emitted = Vec::with_capacity(events.len());
        for drafts in drafts {
            let recorded = tx.record(&self.layout, table, &drafts).await?;
            emitted.extend(self.emitted(&drafts, recorded));
        }
        Ok(emitted)
    }

    fn emitted(&self, drafts: &Drafts<'_>, recorded: Vec<String>) -> Vec<Emitted> {
        if !self.stores_event_id() {
            let emitted = if recorded.is_empty() {
                Emitted::Duplicate
            } else {
                Emitted::Recorded
            };
            return vec![emitted; drafts.event_ids.len()];
        }
        // An id that comes twice in one call is recorded once: the first time.
        let mut recorded: HashSet<String> = recorded.into_iter().collect();
        let ids = drafts.event_ids.iter();
        ids.map(|id| match recorded.remove(&**id) {
            true => Emitted::Recorded,
            false => Emitted::Duplicate,
        })
        .collect()
    }

    fn chunks<'e>(&self, events: &'e [Event]) -> Vec<&'e [Event]> {
        // Where the table has no event id, only a statement of its own tells whether an event was new.
        let count_max = if self.stores_event_id() {
            EVENTS_MAX
        } else {
            1
        };
        let mut chunks = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for (end, event) in events.iter().enumerate() {
            let full = end - start == count_max || bytes + event.payload.len() > PAYLOAD_BYTES_MAX;
            if full && end > start {
                chunks.push(&events[start..end]);
                (start, bytes) = (end, 0);
            }
            bytes += event.payload.len();
        }
        chunks.push(&events[start..]);
        chunks
    }

    fn stores_event_id(&self) -> bool {
        let columns = &self.layout.columns;
        columns.event_id.is_some()
            || (columns.event_id_header.is_some() && columns.headers.is_some())
    }

    /// What a record can hold, as far as is known: a table may lack the metadata column.
    pub(crate) fn room(&self) -> Room {
        let columns = &self.layout.columns;
        let known = self.known();
        let in_table = |name: &Identifier| {
            let known = known.as_ref();
            known.is_none_or(|table| table.column(name).is_some())
        };
        Room {
            headers: columns.headers.is_some(),
            metadata: columns.metadata.as_ref().is_some_and(in_table),
        }
    }

    fn known(&self) -> Option<Arc<Table>> {
        self.table
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    async fn table(&self, tx: &mut impl Recorder) -> Result<Arc<Table>, EmitError> {
        match self.known() {
            Some(table) => Ok(table),
            None => self.read(tx).await,
        }
    }

    async fn read(&self, tx: &mut impl Recorder) -> Result<Arc<Table>, EmitError> {
        let table = tx.shape(&self.layout.table).await?;
        let table = Arc::new(self.insertable(table)?);
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = Some(table.clone());
        Ok(table)
    }

    /// The table, if events can be written to it.
    fn insertable(&self, table: Option<Table>) -> Result<Table, EmitError> {
        let layout = &self.layout;
        let mismatch = |what: String| Err(EmitError::Mismatch(what));
        let Some(table) = table else {
            return mismatch(format!(
                "table {} does not exist; run `postrider init`",
                layout.table
            ));
        };
        let columns = &layout.columns;
        let named = [
            columns.event_id.as_ref(),
            columns.event_type.as_ref(),
            columns.aggregate_type.as_ref(),
            columns.aggregate_id.as_ref(),
            columns.topic.as_ref(),
            columns.key.as_ref(),
            columns.idempotency_key.as_ref(),
            columns.version.as_ref(),
            columns.headers.as_ref(),
            Some(&columns.payload),
            Some(&columns.id),
            Some(&columns.created_at),
        ];
        if let Some(absent) = named
            .into_iter()
            .flatten()
            .find(|name| table.column(name).is_none())
        {
            let has: Vec<&str> = table
                .columns
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            return mismatch(format!(
                "layout {} expects column {absent} in table {}, which has {}",
                layout.name,
                table.full_name,
                has.join(", ")
            ));
        }
        let made_by_database = table
            .column(&columns.id)
            .is_some_and(|id| id.default.is_some());
        let makes_id = columns.event_id.as_ref() == Some(&columns.id);
        if !makes_id && !made_by_database {
            return mismatch(format!(
                "column {} of table {} has no default, and layout {} keeps the event id elsewhere",
                columns.id, table.full_name, layout.name
            ));
        }
        let written = named
            .into_iter()
            .flatten()
            .filter(|name| makes_id || **name != columns.id);
        self.permitted(&table, written)?;
        Ok(table)
    }

    /// A statement that the database forbids would end the caller's transaction.
    fn permitted<'a>(
        &self,
        table: &Table,
        written: impl Iterator<Item = &'a Identifier>,
    ) -> Result<(), EmitError> {
        let columns = &self.layout.columns;
        let forbidden = |privilege: &str, name: &Identifier| {
            Err(EmitError::Mismatch(format!(
                "role {role} lacks {privilege} on column {name}; GRANT {privilege} ({}) ON {table} TO {role}",
                name.quoted(),
                role = table.role,
                table = table.full_name,
            )))
        };
        for name in written {
            if table.column(name).is_some_and(|column| !column.may_insert) {
                return forbidden("INSERT", name);
            }
        }
        // The statement says which events it recorded.
        let returned = columns
            .event_id
            .as_ref()
            .or(columns.headers.as_ref())
            .unwrap_or(&columns.id);
        if table
            .column(returned)
            .is_some_and(|column| !column.may_select)
        {
            return forbidden("SELECT", returned);
        }
        Ok(())
    }
}

/// What an error means for the event whose handler's output was to be recorded. `looked` says that the table was read for
/// the first time.
pub(crate) fn handler_error(
    error: EmitError,
    looked: bool,
    is_transient: impl Fn(&sqlx::Error) -> bool,
) -> HandlerError {
    match error {
        EmitError::Database { ref source, .. }
            if source.downcast_ref().is_some_and(is_transient) =>
        {
            HandlerError::unavailable(error)
        }
        // No event's fault: a migration or a GRANT is missing.
        EmitError::Database { .. } | EmitError::Mismatch(_) => HandlerError::temporary(error),
        EmitError::NoPlace { .. } if looked => HandlerError::temporary(error),
        _ => HandlerError::permanent(error),
    }
}
