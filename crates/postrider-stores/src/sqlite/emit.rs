//! Recording events in the caller's own transaction.

use std::sync::Arc;

use postrider_core::layout::TableName;
use postrider_core::{Emitted, Event, Layout, Room, Routes};
use sqlx::{Row as _, SqliteConnection};

use super::bind::Bound;
use super::error::emit_error;
use super::shape;
use crate::EmitError;
use crate::emit::{Emitter, Recorder};
use crate::sql::dialect::SQLITE;
use crate::sql::draft::Drafts;
use crate::sql::statement::insert;
use crate::sql::table::{Kind, Table};

/// Writes events to an outbox table. Cheap to clone; keep one per table.
///
/// What can be refused is refused before any SQL is sent. An error leaves the caller's transaction as it was, but for
/// [`EmitError::Database`] of a full disk or a failing one, at which SQLite rolls back by itself.
///
/// Begin the transaction with `BEGIN IMMEDIATE`, as [`Database::begin`](super::Database::begin) does: one that reads
/// before it emits may otherwise find the file locked, at once and for good.
#[derive(Debug, Clone)]
pub struct Outbox(Emitter);

impl Outbox {
    pub fn new(layout: Layout) -> Self {
        Self(Emitter::new(layout))
    }

    /// Refuses events that these routes would refuse later, and takes topics from them.
    #[must_use]
    pub fn with_routes(self, routes: Routes) -> Self {
        Self(self.0.with_routes(routes))
    }

    /// Records an event in the transaction that `tx` is in.
    pub async fn emit(
        &self,
        tx: &mut SqliteConnection,
        event: Event,
    ) -> Result<Emitted, EmitError> {
        let emitted = self
            .0
            .emit_all(&mut In(tx), std::slice::from_ref(&event))
            .await?;
        Ok(emitted.into_iter().next().unwrap_or(Emitted::Duplicate))
    }

    /// Records events in order, all of them or none, and says of each whether it was new.
    pub async fn emit_all(
        &self,
        tx: &mut SqliteConnection,
        events: &[Event],
    ) -> Result<Vec<Emitted>, EmitError> {
        run(tx, "SAVEPOINT postrider_emit").await?;
        let emitted = self.0.emit_all(&mut In(tx), events).await;
        if emitted.is_err() {
            run(tx, "ROLLBACK TO postrider_emit").await?;
        }
        run(tx, "RELEASE postrider_emit").await?;
        emitted
    }

    pub(super) fn room(&self) -> Room {
        self.0.room()
    }
}

async fn run(tx: &mut SqliteConnection, statement: &'static str) -> Result<(), EmitError> {
    let run = sqlx::query(statement).execute(tx).await;
    run.map(drop).map_err(emit_error)
}

struct In<'a>(&'a mut SqliteConnection);

impl Recorder for In<'_> {
    async fn shape(&mut self, table: &TableName) -> Result<Option<Table>, EmitError> {
        shape::read(self.0, table).await.map_err(emit_error)
    }

    async fn record(
        &mut self,
        layout: &Layout,
        table: &Table,
        drafts: &Drafts<'_>,
    ) -> Result<Vec<String>, EmitError> {
        let text: Arc<str> = insert(layout, table, &SQLITE, drafts).into();
        let mut recorded = Vec::new();
        for event in 0..drafts.event_ids.len() {
            let mut insert = Bound::new(&text);
            for (parameter, column) in (1..).zip(&drafts.columns) {
                insert = match column.values[event].as_deref() {
                    None => insert,
                    Some(bytes) if column.kind == Kind::Bytes => insert.bytes(parameter, bytes),
                    Some(bytes) => insert.text(parameter, String::from_utf8_lossy(bytes)),
                };
            }
            for row in insert.rows(self.0).await.map_err(emit_error)? {
                recorded.push(row.try_get_unchecked(0).map_err(emit_error)?);
            }
        }
        Ok(recorded)
    }
}
