//! Claims that are held by a status and the time of the claim. That time is the fencing token: a fate is
//! written only where it still stands, so a claim that lapsed overwrites nobody.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use async_trait::async_trait;
use postrider_core::layout::State;
use postrider_core::{Claim, Fate, Ordering, Record, RecordId, Settled, StoreError, Want};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgRow, PgTypeInfo};
use sqlx::{Encode, Postgres, Row as _, Type, ValueRef as _};

use super::Inner;
use super::claim::{Begun, WITHOUT_WAITING, begin, fetch_with, lock_class, wait_for_the_disk};
use super::error::store_error;
use super::ids::{IdList, PgQuery};
use super::outbox::{Ready, query};
use super::tx::Tx;
use crate::fates::{Sorted, ids};

/// Settling is worth waiting for: what is not settled is published again.
fn begin_settling() -> Arc<str> {
    let begin =
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 5000; SET LOCAL jit = off";
    format!("{begin}; {WITHOUT_WAITING}").into()
}

/// With order per key, how many of the oldest records of its lanes a claim looks at. Those that another relay has in flight
/// are among them, and those that wait behind others. Looking is a quarter of what a claim costs, so a claim looks
/// at little more than it wants, until one finds less than it wants.
#[derive(Debug, Default)]
pub(super) struct Depth(AtomicU32);

impl Depth {
    const MIN: u32 = 256;
    /// Each step looks twice as far.
    const STEPS_MAX: u32 = 3;

    fn of(&self, limit: u32) -> u32 {
        let first = Self::MIN.max(limit.saturating_add(limit / 8));
        first.saturating_mul(1 << self.0.load(Relaxed).min(Self::STEPS_MAX))
    }

    /// `whole`: whether the claim has seen all that there was.
    fn learn(&self, limit: u32, claimed: usize, whole: bool) {
        let steps = self.0.load(Relaxed);
        let steps = match claimed >= limit as usize {
            true => steps.saturating_sub(1),
            false if whole => steps,
            false => Self::STEPS_MAX.min(steps + 1),
        };
        self.0.store(steps, Relaxed);
    }
}

/// The time of a claim as the table has it, in Postgres' own microseconds.
#[derive(Debug, Clone, Copy)]
struct Token(i64);

struct Leased {
    inner: Arc<Inner>,
    ready: Arc<Ready>,
    records: Vec<Record>,
    token: Token,
    lapses_at: Instant,
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
    let mut depth = ready.depth.of(want.limit);
    let (records, token) = loop {
        let found = look(inner, &ready, &mut begun, want.limit, depth).await?;
        let whole = found.seen < i64::from(depth);
        match found.token {
            Some(token) => {
                ready.depth.learn(want.limit, found.records.len(), whole);
                break (found.records, token);
            }
            // Everything that was looked at is held or blocked, and there is more behind it.
            None if !whole => depth = depth.saturating_mul(8),
            None => {
                begun.tx.rollback().await.map_err(&failed)?;
                return Ok(None);
            }
        }
    };
    begun.tx.commit().await.map_err(&failed)?;
    let lapses_at = inner.options.lease_lapses(started);
    Ok(Some(Box::new(Leased {
        inner: inner.clone(),
        ready,
        records,
        token,
        lapses_at,
    })))
}

struct Found {
    records: Vec<Record>,
    /// Where any were claimed.
    token: Option<Token>,
    /// In order, how many records were looked at.
    seen: i64,
}

async fn look(
    inner: &Inner,
    ready: &Ready,
    begun: &mut Begun,
    limit: u32,
    depth: u32,
) -> Result<Found, StoreError> {
    let ordered = begun.lanes_held > 0;
    let lanes = begun.lanes.clone();
    let bound = |text| {
        let statement = query(text).bind(i64::from(limit)).bind(lanes.clone());
        match ordered {
            true => statement.bind(i64::from(depth)),
            false => statement,
        }
    };
    let (mut token, mut seen) = (None, 0);
    let first = |row: &PgRow| {
        if ordered {
            seen = row.try_get("seen")?;
        }
        if !row.try_get_raw("token")?.is_null() {
            token = Some(Token(row.try_get_unchecked("token")?));
        }
        Ok(token.is_some())
    };
    let claim = bound(&ready.statements.claim);
    let mut records = fetch_with(inner, ready, claim, begun.tx.connection(), first).await?;
    let Some(lease) = &ready.statements.lease else {
        return Err(StoreError::Mismatch("a lease needs a status column".into()));
    };
    if lease.unsorted {
        records.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    }
    // Nothing claimed, and no row to say how many were looked at.
    if let (None, true, Some(looked_at)) = (&token, lease.unsorted, &lease.looked_at) {
        let row = bound(looked_at).fetch_one(begun.tx.connection()).await;
        let counted = row.and_then(|row| row.try_get("seen"));
        seen = counted.map_err(store_error("claim records", &inner.name()))?;
    }
    Ok(Found {
        records,
        token,
        seen,
    })
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
        let expected = self.records.len() as u64;
        let (mut tx, _) = Tx::begin(&self.inner.pool, begin_settling())
            .await
            .map_err(&failed)?;
        let all_published = sorted.published.len() == self.records.len();
        if !all_published && self.inner.options.layout.ordering == Ordering::Key {
            self.lock_lanes(&sorted, &mut tx).await?;
        }
        if !sorted.failed.is_empty() {
            let durable = wait_for_the_disk(tx.connection()).await;
            durable.map_err(&failed)?;
        }
        let mut written = 0;
        if !sorted.published.is_empty() {
            let published = self.published(&sorted)?;
            written += published
                .execute(tx.connection())
                .await
                .map_err(&failed)?
                .rows_affected();
        }
        if !all_published {
            let unpublished = self.unpublished(&sorted)?;
            written += unpublished
                .execute(tx.connection())
                .await
                .map_err(&failed)?
                .rows_affected();
        }
        tx.commit().await.map_err(&failed)?;
        Ok(Settled {
            lapsed: expected.saturating_sub(written),
        })
    }

    /// A record that goes back opens its key to the next claim. One that runs at this very moment would
    /// see half of what is settled here, and might take a later record of the key and leave the earlier.
    async fn lock_lanes(&self, sorted: &Sorted<'_>, tx: &mut Tx) -> Result<(), StoreError> {
        let failed = store_error("settle a claim", &self.inner.name());
        let back = sorted
            .failed
            .iter()
            .map(|failed| failed.record)
            .chain(sorted.released.iter().copied());
        let back: Vec<&Record> = back.collect();
        let text: Arc<str> = format!(
            "SELECT pg_advisory_xact_lock({}, l.lane) FROM ({}) AS l",
            lock_class(&self.inner.options.layout),
            self.ready.statements.lanes_of
        )
        .into();
        let lock = IdList::new(self.ready.id_kind, ids(&back))?.bind(query(&text));
        lock.execute(tx.connection())
            .await
            .map(drop)
            .map_err(&failed)
    }

    fn published(&self, sorted: &Sorted<'_>) -> Result<PgQuery, StoreError> {
        let update = query(&self.ready.statements.settle_published);
        let update = IdList::new(self.ready.id_kind, ids(&sorted.published))?.bind(update);
        Ok(update.bind(self.token))
    }

    /// One statement for what is tried again, dead, or given back.
    fn unpublished(&self, sorted: &Sorted<'_>) -> Result<PgQuery, StoreError> {
        let State::Status { failed, dead, .. } = &self.inner.options.layout.state else {
            return Err(StoreError::Mismatch("a lease needs a status column".into()));
        };
        let mut back = Back::default();
        for fate in &sorted.failed {
            back.ids.push(&fate.record.id);
            back.states
                .push(if fate.dead { dead } else { failed }.clone());
            back.attempts.push(Some(fate.attempts));
            back.waits.push(fate.wait_micros());
            back.errors.push(Some(fate.error.to_owned()));
        }
        for record in &sorted.released {
            back.ids.push(&record.id);
            back.states.push(failed.clone());
            back.attempts.push(None);
            back.waits.push(0);
            back.errors.push(None);
        }
        let update = query(&self.ready.statements.settle_failed);
        let update = IdList::new(self.ready.id_kind, back.ids)?
            .bind(update)
            .bind(self.token);
        Ok(update
            .bind(back.states)
            .bind(back.attempts)
            .bind(back.waits)
            .bind(back.errors))
    }
}

/// What goes back, column by column. What has no attempts or error keeps those it has.
#[derive(Default)]
struct Back<'a> {
    ids: Vec<&'a RecordId>,
    states: Vec<String>,
    attempts: Vec<Option<i32>>,
    waits: Vec<i64>,
    errors: Vec<Option<String>>,
}

impl Type<Postgres> for Token {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl Encode<'_, Postgres> for Token {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_looks_further_after_one_that_found_less_than_it_wanted() {
        let depth = Depth::default();
        assert_eq!((depth.of(50), depth.of(2_000)), (256, 2_250));
        depth.learn(2_000, 10, false);
        assert_eq!(depth.of(2_000), 4_500);
        (0..9).for_each(|_| depth.learn(2_000, 10, false));
        assert_eq!(depth.of(2_000), 18_000);
        depth.learn(2_000, 10, true);
        assert_eq!(depth.of(2_000), 18_000, "there was no more to find");
        (0..9).for_each(|_| depth.learn(2_000, 2_000, false));
        assert_eq!(depth.of(2_000), 2_250);
    }
}
