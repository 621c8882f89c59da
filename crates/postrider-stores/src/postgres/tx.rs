//! A transaction of the store's own. Unlike the driver's it closes its connection unless it was ended in
//! good order: a begin that was cut short, or a failed statement, leaves nothing behind in the pool,
//! and the server rolls back at once.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres};

pub(super) struct Tx {
    connection: PoolConnection<Postgres>,
    ended: bool,
}

impl Tx {
    /// Sends `begin`, any number of statements of which the first begins a transaction, and gives the
    /// rows that they return.
    pub(super) async fn begin(
        pool: &PgPool,
        begin: Arc<str>,
    ) -> Result<(Self, Vec<PgRow>), sqlx::Error> {
        let mut tx = Self {
            connection: pool.acquire().await?,
            ended: false,
        };
        let rows = sqlx::raw_sql(AssertSqlSafe(begin))
            .fetch_all(&mut *tx.connection)
            .await?;
        Ok((tx, rows))
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        self.end("COMMIT").await
    }

    pub(super) async fn rollback(self) -> Result<(), sqlx::Error> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, how: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(how).execute(&mut *self.connection).await?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}
