//! Claims that are held by an open transaction. A crash, a kill or a dropped claim frees everything at
//! once; the row locks are the claim.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use postrider_core::layout::State;
use postrider_core::{Claim, Fate, Record, Settled, StoreError, Want};
use sqlx::Row as _;

use super::Inner;
use super::claim::{Begun, Look, begin, claiming, cut, fetch, less};
use super::error::store_error;
use super::floor::{FoundBelow, Range, Stand};
use super::ids::{IdList, PgQuery};
use super::outbox::{Ready, query};
use super::settling::Settling;
use super::tx::Tx;
use crate::fates::{Failed, Sorted, Trouble, ids, let_go, plain_error, recall};
use crate::settle::{Ledger, Savepoint, write};

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
    let failed = store_error("claim records", &inner.name());
    let mut stand = ready.floor.stand();
    let begun = begin(inner, &ready, want, &mut stand).await;
    let Some(mut begun) = begun.map_err(&failed)? else {
        return Ok(None);
    };
    let (mut claimed, is_below) = select(inner, &ready, want, &mut begun, &stand).await?;
    let mut troubled = false;
    // Without lanes another claim may have failed after this one began.
    let troubled_now = begun.troubled || begun.lanes_held == 0 || is_below;
    if inner.options.layout.needs_troubles() && troubled_now && !claimed.is_empty() {
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
        // The server counts from here too. A read that took long must not use up the time to publish.
        lapses_at: Instant::now() + inner.options.hold_max,
        lanes: begun.lanes_held,
        troubled,
    })))
}

/// The records, and whether some lie below the floor.
async fn select(
    inner: &Inner,
    ready: &Ready,
    mut want: Want,
    begun: &mut Begun,
    stand: &Stand,
) -> Result<(Vec<Record>, bool), StoreError> {
    let (mut records, mut any_below) = (Vec::new(), false);
    for range in ready.floor.ranges(stand, begun.lanes.as_deref()) {
        let began = Instant::now();
        let mut found = select_in(inner, ready, want, begun, &range).await?;
        match range.is_below {
            true => {
                let found = FoundBelow::of(found.len(), want.limit);
                any_below = found != FoundBelow::Nothing;
                let lanes = begun.lanes.as_deref();
                ready.floor.looked_below(lanes, began.elapsed(), found);
            }
            false => ready.floor.seen(&found),
        }
        if any_below && !range.is_below {
            cut(&mut found, want.bytes);
        }
        want = less(want, &found);
        records.append(&mut found);
        if want.limit == 0 || want.bytes == 0 {
            break;
        }
    }
    Ok((records, any_below))
}

async fn select_in(
    inner: &Inner,
    ready: &Ready,
    want: Want,
    begun: &mut Begun,
    range: &Range,
) -> Result<Vec<Record>, StoreError> {
    let look = Look {
        limit: want.limit,
        lanes: begun.lanes.as_deref(),
        depth: None,
        range,
    };
    let select = claiming(inner, ready, &ready.statements.claim, look)?;
    let fetched = fetch(inner, ready, select, want.bytes, begun.tx.connection()).await?;
    let mut records = fetched.records;
    // What another worker could not settle while this claim waited for the database.
    let refusals = inner.memory.refusals();
    if !refusals.is_empty() {
        let_go(&mut records, inner.options.layout.ordering, |record| {
            refusals.leaves_alone(&record.id)
        });
    }
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
    async fn end(self, fates: &[Fate]) -> Result<Settled, StoreError> {
        let sorted = Sorted::new(&self.records, fates)?;
        let layout = &self.inner.options.layout;
        if sorted.published.is_empty() && sorted.failed.is_empty() {
            let failed = store_error("settle a claim", &self.inner.name());
            self.tx.rollback().await.map_err(failed)?;
            return Ok(Settled::default());
        }
        let mut book = Book {
            inner: &self.inner,
            ready: &self.ready,
            troubled: self.troubled,
            settling: Settling::new("settle a claim", self.tx, self.inner.name(), false),
        };
        let written = write(&mut book, &sorted, plain_error(layout)).await?;
        let lapsed = written.lapsed();
        let refused = self.inner.memory.note(layout, &sorted, written);
        book.settling.commit(!sorted.failed.is_empty()).await?;
        Ok(Settled { lapsed, refused })
    }
}

/// A claim's fates, and the transaction that they are written in.
struct Book<'a> {
    inner: &'a Inner,
    ready: &'a Ready,
    troubled: bool,
    settling: Settling,
}

impl Book<'_> {
    fn attempts_failed(&self, of: &[Failed<'_>]) -> Result<PgQuery, StoreError> {
        // Enough attempts are what death looks like here.
        let enough = i32::try_from(self.inner.options.max_attempts).unwrap_or(i32::MAX);
        let attempts = of.iter().map(|f| match f.dead {
            true => f.attempts.max(enough),
            false => f.attempts,
        });
        let update = query(&self.ready.statements.settle_failed);
        let update = IdList::new(self.ready.id_kind, of.iter().map(|f| &f.record.id))?.bind(update);
        Ok(update.bind(attempts.collect::<Vec<_>>()).bind(errors(of)))
    }

    fn troubles_noted(&self, of: &[Failed<'_>]) -> Result<PgQuery, StoreError> {
        let key = |record: &Record| record.key.as_ref().map(ToString::to_string);
        let insert = query(&self.ready.statements.settle_failed);
        let insert = IdList::new(self.ready.id_kind, of.iter().map(|f| &f.record.id))?.bind(insert);
        Ok(insert
            .bind(of.iter().map(|f| f.attempts).collect::<Vec<_>>())
            .bind(errors(of))
            .bind(of.iter().map(|f| f.wait_micros()).collect::<Vec<_>>())
            .bind(of.iter().map(|f| f.dead).collect::<Vec<_>>())
            .bind(of.iter().map(|f| key(f.record)).collect::<Vec<_>>())
            .bind(self.ready.table.full_name.clone()))
    }
}

fn errors(of: &[Failed<'_>]) -> Vec<Option<String>> {
    of.iter().map(|f| f.error.map(str::to_owned)).collect()
}

#[async_trait]
impl Ledger for Book<'_> {
    fn savepoint(&mut self) -> &mut dyn Savepoint {
        &mut self.settling
    }

    async fn published(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        let update = query(&self.ready.statements.settle_published);
        let update = IdList::new(self.ready.id_kind, ids(records))?.bind(update);
        let found = self.settling.execute(update).await?;
        if self.troubled {
            let ids: Vec<String> = ids(records).map(ToString::to_string).collect();
            let forget = query(&self.ready.statements.forget_troubles);
            let forget = forget.bind(self.ready.table.full_name.clone()).bind(ids);
            self.settling.execute(forget).await?;
        }
        Ok(found)
    }

    async fn failed(&mut self, failures: &[Failed<'_>]) -> Result<u64, StoreError> {
        let statement = match self.inner.options.layout.state {
            State::Timestamp { .. } => self.attempts_failed(failures)?,
            _ => self.troubles_noted(failures)?,
        };
        self.settling.execute(statement).await
    }
}
