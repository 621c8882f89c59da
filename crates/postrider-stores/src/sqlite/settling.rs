//! The transaction that fates are written in, with a savepoint to go back to where the database refuses one.

use async_trait::async_trait;
use postrider_core::StoreError;

use super::bind::Bound;
use super::error::store_error;
use super::tx::Tx;
use crate::settle::Savepoint;

pub(super) struct Settling {
    action: &'static str,
    tx: Tx,
    table: String,
}

impl Settling {
    pub(super) async fn begin(
        action: &'static str,
        tx: Tx,
        table: String,
    ) -> Result<Self, StoreError> {
        let mut settling = Self { action, tx, table };
        settling.run("SAVEPOINT postrider_settle").await?;
        Ok(settling)
    }

    pub(super) async fn execute(&mut self, statement: Bound) -> Result<u64, StoreError> {
        let done = statement.execute(&mut self.tx).await;
        let done = done.map_err(store_error(self.action, &self.table))?;
        Ok(done.rows_affected())
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), StoreError> {
        let ran = sqlx::raw_sql(statement).execute(self.tx.connection()).await;
        ran.map(drop).map_err(store_error(self.action, &self.table))
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        let committed = self.tx.commit().await;
        committed.map_err(store_error(self.action, &self.table))
    }

    pub(super) async fn rollback(self) -> Result<(), StoreError> {
        let rolled_back = self.tx.rollback().await;
        rolled_back.map_err(store_error(self.action, &self.table))
    }
}

#[async_trait]
impl Savepoint for Settling {
    async fn guard(&mut self) -> Result<(), StoreError> {
        self.run("RELEASE postrider_settle; SAVEPOINT postrider_settle")
            .await
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        self.run("ROLLBACK TO postrider_settle").await
    }
}
