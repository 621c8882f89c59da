//! Counting what a stream still has to publish.

use std::time::Duration;

use postrider_core::{Backlog, StoreError};
use sqlx::Row as _;

use super::history;
use crate::postgres::Inner;
use crate::postgres::error::store_error;
use crate::postgres::outbox::{Ready, query};

pub(in crate::postgres) async fn backlog(
    inner: &Inner,
    ready: &Ready,
) -> Result<Backlog, StoreError> {
    let failed = store_error("count the backlog", &inner.name());
    let stream = ready.stream()?;
    history::check_standing(inner, stream).await?;
    let row = query(&stream.statements.backlog)
        .fetch_one(&inner.pool)
        .await
        .map_err(&failed)?;
    let number = |position: usize| -> Result<u64, StoreError> {
        let number: i64 = row.try_get(position).map_err(&failed)?;
        Ok(u64::try_from(number).unwrap_or(0))
    };
    let oldest: Option<i64> = row.try_get(1).map_err(&failed)?;
    Ok(Backlog {
        pending: number(0)?,
        oldest_age: oldest.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))),
        dead: number(2)?,
    })
}
