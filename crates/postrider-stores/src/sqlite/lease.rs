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
use super::settling::Settling;
use crate::fates::{Failed, Sorted, ids};
use crate::settle::{Lease, Ledger, Marks, Savepoint, Written, mark, write, write_leased};

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
    let Some(text) = &ready.statements.mark else {
        return Err(StoreError::Mismatch("a lease needs a status column".into()));
    };
    let failed = store_error("claim records", &inner.name());
    let layout = &inner.options.layout;
    let started = Instant::now();
    let mut tx = inner.database.begin_to("claim records").await?;
    let token = Timestamp::now().as_micros();
    // The status says what others hold.
    let others = Others::default();
    let records = select(inner, &ready, want, &others, token, &mut tx).await?;
    let mut records = records.unwrap_or_default();
    if records.is_empty() {
        tx.rollback().await.map_err(&failed)?;
        return Ok(None);
    }
    let mut marking = Marking {
        ready: &ready,
        text,
        token,
        settling: Settling::begin("claim records", tx, inner.name()).await?,
    };
    let refused = mark(&mut marking, &mut records, layout.ordering).await?;
    inner.memory.note_unclaimed(layout, &refused);
    if records.is_empty() {
        marking.settling.rollback().await?;
        return Ok(None);
    }
    marking.settling.commit().await?;
    let lapses_at = inner.options.lease_lapses(started);
    Ok(Some(Box::new(Leased {
        inner: inner.clone(),
        ready,
        records,
        token,
        lapses_at,
    })))
}

/// The transaction that records are marked in, one by one where they must be.
struct Marking<'a> {
    ready: &'a Ready,
    text: &'a Arc<str>,
    token: i64,
    settling: Settling,
}

#[async_trait]
impl Marks for Marking<'_> {
    fn savepoint(&mut self) -> &mut dyn Savepoint {
        &mut self.settling
    }

    async fn mark(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        let ids = bind::ids(self.ready.id_kind, ids(records))?;
        let mark = Bound::at(self.text, self.token).list(1, ids);
        self.settling.execute(mark).await
    }
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

    /// What is tried again, dead, or given back: id, status, attempts, microseconds to wait, error. What has no attempts
    /// or error keeps those it has.
    fn rows(
        &self,
        failures: &[Failed<'_>],
        given_back: &[&Record],
    ) -> Result<Vec<Value>, StoreError> {
        let State::Status { failed, dead, .. } = &self.inner.options.layout.state else {
            return Err(StoreError::Mismatch("a lease needs a status column".into()));
        };
        let kind = self.ready.id_kind;
        let mut back = Vec::new();
        for fate in failures {
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
        for record in given_back {
            let id = bind::id_value(kind, &record.id)?;
            back.push(json!([id, failed, null, 0, null]));
        }
        Ok(back)
    }
}

#[async_trait]
impl Lease for Leased {
    fn ends_at(&self) -> Instant {
        self.lapses_at
    }

    async fn write<'a>(&self, part: &Sorted<'a>) -> Result<Written<'a>, StoreError> {
        let tx = self.inner.begin_settling().await?;
        let mut book = Book {
            claim: self,
            settling: Settling::begin("settle a claim", tx, self.inner.name()).await?,
        };
        let written = write(&mut book, part, None).await?;
        book.settling.commit().await?;
        Ok(written)
    }
}

/// A claim's fates, and the transaction that they are written in.
struct Book<'a> {
    claim: &'a Leased,
    settling: Settling,
}

impl Book<'_> {
    async fn back(
        &mut self,
        failures: &[Failed<'_>],
        given_back: &[&Record],
    ) -> Result<u64, StoreError> {
        let rows = self.claim.rows(failures, given_back)?;
        let back = Bound::new(&self.claim.ready.statements.settle_failed)
            .list(1, rows)
            .int(2, self.claim.token);
        self.settling.execute(back).await
    }
}

#[async_trait]
impl Ledger for Book<'_> {
    fn savepoint(&mut self) -> &mut dyn Savepoint {
        &mut self.settling
    }

    async fn published(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        let ready = &self.claim.ready;
        let published = Bound::new(&ready.statements.settle_published)
            .list(1, bind::ids(ready.id_kind, ids(records))?)
            .int(2, self.claim.token);
        self.settling.execute(published).await
    }

    async fn failed(&mut self, failures: &[Failed<'_>]) -> Result<u64, StoreError> {
        self.back(failures, &[]).await
    }

    async fn released(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        self.back(&[], records).await
    }
}
