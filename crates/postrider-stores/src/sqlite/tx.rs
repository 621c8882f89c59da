//! A transaction that may write, the store's own or a handler's. Unless it was ended in good order its connection is
//! closed, which rolls back: a begin that was cut short leaves nothing behind in the pool.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::sqlite::SqlitePool;
use sqlx::{Sqlite, SqliteConnection};

/// Statements run on it as on the [`SqliteConnection`] that it is in: `query.execute(&mut **tx)`. It is ended by who
/// began it, never by a statement.
#[derive(Debug)]
pub struct Tx {
    connection: PoolConnection<Sqlite>,
    ended: bool,
}

impl Tx {
    pub(super) async fn begin(pool: &SqlitePool) -> Result<Self, sqlx::Error> {
        let mut tx = Self {
            connection: pool.acquire().await?,
            ended: false,
        };
        // The write lock is had at once: a transaction that reads first and then writes may find that somebody else
        // has written meanwhile, and fail.
        sqlx::raw_sql("BEGIN IMMEDIATE")
            .execute(&mut *tx.connection)
            .await?;
        Ok(tx)
    }

    pub fn connection(&mut self) -> &mut SqliteConnection {
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

impl Deref for Tx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
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
