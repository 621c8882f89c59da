//! Claims that are held by a status and the time of the claim. That time is the fencing token: a fate is
//! written only where it still stands, so a claim that lapsed overwrites nobody.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use postrider_core::layout::State;
use postrider_core::{Claim, Fate, Ordering, Record, RecordId, Settled, StoreError, Want};
use sqlx::postgres::PgRow;
use sqlx::{Row as _, ValueRef as _};

use super::Inner;
use super::claim::{
    Begun, Look, WITHOUT_WAITING, begin, claiming, fetch, fetch_with, less, lock_class,
};
use super::depth::Depth;
use super::error::store_error;
use super::floor::{FoundBelow, Range, Stand, Time};
use super::ids::{IdList, PgQuery};
use super::outbox::{Ready, query};
use super::settling::{BACK, SAVEPOINT, Settling};
use super::tx::Tx;
use crate::fates::{Failed, Sorted, ids};
use crate::settle::{Fault, Lease, Ledger, Marks, Savepoint, Written, mark, write, write_leased};

/// Settling is worth waiting for: what is not settled is published again.
fn begin_settling() -> Arc<str> {
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 5000; SET LOCAL statement_timeout = 30000; \
         SET LOCAL jit = off";
    format!("{begin}; {WITHOUT_WAITING}; {SAVEPOINT}").into()
}

struct Leased {
    inner: Arc<Inner>,
    ready: Arc<Ready>,
    records: Vec<Record>,
    token: Time,
    lapses_at: Instant,
}

pub(super) async fn claim(
    inner: &Arc<Inner>,
    ready: Arc<Ready>,
    want: Want,
) -> Result<Option<Box<dyn Claim>>, StoreError> {
    let started = Instant::now();
    let failed = store_error("claim records", &inner.name());
    let mut stand = ready.floor.stand();
    let begun = begin(inner, &ready, want, &mut stand).await;
    let Some(mut begun) = begun.map_err(&failed)? else {
        return Ok(None);
    };
    let taken = match take(inner, &ready, &mut begun, want, &stand).await {
        Err(error) if Fault::of(&error) != Fault::Database => {
            let undone = sqlx::raw_sql(BACK).execute(begun.tx.connection()).await;
            undone.map_err(&failed)?;
            take_with_care(inner, &ready, begun, want, &stand).await?
        }
        Err(error) => return Err(error),
        Ok(Some(taken)) => {
            begun.tx.commit().await.map_err(&failed)?;
            Some(taken)
        }
        Ok(None) => {
            begun.tx.rollback().await.map_err(&failed)?;
            None
        }
    };
    let Some((records, token)) = taken else {
        return Ok(None);
    };
    let lapses_at = inner.options.lease_lapses(started);
    Ok(Some(Box::new(Leased {
        inner: inner.clone(),
        ready,
        records,
        token,
        lapses_at,
    })))
}

/// Records that were marked as claimed, and the time that says by whom.
type Taken = (Vec<Record>, Time);

async fn take(
    inner: &Inner,
    ready: &Ready,
    begun: &mut Begun,
    mut want: Want,
    stand: &Stand,
) -> Result<Option<Taken>, StoreError> {
    let mut taken: Option<Taken> = None;
    for range in ready.floor.ranges(stand, begun.lanes.as_deref()) {
        let began = Instant::now();
        if taken.is_some() {
            run(inner, begun, SAVEPOINT).await?;
        }
        let more = match take_in(inner, ready, begun, want, &range).await {
            Ok(more) => more,
            // What was taken is not given up for it, and the next claim meets it again.
            Err(_) if taken.is_some() => {
                run(inner, begun, BACK).await?;
                break;
            }
            Err(error) => return Err(error),
        };
        if range.is_below {
            let count = more.as_ref().map_or(0, |(records, _)| records.len());
            let lanes = begun.lanes.as_deref();
            let found = FoundBelow::of(count, want.limit);
            ready.floor.looked_below(lanes, began.elapsed(), found);
        } else if let Some((records, _)) = &more {
            ready.floor.seen(records);
        }
        let Some((records, token)) = more else {
            continue;
        };
        let rest = less(want, &records);
        match &mut taken {
            None => taken = Some((records, token)),
            // Larger than there is room for beside the others.
            Some(_) if rest.bytes == 0 => run(inner, begun, BACK).await?,
            Some((all, _)) => all.extend(records),
        }
        want = rest;
        if want.limit == 0 || want.bytes == 0 {
            break;
        }
    }
    Ok(taken)
}

async fn run(inner: &Inner, begun: &mut Begun, text: &'static str) -> Result<(), StoreError> {
    let run = sqlx::raw_sql(text).execute(begun.tx.connection()).await;
    run.map(drop)
        .map_err(store_error("claim records", &inner.name()))
}

async fn take_in(
    inner: &Inner,
    ready: &Ready,
    begun: &mut Begun,
    mut want: Want,
    range: &Range,
) -> Result<Option<Taken>, StoreError> {
    let mut depth = match range.is_below {
        true => Depth::BELOW,
        false => ready.depth.of(want.limit),
    };
    loop {
        let found = look(inner, ready, begun, want, depth, range).await?;
        let whole = found.seen < i64::from(depth);
        match found.token {
            // More was taken than is wanted in memory: all of it is let go, and less is taken.
            Some(_) if found.is_cut => {
                run(inner, begun, BACK).await?;
                want.limit = u32::try_from(found.records.len()).unwrap_or(1);
            }
            Some(token) => {
                if !range.is_below {
                    ready.depth.learn(want.limit, found.records.len(), whole);
                }
                return Ok(Some((found.records, token)));
            }
            // Everything that was looked at is held or blocked, and there is more behind it.
            None if !whole => depth = depth.saturating_mul(8),
            None => return Ok(None),
        }
    }
}

/// Where the table refuses a claim: records are chosen first and then marked, so that what it refuses is found and the
/// others are claimed.
async fn take_with_care(
    inner: &Inner,
    ready: &Ready,
    mut begun: Begun,
    want: Want,
    stand: &Stand,
) -> Result<Option<Taken>, StoreError> {
    let (Some(lease), Some(text)) = (&ready.statements.lease, &ready.statements.mark) else {
        return Err(StoreError::Mismatch("a lease needs a status column".into()));
    };
    let layout = &inner.options.layout;
    let mut records = Vec::new();
    for range in &ready.floor.ranges(stand, begun.lanes.as_deref()) {
        let look = Look {
            limit: want.limit,
            lanes: begun.lanes.as_deref(),
            depth: None,
            range,
        };
        let began = Instant::now();
        let chosen = claiming(inner, ready, &lease.choose, look)?;
        let chosen = fetch(inner, ready, chosen, want.bytes, begun.tx.connection()).await?;
        records = chosen.records;
        if range.is_below {
            let found = FoundBelow::of(records.len(), want.limit);
            let lanes = begun.lanes.as_deref();
            ready.floor.looked_below(lanes, began.elapsed(), found);
        }
        if !records.is_empty() {
            break;
        }
    }
    let mut marking = Marking {
        ready,
        text,
        settling: Settling::new("claim records", begun.tx, inner.name(), false),
    };
    let refused = mark(&mut marking, &mut records, layout.ordering).await?;
    inner.memory.note_unclaimed(layout, &refused);
    if records.is_empty() {
        marking.settling.rollback().await?;
        return Ok(None);
    }
    let token = query(&lease.token_of);
    let token = IdList::new(ready.id_kind, records.iter().map(|record| &record.id))?.bind(token);
    let row = token.fetch_one(marking.settling.connection()).await;
    let token = row.and_then(|row| row.try_get_unchecked("token"));
    let token = token.map_err(store_error("claim records", &inner.name()))?;
    marking.settling.commit(false).await?;
    Ok(Some((records, Time(token))))
}

/// The transaction that records are marked in, one by one where they must be.
struct Marking<'a> {
    ready: &'a Ready,
    text: &'a Arc<str>,
    settling: Settling,
}

#[async_trait]
impl Marks for Marking<'_> {
    fn savepoint(&mut self) -> &mut dyn Savepoint {
        &mut self.settling
    }

    async fn mark(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        let mark = IdList::new(self.ready.id_kind, ids(records))?.bind(query(self.text));
        self.settling.execute(mark).await
    }
}

struct Found {
    records: Vec<Record>,
    /// Where any were claimed.
    token: Option<Time>,
    /// In order, how many records were looked at.
    seen: i64,
    /// Whether more were claimed than are here.
    is_cut: bool,
}

async fn look(
    inner: &Inner,
    ready: &Ready,
    begun: &mut Begun,
    want: Want,
    depth: u32,
    range: &Range,
) -> Result<Found, StoreError> {
    let ordered = begun.lanes_held > 0;
    let bound = |text, begun: &Begun| {
        let look = Look {
            limit: want.limit,
            lanes: begun.lanes.as_deref(),
            depth: Some(depth),
            range,
        };
        claiming(inner, ready, text, look)
    };
    let (mut token, mut seen) = (None, 0);
    let first = |row: &PgRow| {
        if ordered {
            seen = row.try_get("seen")?;
        }
        if !row.try_get_raw("token")?.is_null() {
            token = Some(Time(row.try_get_unchecked("token")?));
        }
        Ok(token.is_some())
    };
    let claim = bound(&ready.statements.claim, begun)?;
    let connection = begun.tx.connection();
    let fetched = fetch_with(inner, ready, claim, want.bytes, connection, first).await?;
    let mut records = fetched.records;
    let Some(lease) = &ready.statements.lease else {
        return Err(StoreError::Mismatch("a lease needs a status column".into()));
    };
    if lease.unsorted {
        records.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    }
    // Nothing claimed, and no row to say how many were looked at.
    if let (None, true, Some(looked_at)) = (&token, lease.unsorted, &lease.looked_at) {
        let counted = bound(looked_at, begun)?;
        let row = counted.fetch_one(begun.tx.connection()).await;
        let counted = row.and_then(|row| row.try_get("seen"));
        seen = counted.map_err(store_error("claim records", &inner.name()))?;
    }
    Ok(Found {
        records,
        token,
        seen,
        is_cut: fetched.is_cut,
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
        let written = write_leased(&*self, &sorted).await?;
        let lapsed = written.lapsed();
        let layout = &self.inner.options.layout;
        let refused = self.inner.memory.note(layout, &sorted, written);
        Ok(Settled { lapsed, refused })
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

    /// What is tried again, dead, or given back.
    fn back(&self, failures: &[Failed<'_>], given_back: &[&Record]) -> Result<PgQuery, StoreError> {
        let State::Status { failed, dead, .. } = &self.inner.options.layout.state else {
            return Err(StoreError::Mismatch("a lease needs a status column".into()));
        };
        let mut back = Back::default();
        for fate in failures {
            back.ids.push(&fate.record.id);
            back.states
                .push(if fate.dead { dead } else { failed }.clone());
            back.attempts.push(Some(fate.attempts));
            back.waits.push(fate.wait_micros());
            back.errors.push(fate.error.map(str::to_owned));
        }
        for record in given_back {
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

#[async_trait]
impl Lease for Leased {
    fn ends_at(&self) -> Instant {
        self.lapses_at
    }

    async fn write<'a>(&self, part: &Sorted<'a>) -> Result<Written<'a>, StoreError> {
        let failed = store_error("settle a claim", &self.inner.name());
        let begun = Tx::begin(&self.inner.pool, begin_settling()).await;
        let (mut tx, _) = begun.map_err(&failed)?;
        let goes_back = part.published.is_empty();
        if goes_back && self.inner.options.layout.ordering == Ordering::Key {
            self.lock_lanes(part, &mut tx).await?;
        }
        let mut book = Book {
            claim: self,
            settling: Settling::new("settle a claim", tx, self.inner.name(), goes_back),
        };
        let written = write(&mut book, part, None).await?;
        book.settling.commit(!part.failed.is_empty()).await?;
        Ok(written)
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

/// A claim's fates, and the transaction that they are written in.
struct Book<'a> {
    claim: &'a Leased,
    settling: Settling,
}

#[async_trait]
impl Ledger for Book<'_> {
    fn savepoint(&mut self) -> &mut dyn Savepoint {
        &mut self.settling
    }

    async fn published(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        let update = query(&self.claim.ready.statements.settle_published);
        let update = IdList::new(self.claim.ready.id_kind, ids(records))?.bind(update);
        self.settling.execute(update.bind(self.claim.token)).await
    }

    async fn failed(&mut self, failures: &[Failed<'_>]) -> Result<u64, StoreError> {
        let back = self.claim.back(failures, &[])?;
        self.settling.execute(back).await
    }

    async fn released(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        let back = self.claim.back(&[], records)?;
        self.settling.execute(back).await
    }
}
