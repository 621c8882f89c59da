//! Recording events in the caller's own transaction.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use postrider_core::layout::TableName;
use postrider_core::{Emitted, Event, Layout, Room, Routes};
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::error::emit_error;
use super::pool::is_direct;
use super::shape;
use crate::EmitError;
use crate::emit::{Emitter, Recorder};
use crate::sql::dialect::POSTGRES;
use crate::sql::draft::Drafts;
use crate::sql::statement::insert;
use crate::sql::table::{Kind, Table};

/// Writes events to an outbox table. Cheap to clone; keep one per table.
///
/// What can be refused is refused before any SQL is sent, so an error other than
/// [`EmitError::Database`] leaves the caller's transaction as it was.
#[derive(Debug, Clone)]
pub struct Outbox {
    emitter: Emitter,
    /// Whether statements are given names: not once a pooler was found, which may pass over names or mix them up.
    named: Arc<AtomicBool>,
}

impl Outbox {
    pub fn new(layout: Layout) -> Self {
        Self {
            emitter: Emitter::new(layout),
            named: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Refuses events that these routes would refuse later, and takes topics from them.
    #[must_use]
    pub fn with_routes(self, routes: Routes) -> Self {
        Self {
            emitter: self.emitter.with_routes(routes),
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
        let mut recorder = In {
            connection: tx,
            named: &self.named,
        };
        self.emitter.emit_all(&mut recorder, events).await
    }

    pub(super) fn room(&self) -> Room {
        self.emitter.room()
    }
}

struct In<'a> {
    connection: &'a mut PgConnection,
    named: &'a AtomicBool,
}

impl Recorder for In<'_> {
    async fn shape(&mut self, table: &TableName) -> Result<Option<Table>, EmitError> {
        let direct = is_direct(self.connection).await.map_err(emit_error)?;
        self.named.store(direct, Relaxed);
        shape::read(self.connection, table)
            .await
            .map_err(emit_error)
    }

    async fn record(
        &mut self,
        layout: &Layout,
        table: &Table,
        drafts: &Drafts<'_>,
    ) -> Result<Vec<String>, EmitError> {
        let text = insert(layout, table, &POSTGRES, drafts);
        let mut insert = sqlx::query(AssertSqlSafe(text)).persistent(self.named.load(Relaxed));
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
        let rows = insert
            .fetch_all(&mut *self.connection)
            .await
            .map_err(emit_error)?;
        rows.iter()
            .map(|row| row.try_get(0).map_err(emit_error))
            .collect()
    }
}
