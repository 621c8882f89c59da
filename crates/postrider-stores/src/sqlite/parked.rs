//! Parked keys in SQLite, in a table of their own that all consumers of a file share.

use async_trait::async_trait;
use postrider_core::{ParkedKeys, StoreError, Timestamp, text};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::connect::Database;
use super::error::store_error;
use super::schema;
pub use crate::parked::ParkedKey;
use crate::sql::dialect::SQLITE;
use crate::sql::parked::{FREE, IS_PARKED, PARK, TABLE, create, list};

/// The statement of [`init`], which may be run again.
pub fn ddl() -> Vec<String> {
    vec![create(&SQLITE)]
}

/// Creates the table, unless it is there. Safe from any number of processes at once.
pub async fn init(database: &Database) -> Result<(), StoreError> {
    let table = TABLE.to_owned().try_into().expect("is a name");
    schema::create(database, &table, |_| ddl()).await
}

/// The table `postrider_parked_keys`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SqliteParkedKeys {
    database: Database,
}

impl SqliteParkedKeys {
    /// Does no I/O.
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// A consumer's parked keys, the longest parked first.
    pub async fn list(&self, consumer: &str, limit: u32) -> Result<Vec<ParkedKey>, StoreError> {
        let failed = store_error("list parked keys", TABLE);
        let mut connection = self.database.reader().await.map_err(&failed)?;
        let list = sqlx::query(AssertSqlSafe(list(&SQLITE)))
            .bind(consumer)
            .bind(i64::from(limit));
        let rows = list.fetch_all(&mut *connection).await.map_err(&failed)?;
        rows.iter()
            .map(|row| parked(row).map_err(&failed))
            .collect()
    }
}

fn parked(row: &SqliteRow) -> Result<ParkedKey, sqlx::Error> {
    Ok(ParkedKey {
        topic: row.try_get(0)?,
        key: row.try_get(1)?,
        reason: row.try_get(2)?,
        parked_at: Timestamp::from_micros(row.try_get_unchecked(3)?),
    })
}

#[async_trait]
impl ParkedKeys for SqliteParkedKeys {
    async fn is_parked(&self, consumer: &str, topic: &str, key: &[u8]) -> Result<bool, StoreError> {
        let failed = store_error("look up a parked key", TABLE);
        let mut connection = self.database.reader().await.map_err(&failed)?;
        let look = sqlx::query(IS_PARKED).bind(consumer).bind(topic).bind(key);
        let found = look.fetch_optional(&mut *connection).await;
        Ok(found.map_err(&failed)?.is_some())
    }

    async fn park(
        &self,
        consumer: &str,
        topic: &str,
        key: &[u8],
        reason: &str,
    ) -> Result<(), StoreError> {
        let failed = store_error("park a key", TABLE);
        let park = sqlx::query(PARK)
            .bind(consumer)
            .bind(topic)
            .bind(key)
            .bind(text::bounded(reason, text::ERROR_BYTES_MAX));
        let mut tx = self.database.begin_to("park a key").await?;
        park.execute(tx.connection()).await.map_err(&failed)?;
        tx.commit().await.map_err(&failed)
    }

    async fn free(&self, consumer: &str, topic: &str, key: &[u8]) -> Result<bool, StoreError> {
        let failed = store_error("free a key", TABLE);
        let free = sqlx::query(FREE).bind(consumer).bind(topic).bind(key);
        let mut tx = self.database.begin_to("free a key").await?;
        let freed = free.execute(tx.connection()).await.map_err(&failed)?;
        tx.commit().await.map_err(&failed)?;
        Ok(freed.rows_affected() > 0)
    }
}
