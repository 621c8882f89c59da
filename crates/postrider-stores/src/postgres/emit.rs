//! Recording events in the caller's own transaction.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::layout::Identifier;
use postrider_core::{Emitted, Event, Layout, Room, Routes, Timestamp};
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::error::emit_error;
use super::{shape, trace};
use crate::EmitError;
use crate::sql::dialect::POSTGRES;
use crate::sql::draft::{Drafting, Drafts};
use crate::sql::statement::insert;
use crate::sql::table::{Kind, Table};

/// One statement records no more events, and no more bytes of payload, than these; more take several.
const EVENTS_MAX: usize = 5_000;
const PAYLOAD_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Writes events to an outbox table. Cheap to clone; keep one per table.
///
/// What can be refused is refused before any SQL is sent, so an error other than
/// [`EmitError::Database`] leaves the caller's transaction as it was.
#[derive(Debug, Clone)]
pub struct Outbox {
    layout: Arc<Layout>,
    routes: Arc<Routes>,
    /// What was read of the table by the first emit.
    table: Arc<Mutex<Option<Arc<Table>>>>,
}

impl Outbox {
    pub fn new(layout: Layout) -> Self {
        Self {
            layout: Arc::new(layout),
            routes: Arc::default(),
            table: Arc::default(),
        }
    }

    /// Refuses events that these routes would refuse later, and takes topics from them.
    #[must_use]
    pub fn with_routes(self, routes: Routes) -> Self {
        Self {
            routes: Arc::new(routes),
            ..self
        }
    }

    /// Records an event in the transaction that `tx` is in.
    pub async fn emit(&self, tx: &mut PgConnection, event: Event) -> Result<Emitted, EmitError> {
        let emitted = self.emit_all(tx, std::slice::from_ref(&event)).await?;
        Ok(emitted.into_iter().next().unwrap_or(Emitted::Duplicate))
    }

    /// Records events in order, in one statement (several above 5,000 events or 32 MiB of payload), and says
    /// of each whether it was new.
    pub async fn emit_all(
        &self,
        tx: &mut PgConnection,
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
        let drafts = match draft_all(&table) {
            // The table may have changed since it was read: an enum may have got a word.
            Err(
                EmitError::Unfit { .. } | EmitError::NoPlace { .. } | EmitError::Missing { .. },
            ) => {
                fresh = self.read(tx).await?;
                draft_all(&fresh)?
            }
            drafts => drafts?,
        };
        let mut emitted = Vec::with_capacity(events.len());
        for drafts in drafts {
            emitted.extend(self.insert(tx, drafts).await?);
        }
        Ok(emitted)
    }

    async fn insert(
        &self,
        tx: &mut PgConnection,
        drafts: Drafts<'_>,
    ) -> Result<Vec<Emitted>, EmitError> {
        let text = insert(&self.layout, &POSTGRES, &drafts);
        let mut insert = sqlx::query(AssertSqlSafe(text));
        for column in &drafts.columns {
            insert = if column.kind == Kind::Bytes {
                insert.bind(
                    column
                        .values
                        .iter()
                        .map(|value| value.as_deref())
                        .collect::<Vec<_>>(),
                )
            } else {
                let text = |value: &Option<Cow<'_, [u8]>>| {
                    value
                        .as_deref()
                        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                };
                insert.bind(column.values.iter().map(text).collect::<Vec<_>>())
            };
        }
        let rows = insert.fetch_all(tx).await.map_err(emit_error)?;
        if !self.stores_event_id() {
            let emitted = if rows.is_empty() {
                Emitted::Duplicate
            } else {
                Emitted::Recorded
            };
            return Ok(vec![emitted; drafts.event_ids.len()]);
        }
        // An id that comes twice in one call is recorded once: the first time.
        let mut recorded: HashMap<String, bool> = HashMap::new();
        for row in rows {
            recorded.insert(row.try_get(0).map_err(emit_error)?, true);
        }
        Ok(drafts
            .event_ids
            .iter()
            .map(|id| match recorded.remove(&**id) {
                Some(_) => Emitted::Recorded,
                None => Emitted::Duplicate,
            })
            .collect())
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
    pub(super) fn room(&self) -> Room {
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

    async fn table(&self, tx: &mut PgConnection) -> Result<Arc<Table>, EmitError> {
        match self.known() {
            Some(table) => Ok(table),
            None => self.read(tx).await,
        }
    }

    async fn read(&self, tx: &mut PgConnection) -> Result<Arc<Table>, EmitError> {
        let table = shape::read(tx, &self.layout.table)
            .await
            .map_err(emit_error)?;
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
