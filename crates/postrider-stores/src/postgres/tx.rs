//! A transaction, the store's own or a handler's. Unlike the driver's it closes its connection unless it was ended in
//! good order: a begin that was cut short, or a failed statement, leaves nothing behind in the pool,
//! and the server rolls back at once.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, SqlSafeStr};

/// Statements run on it as on the [`PgConnection`] that it is in: `query.execute(&mut **tx)`. It is ended by who
/// began it, never by a statement.
#[derive(Debug)]
pub struct Tx {
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

    pub fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    pub(super) async fn commit(self) -> Result<(), sqlx::Error> {
        self.end("COMMIT").await
    }

    /// Runs a last statement and commits, in one message. The server commits only if the statement succeeds.
    pub(super) async fn commit_after(self, statement: &str) -> Result<(), sqlx::Error> {
        self.end(AssertSqlSafe(format!("{statement}; COMMIT")))
            .await
    }

    /// Commits a transaction that others have worked in. `COMMIT` alone rolls back without an error where a statement
    /// had failed, and does nothing where they had ended it; before a savepoint both are errors.
    pub(super) async fn commit_whole(self) -> Result<(), sqlx::Error> {
        self.end("SAVEPOINT postrider_end; COMMIT").await
    }

    pub(super) async fn rollback(self) -> Result<(), sqlx::Error> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, how: impl SqlSafeStr) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(how).execute(&mut *self.connection).await?;
        self.ended = true;
        Ok(())
    }
}

impl Deref for Tx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection()
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}
