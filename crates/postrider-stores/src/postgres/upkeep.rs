//! Cleaning up and counting.

use std::time::Duration;

use postrider_core::{Backlog, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::error::store_error;
use super::outbox::{Ready, query};
use super::pool::Pool;
use super::tx::{Tx, bounded};
use super::{Inner, stream};
use crate::sql::micros_of;

/// To compile a statement that runs for a moment takes longer than to run it, and counting takes one processor at most.
const COUNTING: &str =
    "SET TRANSACTION READ ONLY; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0";

/// A count that takes longer is an error, so that a gauge does not stand still without one.
const COUNTING_MAX: Duration = Duration::from_secs(30);
/// Deletes that take longer are given up, and keep no locks.
const PURGING_MAX: Duration = Duration::from_secs(60);
const ANSWERING_MAX: Duration = Duration::from_secs(5);

pub(super) async fn purge(
    inner: &Inner,
    ready: &Ready,
    keep: Duration,
    limit: u32,
) -> Result<u64, StoreError> {
    if ready.stream.is_some() {
        return stream::purge(inner, ready, keep).await;
    }
    let Some(purge) = &ready.statements.purge else {
        return Ok(0);
    };
    let failed = store_error("purge published records", &inner.name());
    let purge = query(purge).bind(i64::from(limit)).bind(micros_of(keep));
    let (mut tx, _) = Tx::begin(&inner.pool, bounded(PURGING_MAX).into())
        .await
        .map_err(&failed)?;
    let purged = purge.execute(tx.connection()).await.map_err(&failed)?;
    tx.commit().await.map_err(&failed)?;
    Ok(purged.rows_affected())
}

pub(super) async fn backlog(inner: &Inner, ready: &Ready) -> Result<Backlog, StoreError> {
    stream::check(inner, ready).await?;
    let failed = store_error("count the backlog", &inner.name());
    let mut count = query(&ready.statements.backlog);
    if let Some(stream) = &ready.stream {
        count = query(&stream.statements.backlog);
    } else if inner.options.layout.needs_troubles() {
        count = count.bind(ready.table.full_name.clone());
    }
    let begin = format!("{}; {COUNTING}", bounded(COUNTING_MAX));
    let (mut tx, _) = Tx::begin(&inner.pool, begin.into())
        .await
        .map_err(&failed)?;
    let row = count.fetch_one(tx.connection()).await.map_err(&failed)?;
    tx.commit().await.map_err(&failed)?;
    counted(&row).map_err(&failed)
}

/// pending, microseconds of the oldest or NULL, dead.
fn counted(row: &PgRow) -> Result<Backlog, sqlx::Error> {
    let number = |position: usize| -> Result<u64, sqlx::Error> {
        let number: i64 = row.try_get(position)?;
        Ok(u64::try_from(number).unwrap_or(0))
    };
    let oldest: Option<i64> = row.try_get(1)?;
    Ok(Backlog {
        pending: number(0)?,
        // A clock that was set back makes no record younger than new.
        oldest_age: oldest.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))),
        dead: number(2)?,
    })
}

pub(super) async fn ping(pool: &Pool) -> Result<(), StoreError> {
    let answered = async {
        let (tx, _) = Tx::begin(pool, bounded(ANSWERING_MAX).into()).await?;
        tx.rollback().await
    };
    answered
        .await
        .map_err(store_error("reach the database", "it"))
}
