//! The transactions that handlers work in.

use async_trait::async_trait;
use postrider_core::{StoreError, Transactions};

use super::connect::Database;
use super::error::store_error;
use super::tx::Tx;

/// `BEGIN IMMEDIATE` on the file's one writer, so handlers take turns with each other and with the relay: keep them short,
/// and let them do nothing but statements.
///
/// A transaction that is dropped closes its connection and is rolled back, when a statement that is running has ended.
///
/// A locked file and a full disk are [`StoreError::Unavailable`]: nothing is wrong with the event, and it will be handled
/// from the start.
#[derive(Debug, Clone)]
pub struct SqliteTransactions {
    database: Database,
}

impl SqliteTransactions {
    pub fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl Transactions for SqliteTransactions {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        self.database.begin().await
    }

    /// Refused where a statement in it had ended it.
    async fn commit(&self, tx: Tx) -> Result<(), StoreError> {
        self.database.commit(tx).await
    }

    async fn rollback(&self, tx: Tx) -> Result<(), StoreError> {
        let rolled_back = tx.rollback().await;
        rolled_back.map_err(store_error(
            "roll a transaction back",
            "the handler's tables",
        ))
    }
}
