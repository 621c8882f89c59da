//! A transaction, the store's own or a handler's. Unlike the driver's it closes its connection unless it was ended in
//! good order: a begin that was cut short, or a failed statement, leaves nothing behind in the pool,
//! and the server rolls back at once.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, SqlSafeStr};

use super::pool::{AT_BEGIN, Lent, Pool};

/// How long whoever asks for something waits for others' locks.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// What an operator asks for takes no longer, nor keeps its locks for longer.
pub(super) const OPERATOR_MAX: Duration = Duration::from_secs(30);

/// Statements run on it as on the [`PgConnection`] that it is in: `query.execute(&mut **tx)`. It is ended by who
/// began it, never by a statement.
#[derive(Debug)]
pub struct Tx {
    connection: PoolConnection<Postgres>,
    ended: bool,
}

/// Begins a transaction of which no statement takes longer than `max`.
pub(super) fn bounded(max: Duration) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}",
        LOCK_TIMEOUT.min(max).as_millis(),
        max.as_millis()
    )
}

impl Tx {
    /// Sends `begin`, any number of statements of which the first begins a transaction, and gives the
    /// rows that they return.
    pub(super) async fn begin(
        pool: &Pool,
        begin: Arc<str>,
    ) -> Result<(Self, Vec<PgRow>), sqlx::Error> {
        match pool.lend().await? {
            Lent::Direct(connection) => Self::begin_on(connection, begin).await,
            Lent::Pooled(connection) => {
                let begin = format!("{begin}; {AT_BEGIN}");
                Self::begin_on(connection, begin.into()).await
            }
        }
    }

    async fn begin_on(
        connection: PoolConnection<Postgres>,
        begin: Arc<str>,
    ) -> Result<(Self, Vec<PgRow>), sqlx::Error> {
        let mut tx = Self {
            connection,
            ended: false,
        };
        let rows = sqlx::raw_sql(AssertSqlSafe(begin))
            .fetch_all(&mut *tx.connection)
            .await?;
        Ok((tx, rows))
    }

    /// For statements that need no transaction, and are in one only behind a pooler.
    pub(super) async fn lend(pool: &Pool) -> Result<Self, sqlx::Error> {
        match pool.lend().await? {
            Lent::Direct(connection) => Ok(Self {
                connection,
                ended: true,
            }),
            Lent::Pooled(connection) => {
                let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {AT_BEGIN}");
                let (tx, _) = Self::begin_on(connection, begin.into()).await?;
                Ok(tx)
            }
        }
    }

    /// Keeps what was done by statements that need no transaction.
    pub(super) async fn give_back(self) -> Result<(), sqlx::Error> {
        match self.ended {
            true => Ok(()),
            false => self.commit().await,
        }
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
