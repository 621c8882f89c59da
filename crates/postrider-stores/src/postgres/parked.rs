//! Parked keys in Postgres, in a table of their own that all consumers of a database share.

use async_trait::async_trait;
use postrider_core::{ParkedKeys, StoreError, Timestamp, text};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgPool, Row as _};

use super::error::store_error;
use super::pool::Pool;
use super::schema;
use crate::sql::dialect::POSTGRES;
use crate::sql::parked::{FREE, IS_PARKED, PARK, TABLE, create, list};

/// The statement of [`init`], which may be run again.
pub fn ddl() -> Vec<String> {
    vec![create(&POSTGRES)]
}

/// Creates the table where the connection's search path says, unless it is there. Safe from any number of processes
/// at once.
pub async fn init(pool: &PgPool) -> Result<(), StoreError> {
    let table = TABLE.to_owned().try_into().expect("is a name");
    schema::create_missing(pool, &table, &ddl()).await
}

pub use crate::parked::ParkedKey;

/// The table `postrider_parked_keys`. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PgParkedKeys {
    pool: Pool,
}

impl PgParkedKeys {
    /// Does no I/O.
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool: Pool::new(pool),
        }
    }

    /// A consumer's parked keys, the longest parked first.
    pub async fn list(&self, consumer: &str, limit: u32) -> Result<Vec<ParkedKey>, StoreError> {
        let failed = store_error("list parked keys", TABLE);
        let list = sqlx::query(AssertSqlSafe(list(&POSTGRES)))
            .bind(consumer)
            .bind(i64::from(limit));
        let rows = self.pool.fetch_all(list).await.map_err(&failed)?;
        rows.iter()
            .map(|row| parked(row).map_err(&failed))
            .collect()
    }
}

fn parked(row: &PgRow) -> Result<ParkedKey, sqlx::Error> {
    Ok(ParkedKey {
        topic: row.try_get(0)?,
        key: row.try_get(1)?,
        reason: row.try_get(2)?,
        parked_at: Timestamp::from_micros(row.try_get(3)?),
    })
}

#[async_trait]
impl ParkedKeys for PgParkedKeys {
    async fn is_parked(&self, consumer: &str, topic: &str, key: &[u8]) -> Result<bool, StoreError> {
        let look = sqlx::query(IS_PARKED).bind(consumer).bind(topic).bind(key);
        let found = self.pool.fetch_optional(look).await;
        let found = found.map_err(store_error("look up a parked key", TABLE))?;
        Ok(found.is_some())
    }

    async fn park(
        &self,
        consumer: &str,
        topic: &str,
        key: &[u8],
        reason: &str,
    ) -> Result<(), StoreError> {
        let park = sqlx::query(PARK)
            .bind(consumer)
            .bind(topic)
            .bind(key)
            .bind(text::bounded(reason, text::ERROR_BYTES_MAX));
        let parked = self.pool.execute(park).await;
        parked.map(drop).map_err(store_error("park a key", TABLE))
    }

    async fn free(&self, consumer: &str, topic: &str, key: &[u8]) -> Result<bool, StoreError> {
        let free = sqlx::query(FREE).bind(consumer).bind(topic).bind(key);
        let freed = self.pool.execute(free).await;
        let freed = freed.map_err(store_error("free a key", TABLE))?;
        Ok(freed.rows_affected() > 0)
    }
}
