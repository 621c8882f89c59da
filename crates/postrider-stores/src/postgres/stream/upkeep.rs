//! Counting what a stream still has to publish.

use postrider_core::{Backlog, StoreError};

use super::history;
use crate::postgres::error::store_error;
use crate::postgres::outbox::{Ready, query};
use crate::postgres::{Inner, upkeep};

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
    upkeep::counted(&row).map_err(&failed)
}
