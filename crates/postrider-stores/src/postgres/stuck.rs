//! What is stuck, looked after from time to time: failures and refusals whose record is gone are forgotten, and failures
//! that another process has seen are found.

use std::collections::{HashMap, HashSet};

use futures::TryStreamExt as _;
use postrider_core::{RecordId, StoreError};
use sqlx::Row as _;

use super::Inner;
use super::diagnosis::without_id;
use super::error::store_error;
use super::ids::IdList;
use super::outbox::{Ready, query};
use super::rows::PgCells;
use super::tx::Tx;
use crate::rows::Cells as _;

/// The outbox is looked up by id only.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 30000; \
                     SET LOCAL lock_timeout = 1000; SET LOCAL jit = off; SET LOCAL enable_seqscan = off";

impl Inner {
    pub(super) async fn look_after_stuck(&self, ready: &Ready) -> Result<(), StoreError> {
        let Some(turn) = self.memory.turn() else {
            return Ok(());
        };
        if let Some(sweep) = &ready.statements.sweep {
            self.sweep(ready, query(sweep)).await?;
        }
        if let Some(failed) = &ready.statements.failed {
            let waiting = self.waiting(ready, query(failed)).await?;
            self.memory.resting().learn(&waiting);
        }
        self.memory.set_nameless(without_id(self, ready).await?);
        let refused = self.memory.refusals().ids();
        if !refused.is_empty() {
            let pending = self.pending_of(ready, &refused).await?;
            self.memory.forget_settled(&refused, &pending);
        }
        turn.done();
        Ok(())
    }

    async fn sweep(&self, ready: &Ready, sweep: super::ids::PgQuery) -> Result<(), StoreError> {
        let failed = store_error("forget failures of records that are gone", &self.name());
        let (mut tx, _) = Tx::begin(&self.pool, BEGIN.into()).await.map_err(&failed)?;
        let sweep = sweep.bind(ready.table.full_name.clone());
        match sweep.execute(tx.connection()).await.map_err(&failed) {
            Ok(_) => tx.commit().await.map_err(&failed),
            // Claims are right without it.
            Err(StoreError::Refused { reason, .. }) => {
                tracing::warn!(table = self.name(), reason, "failures could not be swept");
                tx.rollback().await.map_err(&failed)
            }
            Err(error) => Err(error),
        }
    }

    async fn waiting(
        &self,
        ready: &Ready,
        look: super::ids::PgQuery,
    ) -> Result<HashMap<RecordId, i32>, StoreError> {
        let failed = store_error("look for records that failed", &self.name());
        let (mut tx, _) = Tx::begin(&self.pool, BEGIN.into()).await.map_err(&failed)?;
        let mut waiting = HashMap::new();
        let mut rows = look.fetch(tx.connection());
        while let Some(row) = rows.try_next().await.map_err(&failed)? {
            let id = PgCells::new(&row, &ready.statements.selection).id(0);
            let attempts: i32 = row.try_get(1).map_err(&failed)?;
            waiting.insert(id.map_err(&failed)?, attempts);
        }
        drop(rows);
        tx.rollback().await.map_err(&failed)?;
        Ok(waiting)
    }

    /// Which of these wait to be published.
    async fn pending_of(
        &self,
        ready: &Ready,
        ids: &[RecordId],
    ) -> Result<HashSet<RecordId>, StoreError> {
        let failed = store_error("look for records that were refused", &self.name());
        // Ids of another type are of a table that is no more.
        let Ok(ids) = IdList::new(ready.id_kind, ids) else {
            return Ok(HashSet::new());
        };
        let look = ids.bind(query(&ready.statements.pending_of));
        let (mut tx, _) = Tx::begin(&self.pool, BEGIN.into()).await.map_err(&failed)?;
        let rows = look.fetch_all(tx.connection()).await.map_err(&failed)?;
        tx.rollback().await.map_err(&failed)?;
        let id = |row| PgCells::new(row, &ready.statements.selection).id(0);
        let pending: Result<_, _> = rows.iter().map(id).collect();
        pending.map_err(failed)
    }
}
