//! The transactions that handlers work in.

use async_trait::async_trait;
use postrider_core::{StoreError, Transactions};
use sqlx::PgPool;

use super::error::store_error;
use super::pool::Pool;
use super::tx::Tx;

/// At READ COMMITTED, where an inbox waits for a rival and then sees its entry; a stricter level would fail instead.
///
/// A server that is busy with a statement does not look at its connection, and would go on for a client that has
/// left. From Postgres 14 on it can be told to look, on systems that can do it.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; \
     SELECT set_config('client_connection_check_interval', '1s', true) \
     WHERE current_setting('server_version_num')::int4 >= 140000 AND version() LIKE '%linux%'";

/// Transactions at READ COMMITTED on a pool's connections.
///
/// A transaction that is dropped closes its connection and the server rolls it back at once, or within a second where a
/// statement is running (before Postgres 14: when that statement ends).
///
/// A lost connection, a serialization failure and a deadlock are [`StoreError::Unavailable`]: nothing is wrong with
/// the event, and it will be handled from the start. So is a connection that is lost during commit, when nobody knows
/// whether it took place; an inbox entry in the transaction tells when the event comes again.
#[derive(Debug, Clone)]
pub struct PgTransactions {
    pool: Pool,
}

impl PgTransactions {
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool: Pool::new(pool),
        }
    }
}

#[async_trait]
impl Transactions for PgTransactions {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx, StoreError> {
        let begun = Tx::begin(&self.pool, BEGIN.into()).await;
        begun
            .map(|(tx, _)| tx)
            .map_err(failed("begin a transaction"))
    }

    /// Refused where a statement in it had failed, whatever was made of that error, or had ended it.
    async fn commit(&self, tx: Tx) -> Result<(), StoreError> {
        tx.commit_whole()
            .await
            .map_err(failed("commit a transaction"))
    }

    async fn rollback(&self, tx: Tx) -> Result<(), StoreError> {
        tx.rollback()
            .await
            .map_err(failed("roll a transaction back"))
    }
}

fn failed(action: &'static str) -> impl Fn(sqlx::Error) -> StoreError {
    store_error(action, "the handler's tables")
}
