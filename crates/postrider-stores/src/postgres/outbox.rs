//! What a store knows of its table, read once and kept until it proves wrong.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::StoreError;
use sqlx::AssertSqlSafe;

use super::depth::Depth;
use super::error::store_error;
use super::floor::Floor;
use super::ids::PgQuery;
use super::stream::Stream;
use super::tx::{Tx, bounded};
use super::{Inner, Options, shape};
use crate::sql::dialect::POSTGRES;
use crate::sql::statement::{Statements, Writer};
use crate::sql::table::{Kind, Table};
use crate::structure::{self, is_stale};

/// Claims wait for this look at the table. It takes milliseconds, unless somebody has locked the table.
pub(super) const LOOKING_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Ready {
    pub table: Table,
    pub statements: Statements,
    pub id_kind: Kind,
    /// For outboxes that are only appended to.
    pub stream: Option<Stream>,
    /// For those that are claimed by lease.
    pub depth: Depth,
    pub floor: Floor,
}

impl Inner {
    /// The table as it is, or why the layout does not fit it.
    pub(super) async fn ready(&self) -> Result<Arc<Ready>, StoreError> {
        let mut known = self.ready.lock().await;
        if let Some(ready) = &*known {
            return Ok(ready.clone());
        }
        let layout = &self.options.layout;
        let failed = store_error("read the table's columns", &self.name());
        let (mut tx, _) = Tx::begin(&self.pool, bounded(LOOKING_MAX).into())
            .await
            .map_err(&failed)?;
        let table = shape::read(&mut tx, &layout.table).await.map_err(&failed)?;
        tx.commit().await.map_err(&failed)?;
        let mut table = structure::fitting(&self.options, &POSTGRES, table)?;
        let stream = self.open_stream(&table).await?;
        if stream.is_none() {
            table.claim_index = shape::has_claim_index(&self.pool, &writer(&self.options, &table))
                .await
                .map_err(&failed)?;
        }
        let ready = Arc::new(Ready {
            statements: writer(&self.options, &table).statements(),
            id_kind: table.kind(&layout.columns.id),
            stream,
            depth: Depth::default(),
            floor: Floor::new(
                writer(&self.options, &table).floor_column(),
                self.options.on_dead,
            ),
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
}

pub(super) fn writer<'a>(options: &'a Options, table: &'a Table) -> Writer<'a> {
    options.writer(table, &POSTGRES)
}

/// A statement of ours: put together from checked and quoted names only.
pub(super) fn query(text: &Arc<str>) -> PgQuery {
    sqlx::query(AssertSqlSafe(text.clone()))
}
