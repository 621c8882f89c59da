//! Cleaning up: segments that are over are emptied as a whole.

use std::time::Duration;

use postrider_core::StoreError;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::{Stream, history};
use crate::postgres::Inner;
use crate::postgres::claim::lock_class;
use crate::postgres::error::{is_locked, store_error};
use crate::postgres::outbox::{Ready, query};
use crate::postgres::tx::Tx;
use crate::sql::micros_of;
use crate::sql::statement::stream::{SEGMENTS, Segment};

/// The lock of those who clean up, or move the sequence of positions, beside those of the lanes.
pub(super) const CLEANER: i32 = 1000;

/// How long emptying a segment waits for readers. Whoever wants to read meanwhile waits behind it; writers do not, as
/// they write to another segment.
const LOCK_MILLIS: u32 = 50;

/// How long it may take to find out whether a segment may go.
const DECIDING_MAX: Duration = Duration::from_secs(60);

/// A segment ends when its first record is older than this part of what is kept.
const SEGMENTS_PER_KEEP: u32 = 4;

/// Ends the segment that is written to if it is old enough, then empties those that are over. How many records went.
pub(in crate::postgres) async fn purge(
    inner: &Inner,
    ready: &Ready,
    keep: Duration,
) -> Result<u64, StoreError> {
    let stream = ready.stream()?;
    // In another database, what was never read may look settled.
    history::check_standing(inner, stream).await?;
    rotate(inner, stream, keep).await?;
    let mut gone = 0;
    for segment in &stream.statements.segments.each {
        gone += empty(inner, stream, segment, keep).await?;
    }
    Ok(gone)
}

/// Only one cleaner at a time: two that read the sequence before either moved it would set it back.
async fn rotate(inner: &Inner, stream: &Stream, keep: Duration) -> Result<(), StoreError> {
    let failed = store_error("begin a new segment", &inner.name());
    let statements = &stream.statements.segments;
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_try_advisory_xact_lock({}, {CLEANER}) AS mine",
        lock_class(&inner.options.layout)
    );
    let (mut tx, rows) = Tx::begin(&inner.pool, begin.into())
        .await
        .map_err(&failed)?;
    let mine: bool = rows
        .first()
        .map_or(Ok(false), |row| row.try_get("mine"))
        .map_err(&failed)?;
    if mine {
        let current = query(&statements.current).fetch_one(tx.connection()).await;
        let current: i64 = current.and_then(|row| row.try_get(0)).map_err(&failed)?;
        let segment = |number: i64| usize::try_from(number % SEGMENTS).unwrap_or(0);
        let (this, next) = (segment(current), segment(current + 1));
        let aged = query(&statements.each[this].aged)
            .bind(micros_of(keep / SEGMENTS_PER_KEEP))
            .fetch_one(tx.connection())
            .await;
        let aged: bool = aged.and_then(|row| row.try_get(0)).map_err(&failed)?;
        // Two ages in one partition would go together, the younger one's age deciding.
        let filled = query(&statements.each[next].filled)
            .fetch_one(tx.connection())
            .await;
        let filled: bool = filled.and_then(|row| row.try_get(0)).map_err(&failed)?;
        if aged && !filled {
            let rotate = query(&statements.rotate).bind(current + 1);
            rotate.execute(tx.connection()).await.map_err(&failed)?;
        }
    }
    tx.commit().await.map_err(&failed)
}

/// Whether a segment may go is decided while others read it: that may take long where transactions are open for long, since
/// every record that is younger than the oldest of them is looked at.
async fn empty(
    inner: &Inner,
    stream: &Stream,
    segment: &Segment,
    keep: Duration,
) -> Result<u64, StoreError> {
    let failed = store_error("empty a segment", &segment.table.to_string());
    let over = || query(&segment.over).bind(micros_of(keep));
    let is_over = |row: PgRow| row.try_get::<bool, _>(0);
    let row = inner.pool.fetch_one(over()).await;
    if !row.and_then(is_over).map_err(&failed)? {
        return Ok(0);
    }
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {LOCK_MILLIS}; \
         SET LOCAL statement_timeout = {}; {}",
        DECIDING_MAX.as_millis(),
        segment.close
    );
    let mut tx = match Tx::begin(&inner.pool, begin.into()).await {
        Ok((tx, _)) => tx,
        // Somebody writes to it. There is a next time.
        Err(error) if is_locked(&error) => return Ok(0),
        Err(error) => return Err(failed(error)),
    };
    history::check_standing_on(inner, stream, tx.connection()).await?;
    // Now that nobody can write to it any more.
    let row = over().fetch_one(tx.connection()).await;
    let mut goes = row.and_then(is_over).map_err(&failed)?;
    let count = query(&segment.count).fetch_one(tx.connection()).await;
    let count: i64 = count.and_then(|row| row.try_get(0)).map_err(&failed)?;
    if goes {
        goes = match query(&segment.lock).execute(tx.connection()).await {
            Ok(_) => true,
            // Somebody reads it.
            Err(error) if is_locked(&error) => false,
            Err(error) => return Err(failed(error)),
        };
    }
    if !goes {
        tx.rollback().await.map_err(&failed)?;
        return Ok(0);
    }
    let emptied = query(&segment.empty).execute(tx.connection()).await;
    emptied.map_err(&failed)?;
    tx.commit().await.map_err(&failed)?;
    Ok(u64::try_from(count).unwrap_or(0))
}
