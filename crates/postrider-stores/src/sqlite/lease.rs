//! Claims that are held by a status and the time of the claim, in the table itself. That time is the fencing token: a fate
//! is written only where it still stands, so a claim that lapsed overwrites nobody.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use postrider_core::layout::State;
use postrider_core::{Claim, Fate, Record, Settled, StoreError, Timestamp, Want};
use serde_json::{Value, json};

use super::Inner;
use super::bind::{self, Bound};
use super::claims::Others;
use super::error::store_error;
use super::outbox::{Ready, is_idle, select};
use crate::fates::{Sorted, ids};

struct Leased {
    inner: Arc<Inner>,
    ready: Arc<Ready>,
    records: Vec<Record>,
    token: i64,
    lapses_at: Instant,
}

pub(super) async fn claim(
    inner: &Arc<Inner>,
    ready: Arc<Ready>,
    want: Want,
) -> Result<Option<Box<dyn Claim>>, StoreError> {
    if is_idle(inner, &ready, want, false).await? {
        return Ok(None);
    }
    let Some(mark) = &ready.statements.mark else {
        return Err(StoreError::Mismatch("a lease needs a status column".into()));
    };
    let failed = store_error("claim records", &inner.name());
    let started = Instant::now();
    let mut tx = inner.database.begin_to("claim records").await?;
    let token = Timestamp::now().as_micros();
    // The status says what others hold.
    let others = Others::default();
    let records = select(inner, &ready, want, &others, token, &mut tx).await?;
    let records = records.unwrap_or_default();
    if records.is_empty() {
        tx.rollback().await.map_err(&failed)?;
        return Ok(None);
    }
    let ids = bind::ids(ready.id_kind, records.iter().map(|record| &record.id))?;
    let mark = Bound::at(mark, token).list(1, ids);
    mark.execute(&mut tx).await.map_err(&failed)?;
    tx.commit().await.map_err(&failed)?;
    let lapses_at = inner.options.lease_lapses(started);
    Ok(Some(Box::new(Leased {
        inner: inner.clone(),
        ready,
        records,
        token,
        lapses_at,
    })))
}

#[async_trait]
impl Claim for Leased {
    fn records(&self) -> &[Record] {
        &self.records
    }

    fn lapses_at(&self) -> Option<Instant> {
        Some(self.lapses_at)
    }

    async fn settle(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        let inner = Arc::clone(&self.inner);
        // A migration may have run while the records were published.
        inner.forget_if_stale(self.end(fates).await).await
    }
}

impl Leased {
    async fn end(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        let sorted = Sorted::new(&self.records, fates)?;
        let failed = store_error("settle a claim", &self.inner.name());
        let mut tx = self.inner.begin_settling().await?;
        let mut written = 0;
        if !sorted.published.is_empty() {
            let published = Bound::new(&self.ready.statements.settle_published)
                .list(1, bind::ids(self.ready.id_kind, ids(&sorted.published))?)
                .int(2, self.token);
            let done = published.execute(&mut tx).await.map_err(&failed)?;
            written += done.rows_affected();
        }
        let back = self.back(&sorted)?;
        if !back.is_empty() {
            let back = Bound::new(&self.ready.statements.settle_failed)
                .list(1, back)
                .int(2, self.token);
            let done = back.execute(&mut tx).await.map_err(&failed)?;
            written += done.rows_affected();
        }
        tx.commit().await.map_err(&failed)?;
        Ok(Settled {
            lapsed: (self.records.len() as u64).saturating_sub(written),
        })
    }

    /// What is tried again, dead, or given back: id, status, attempts, microseconds to wait, error. What has no attempts
    /// or error keeps those it has.
    fn back(&self, sorted: &Sorted<'_>) -> Result<Vec<Value>, StoreError> {
        let State::Status { failed, dead, .. } = &self.inner.options.layout.state else {
            return Err(StoreError::Mismatch("a lease needs a status column".into()));
        };
        let kind = self.ready.id_kind;
        let mut back = Vec::new();
        for fate in &sorted.failed {
            let id = bind::id_value(kind, &fate.record.id)?;
            let status = if fate.dead { dead } else { failed };
            back.push(json!([
                id,
                status,
                fate.attempts,
                fate.wait_micros(),
                fate.error
            ]));
        }
        for record in &sorted.released {
            let id = bind::id_value(kind, &record.id)?;
            back.push(json!([id, failed, null, 0, null]));
        }
        Ok(back)
    }
}
