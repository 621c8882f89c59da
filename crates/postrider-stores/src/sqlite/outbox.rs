//! What a store knows of its table, read once and kept until it proves wrong, and what claims of both modes share.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use postrider_core::layout::{ClaimMode, State};
use postrider_core::{Ordering, Record, StoreError, Want};
use serde_json::Value;
use sqlx::SqliteConnection;

use super::bind::{self, Bound};
use super::claims::Others;
use super::error::store_error;
use super::rows::SqliteCells;
use super::{Inner, check, shape};
use crate::fates::lanes;
use crate::rows::Reader;
use crate::sql::LANES;
use crate::sql::dialect::SQLITE;
use crate::sql::statement::Statements;
use crate::sql::table::{Kind, Table};
use crate::structure::is_stale;

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
    let mut select = Bound::at(&ready.statements.claim, now).int(1, i64::from(want.limit));
    if inner.keeps_order() {
        let free = others.free(lanes(want.share));
        if free.is_empty() {
            return Ok(None);
        }
        if free.len() < LANES as usize {
            select = select.list(2, free.into_iter().map(Value::from).collect());
        }
    } else if inner.options.layout.claim == ClaimMode::Hold {
        select = select.list(5, others.held.clone());
    }
    select = inner.with_outbox(ready, 3, select);
    if let State::Timestamp { .. } = inner.options.layout.state {
        let mut resting = inner.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let (resting, keys) = resting.asleep(Instant::now());
        select = select
            .list(3, bind::ids(ready.id_kind, &resting)?)
            .texts(4, keys);
    }
    let rows = select.rows(connection).await.map_err(&failed)?;
    let selection = &ready.statements.selection;
    let mut reader = Reader::new(selection);
    let records = rows
        .iter()
        .map(|row| reader.record(SqliteCells::new(row, selection)))
        .collect::<Result<_, _>>();
    records.map(Some).map_err(&failed)
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
