//! Claims that are held by an open transaction. A crash, a kill or a dropped claim frees everything at
//! once; the row locks are the claim.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use postrider_core::layout::State;
use postrider_core::{Claim, Fate, Record, Settled, StoreError, Want};
use sqlx::Row as _;

use super::Inner;
use super::claim::{begin, fetch, wait_for_the_disk};
use super::error::store_error;
use super::ids::IdList;
use super::outbox::{Ready, query};
use super::tx::Tx;
use crate::fates::{Sorted, Trouble, ids, let_go, missing, recall, rest};

struct Held {
    inner: Arc<Inner>,
    ready: Arc<Ready>,
    tx: Tx,
    records: Vec<Record>,
    lapses_at: Instant,
    lanes: u32,
    /// Whether any of the records has its troubles kept aside, which end when it is published.
    troubled: bool,
}

pub(super) async fn claim(
    inner: &Arc<Inner>,
    ready: Arc<Ready>,
    want: Want,
) -> Result<Option<Box<dyn Claim>>, StoreError> {
    let started = Instant::now();
    let failed = store_error("claim records", &inner.name());
    let Some(mut begun) = begin(inner, &ready, want).await.map_err(&failed)? else {
        return Ok(None);
    };
    let mut claimed = select(inner, &ready, want, &mut begun.tx, begun.lanes).await?;
    let mut troubled = false;
    if inner.options.layout.needs_troubles() && !claimed.is_empty() {
        troubled = recall_troubles(inner, &ready, &mut begun.tx, &mut claimed)
            .await
            .map_err(&failed)?;
    }
    if claimed.is_empty() {
        begun.tx.rollback().await.map_err(&failed)?;
        return Ok(None);
    }
    Ok(Some(Box::new(Held {
        inner: inner.clone(),
        ready,
        tx: begun.tx,
        records: claimed,
        lapses_at: started + inner.options.hold_max,
        lanes: begun.lanes_held,
        troubled,
    })))
}

async fn select(
    inner: &Inner,
    ready: &Ready,
    want: Want,
    tx: &mut Tx,
    lanes: Option<Vec<i32>>,
) -> Result<Vec<Record>, StoreError> {
    let mut select = query(&ready.statements.claim)
        .bind(i64::from(want.limit))
        .bind(lanes);
    if inner.options.layout.needs_troubles() {
        select = select.bind(ready.table.full_name.clone());
    }
    if let State::Timestamp { .. } = inner.options.layout.state {
        let mut resting = inner.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let (resting, keys) = resting.asleep(Instant::now());
        select = IdList::new(ready.id_kind, &resting)?
            .bind(select)
            .bind(keys);
    }
    let mut records = fetch(inner, ready, select, tx.connection()).await?;
    // What failed elsewhere while this claim waited for the database rests as well.
    let resting = inner.resting.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let_go(&mut records, inner.options.layout.ordering, |record| {
        resting.rests(&record.id, now)
    });
    Ok(records)
}

/// Reads attempts that are kept aside, now that the rows are locked. What failed or died between the
/// claim's snapshot and its locks is let go again, and with it what follows it in its key.
async fn recall_troubles(
    inner: &Inner,
    ready: &Ready,
    tx: &mut Tx,
    records: &mut Vec<Record>,
) -> Result<bool, sqlx::Error> {
    let ids: Vec<String> = records.iter().map(|record| record.id.to_string()).collect();
    let rows = query(&ready.statements.troubles_of)
        .bind(&ready.table.full_name)
        .bind(ids)
        .fetch_all(tx.connection())
        .await?;
    if rows.is_empty() {
        return Ok(false);
    }
    let mut troubles: HashMap<String, Trouble> = HashMap::new();
    for row in rows {
        let trouble = Trouble {
            attempts: u32::try_from(row.try_get::<i32, _>(1)?).unwrap_or(0),
            blocked: row.try_get(2)?,
        };
        troubles.insert(row.try_get(0)?, trouble);
    }
    recall(records, inner.options.layout.ordering, &troubles);
    Ok(true)
}

#[async_trait]
impl Claim for Held {
    fn records(&self) -> &[Record] {
        &self.records
    }

    fn lanes(&self) -> u32 {
        self.lanes
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

impl Held {
    async fn end(mut self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        let records = std::mem::take(&mut self.records);
        let sorted = Sorted::new(&records, fates)?;
        let failed = store_error("settle a claim", &self.inner.name());
        if sorted.published.is_empty() && sorted.failed.is_empty() {
            self.tx.rollback().await.map_err(&failed)?;
            return Ok(Settled::default());
        }
        let lapsed = self.write(&sorted).await?;
        // Before the commit lets another claim see what failed. Should it not succeed, they rest for nothing.
        rest(&self.inner.resting, &self.inner.options.layout, &sorted);
        self.tx.commit().await.map_err(&failed)?;
        Ok(Settled { lapsed })
    }

    async fn write(&mut self, sorted: &Sorted<'_>) -> Result<u64, StoreError> {
        let mut lapsed = 0;
        if !sorted.failed.is_empty() {
            let failed = store_error("settle a claim", &self.inner.name());
            let durable = wait_for_the_disk(self.tx.connection()).await;
            durable.map_err(failed)?;
        }
        if !sorted.published.is_empty() {
            lapsed += self.write_published(sorted).await?;
        }
        if !sorted.failed.is_empty() {
            lapsed += match self.inner.options.layout.state {
                State::Timestamp { .. } => self.write_attempts(sorted).await?,
                _ => self.write_troubles(sorted).await?,
            };
        }
        Ok(lapsed)
    }

    async fn write_published(&mut self, sorted: &Sorted<'_>) -> Result<u64, StoreError> {
        let failed = store_error("settle a claim", &self.inner.name());
        let published = &sorted.published;
        let update = query(&self.ready.statements.settle_published);
        let update = IdList::new(self.ready.id_kind, ids(published))?.bind(update);
        let done = update
            .execute(self.tx.connection())
            .await
            .map_err(&failed)?;
        if self.troubled {
            let ids: Vec<String> = published
                .iter()
                .map(|record| record.id.to_string())
                .collect();
            let forget = query(&self.ready.statements.forget_troubles);
            let forget = forget.bind(self.ready.table.full_name.clone()).bind(ids);
            forget
                .execute(self.tx.connection())
                .await
                .map_err(&failed)?;
        }
        Ok(missing(published.len(), done.rows_affected()))
    }

    async fn write_attempts(&mut self, sorted: &Sorted<'_>) -> Result<u64, StoreError> {
        // Enough attempts are what death looks like here.
        let enough = i32::try_from(self.inner.options.max_attempts).unwrap_or(i32::MAX);
        let of = &sorted.failed;
        let attempts = of.iter().map(|f| {
            if f.dead {
                f.attempts.max(enough)
            } else {
                f.attempts
            }
        });
        let update = query(&self.ready.statements.settle_failed);
        let update = IdList::new(self.ready.id_kind, of.iter().map(|f| &f.record.id))?
            .bind(update)
            .bind(attempts.collect::<Vec<_>>())
            .bind(of.iter().map(|f| f.error.to_owned()).collect::<Vec<_>>());
        self.execute(update, of.len()).await
    }

    async fn write_troubles(&mut self, sorted: &Sorted<'_>) -> Result<u64, StoreError> {
        let of = &sorted.failed;
        let key = |record: &Record| record.key.as_ref().map(ToString::to_string);
        let insert = query(&self.ready.statements.settle_failed);
        let insert = IdList::new(self.ready.id_kind, of.iter().map(|f| &f.record.id))?
            .bind(insert)
            .bind(of.iter().map(|f| f.attempts).collect::<Vec<_>>())
            .bind(of.iter().map(|f| f.error.to_owned()).collect::<Vec<_>>())
            .bind(of.iter().map(|f| f.wait_micros()).collect::<Vec<_>>())
            .bind(of.iter().map(|f| f.dead).collect::<Vec<_>>())
            .bind(of.iter().map(|f| key(f.record)).collect::<Vec<_>>())
            .bind(self.ready.table.full_name.clone());
        self.execute(insert, of.len()).await
    }

    async fn execute(
        &mut self,
        statement: super::ids::PgQuery,
        expected: usize,
    ) -> Result<u64, StoreError> {
        let failed = store_error("settle a claim", &self.inner.name());
        let done = statement
            .execute(self.tx.connection())
            .await
            .map_err(&failed)?;
        Ok(missing(expected, done.rows_affected()))
    }
}
