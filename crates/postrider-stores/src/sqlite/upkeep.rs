//! Cleaning up and counting.

use std::time::Duration;

use postrider_core::{Backlog, StoreError};
use sqlx::Row as _;

use super::Inner;
use super::bind::Bound;
use super::connect::Database;
use super::error::store_error;
use super::outbox::Ready;
use crate::sql::micros_of;

pub(super) async fn purge(
    inner: &Inner,
    ready: &Ready,
    keep: Duration,
    limit: u32,
) -> Result<u64, StoreError> {
    let failed = store_error("purge published records", &inner.name());
    let mut purged = 0;
    if let Some(purge) = &ready.statements.purge {
        let purge = Bound::new(purge)
            .int(1, i64::from(limit))
            .int(2, micros_of(keep));
        let mut tx = inner.database.begin_to("purge published records").await?;
        purged = purge
            .execute(&mut tx)
            .await
            .map_err(&failed)?
            .rows_affected();
        tx.commit().await.map_err(&failed)?;
    }
    inner.database.checkpoint().await.map_err(&failed)?;
    Ok(purged)
}

pub(super) async fn backlog(inner: &Inner, ready: &Ready) -> Result<Backlog, StoreError> {
    let failed = store_error("count the backlog", &inner.name());
    let count = inner.with_outbox(ready, 1, Bound::new(&ready.statements.backlog));
    let mut connection = inner.database.reader().await.map_err(&failed)?;
    let rows = count.rows(&mut connection).await.map_err(&failed)?;
    let Some(row) = rows.first() else {
        return Ok(Backlog::default());
    };
    let number = |position: usize| -> Result<Option<u64>, StoreError> {
        let number: Option<i64> = row.try_get_unchecked(position).map_err(&failed)?;
        // A clock that was set back makes no record younger than new.
        Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
    };
    Ok(Backlog {
        pending: number(0)?.unwrap_or(0),
        oldest_age: number(1)?.map(Duration::from_micros),
        dead: number(2)?.unwrap_or(0),
    })
}

pub(super) async fn ping(database: &Database) -> Result<(), StoreError> {
    let failed = store_error("reach the database", "it");
    let mut connection = database.reader().await.map_err(&failed)?;
    // Unlike a constant, this reads the file.
    let answered = sqlx::query("SELECT count(*) FROM sqlite_schema")
        .execute(&mut *connection)
        .await;
    answered.map(drop).map_err(&failed)
}
