//! What a store knows of its table, read once and kept until it proves wrong, and what claims of both modes share.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt as _;
use postrider_core::layout::{ClaimMode, State};
use postrider_core::{Ordering, Record, StoreError, Want};
use serde_json::Value;
use sqlx::{Row as _, SqliteConnection};

use super::bind::{self, Bound};
use super::claims::Others;
use super::diagnosis::without_id;
use super::error::store_error;
use super::rows::SqliteCells;
use super::{Inner, check, shape};
use crate::fates::lanes;
use crate::rows::{Cells as _, Reader};
use crate::sql::LANES;
use crate::sql::dialect::SQLITE;
use crate::sql::statement::Statements;
use crate::sql::table::{Kind, Table};
use crate::structure::is_stale;

/// How many records without a readable id a claim looks past.
const UNREADABLE_MAX: u32 = 10_000;

#[derive(Debug)]
pub(super) struct Ready {
    pub table: Table,
    pub statements: Statements,
    pub id_kind: Kind,
}

impl Inner {
    /// The table as it is, or why the layout does not fit it.
    pub(super) async fn ready(&self) -> Result<Arc<Ready>, StoreError> {
        let mut known = self.ready.lock().await;
        if let Some(ready) = &*known {
            return Ok(ready.clone());
        }
        let failed = store_error("read the table's columns", &self.name());
        let mut connection = self.database.reader().await.map_err(&failed)?;
        let layout = &self.options.layout;
        let table = shape::read(&mut connection, &layout.table)
            .await
            .map_err(&failed)?;
        let claims = check::claims(&mut connection, layout)
            .await
            .map_err(&failed)?;
        let table = check::fitting(&self.options, table, claims)?;
        let ready = Arc::new(Ready {
            statements: self.options.writer(&table, &SQLITE).statements(),
            id_kind: table.kind(&layout.columns.id),
            table,
        });
        *known = Some(ready.clone());
        Ok(ready)
    }

    /// After a mismatch the table is read anew: a migration may have run.
    pub(super) async fn forget_if_stale<T>(
        &self,
        result: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if result.as_ref().is_err_and(is_stale) {
            *self.ready.lock().await = None;
        }
        result
    }

    pub(super) fn name(&self) -> String {
        self.options.layout.table.to_string()
    }

    pub(super) fn keeps_order(&self) -> bool {
        self.options.layout.ordering == Ordering::Key
    }

    /// Where troubles are kept aside, this parameter of a statement says whose.
    pub(super) fn with_outbox(&self, ready: &Ready, parameter: usize, statement: Bound) -> Bound {
        if self.options.layout.needs_troubles() {
            statement.text(parameter, ready.table.full_name.clone())
        } else {
            statement
        }
    }
}

/// Reads up to `limit` records that may be claimed, leaving out what others hold. `None` where all lanes are held.
pub(super) async fn select(
    inner: &Inner,
    ready: &Ready,
    want: Want,
    others: &Others,
    now: i64,
    connection: &mut SqliteConnection,
) -> Result<Option<Vec<Record>>, StoreError> {
    let failed = store_error("claim records", &inner.name());
    let layout = &inner.options.layout;
    let alone = inner.memory.refusals().left_alone(layout.ordering)?;
    let mut select = Bound::at(&ready.statements.claim, now)
        .int(
            1,
            i64::from(want.limit) + i64::from(inner.memory.unreadable().min(UNREADABLE_MAX)),
        )
        .texts(4, alone.ids)
        .texts(5, alone.keys);
    if inner.keeps_order() {
        let free = others.free(lanes(want.share));
        if free.is_empty() {
            return Ok(None);
        }
        if free.len() < LANES as usize {
            select = select.list(2, free.into_iter().map(Value::from).collect());
        }
    } else if layout.claim == ClaimMode::Hold {
        select = select.list(8, others.held.clone());
    }
    select = inner.with_outbox(ready, 3, select);
    if let State::Timestamp { .. } = layout.state {
        let (due, waiting) = {
            let mut resting = inner.memory.resting();
            (resting.due(), resting.uncounted())
        };
        select = select
            .list(6, bind::ids(ready.id_kind, &due)?)
            .list(10, bind::ids(ready.id_kind, &waiting)?);
    }
    let read = read(ready, want, select, connection)
        .await
        .map_err(failed)?;
    // Where nothing else was found, the next look goes twice as far.
    let passed_over = match read.records.is_empty() {
        true => read.unreadable.saturating_mul(2),
        false => read.unreadable,
    };
    inner.memory.set_unreadable(passed_over);
    Ok(Some(read.records))
}

struct Read {
    records: Vec<Record>,
    unreadable: u32,
}

/// Rows become records as they come, and no more are taken than have the wanted bytes in all. Whoever has an id that
/// could not be looked up again is passed over.
async fn read(
    ready: &Ready,
    want: Want,
    select: Bound,
    connection: &mut SqliteConnection,
) -> Result<Read, sqlx::Error> {
    let selection = &ready.statements.selection;
    let mut reader = Reader::new(selection);
    let mut records: Vec<Record> = Vec::new();
    let mut unreadable = 0;
    let mut left = want.bytes;
    let query = select.query()?;
    let mut rows = query.fetch(connection);
    while records.len() < want.limit as usize
        && let Some(row) = rows.try_next().await?
    {
        if SqliteCells::new(&row, selection).id(selection.id).is_err() {
            unreadable += 1;
            continue;
        }
        let record = reader.record(SqliteCells::new(&row, selection))?;
        let size = record.size();
        if size > left && !records.is_empty() {
            break;
        }
        left = left.saturating_sub(size);
        records.push(record);
    }
    Ok(Read {
        records,
        unreadable,
    })
}

impl Inner {
    /// What is stuck, from time to time: failures whose record is gone are forgotten, and failures that another process
    /// has seen are found.
    pub(super) async fn look_after_stuck(&self, ready: &Ready) -> Result<(), StoreError> {
        let Some(turn) = self.memory.turn() else {
            return Ok(());
        };
        if let Some(sweep) = &ready.statements.sweep {
            let failed = store_error("forget failures of records that are gone", &self.name());
            let mut connection = self.database.reader().await.map_err(&failed)?;
            let outbox = ready.table.full_name.clone();
            let any = Bound::new(&ready.statements.any_stray).text(1, outbox.clone());
            let any = any.rows(&mut connection).await.map_err(&failed)?;
            drop(connection);
            // The write lock is taken only where there is something to forget.
            if !any.is_empty() {
                let mut tx = self.database.begin_to("forget failures").await?;
                let sweep = Bound::new(sweep).text(1, outbox);
                sweep.execute(&mut tx).await.map_err(&failed)?;
                tx.commit().await.map_err(&failed)?;
            }
        }
        if let Some(look) = &ready.statements.failed {
            let failed = store_error("look for records that failed", &self.name());
            let mut connection = self.database.reader().await.map_err(&failed)?;
            let mut waiting = HashMap::new();
            for row in Bound::new(look)
                .rows(&mut connection)
                .await
                .map_err(&failed)?
            {
                let id = SqliteCells::new(&row, &ready.statements.selection).id(0);
                let attempts: i64 = row.try_get(1).map_err(&failed)?;
                let attempts = i32::try_from(attempts).unwrap_or(i32::MAX);
                waiting.insert(id.map_err(&failed)?, attempts);
            }
            self.memory.resting().learn(&waiting);
        }
        self.memory.set_nameless(without_id(self, ready).await?);
        self.forget_refusals(ready).await?;
        turn.done();
        Ok(())
    }

    /// Forgets refusals of records that were settled by hand.
    async fn forget_refusals(&self, ready: &Ready) -> Result<(), StoreError> {
        let refused = self.memory.refusals().ids();
        if refused.is_empty() {
            return Ok(());
        }
        let failed = store_error("look for records that were refused", &self.name());
        // Ids of another type are of a table that is no more.
        let Ok(ids) = bind::ids(ready.id_kind, &refused) else {
            self.memory.refusals().forget(&refused);
            return Ok(());
        };
        let look = Bound::new(&ready.statements.pending_of).list(1, ids);
        let mut connection = self.database.reader().await.map_err(&failed)?;
        let rows = look.rows(&mut connection).await.map_err(&failed)?;
        let id = |row| SqliteCells::new(row, &ready.statements.selection).id(0);
        let pending: Result<_, _> = rows.iter().map(id).collect();
        self.memory
            .forget_settled(&refused, &pending.map_err(failed)?);
        Ok(())
    }
}

/// Looks, without the write lock, whether there is anything to claim: an idle relay keeps no writer away.
pub(super) async fn is_idle(
    inner: &Inner,
    ready: &Ready,
    want: Want,
    read_others: bool,
) -> Result<bool, StoreError> {
    let failed = store_error("look for records", &inner.name());
    let mut connection = inner.database.reader().await.map_err(&failed)?;
    let others = if read_others {
        let here = inner.database.presence()?;
        let read = Others::read(inner, &ready.table.full_name, &here, &mut connection).await;
        read.map_err(&failed)?
    } else {
        Others::default()
    };
    let one = Want { limit: 1, ..want };
    let now = postrider_core::Timestamp::now().as_micros();
    let found = select(inner, ready, one, &others, now, &mut connection).await?;
    Ok(found.is_none_or(|records| records.is_empty()))
}
