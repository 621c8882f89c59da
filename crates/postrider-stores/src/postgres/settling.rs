//! The transaction that fates are written in, with a savepoint to go back to where the database refuses one.

use async_trait::async_trait;
use postrider_core::StoreError;
use sqlx::PgConnection;

use super::claim::WAITING_FOR_THE_DISK;
use super::error::store_error;
use super::ids::PgQuery;
use super::tx::Tx;
use crate::settle::Savepoint;

/// Set when the transaction begins. What was locked before it stays locked. What a constraint refuses shows in the
/// statement that it refuses, and not when the transaction commits, which would undo all of it.
pub(super) const SAVEPOINT: &str = "SET CONSTRAINTS ALL IMMEDIATE; SAVEPOINT postrider_settle";
const ANEW: &str = "RELEASE SAVEPOINT postrider_settle; SAVEPOINT postrider_settle";
pub(super) const BACK: &str = "ROLLBACK TO SAVEPOINT postrider_settle";

pub(super) struct Settling {
    action: &'static str,
    tx: Tx,
    table: String,
    /// Whether anything was done since the savepoint.
    dirty: bool,
}

impl Settling {
    /// `dirty`: whether anything was done since the savepoint that is to stay.
    pub(super) fn new(action: &'static str, tx: Tx, table: String, dirty: bool) -> Self {
        Self {
            action,
            tx,
            table,
            dirty,
        }
    }

    pub(super) async fn execute(&mut self, statement: PgQuery) -> Result<u64, StoreError> {
        self.dirty = true;
        let done = statement.execute(self.tx.connection()).await;
        let done = done.map_err(store_error(self.action, &self.table))?;
        Ok(done.rows_affected())
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        self.tx.connection()
    }

    async fn run(&mut self, text: &'static str) -> Result<(), StoreError> {
        let ran = sqlx::raw_sql(text).execute(self.tx.connection());
        ran.await
            .map(drop)
            .map_err(store_error(self.action, &self.table))
    }

    pub(super) async fn rollback(self) -> Result<(), StoreError> {
        let rolled_back = self.tx.rollback().await;
        rolled_back.map_err(store_error(self.action, &self.table))
    }

    /// `durable`: a crash of the server may not forget it.
    pub(super) async fn commit(self, durable: bool) -> Result<(), StoreError> {
        let committed = match durable {
            true => self.tx.commit_after(WAITING_FOR_THE_DISK).await,
            false => self.tx.commit().await,
        };
        committed.map_err(store_error(self.action, &self.table))
    }
}

#[async_trait]
impl Savepoint for Settling {
    async fn guard(&mut self) -> Result<(), StoreError> {
        match std::mem::take(&mut self.dirty) {
            true => self.run(ANEW).await,
            false => Ok(()),
        }
    }

    async fn undo(&mut self) -> Result<(), StoreError> {
        self.dirty = false;
        self.run(BACK).await
    }
}
