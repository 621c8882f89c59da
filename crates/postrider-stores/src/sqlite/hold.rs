//! Claims of tables that have no column for one: held by a row of [`claims`], and settled only while it is there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::layout::State;
use postrider_core::{Claim, Fate, Record, Settled, StoreError, Timestamp, Want};
use serde_json::{Value, json};
use sqlx::{Row as _, SqliteConnection};

use super::Inner;
use super::bind::{self, Bound};
use super::claims::{self, New, Others};
use super::error::store_error;
use super::outbox::{Ready, is_idle, select};
use super::process::{self, Token};
use super::settling::Settling;
use super::tx::Tx;
use crate::fates::{Failed, Sorted, Trouble, ids, plain_error, recall};
use crate::settle::{Ledger, Savepoint, write};

/// How much longer than its holder thinks a claim is safe from others.
const MARGIN: Duration = Duration::from_secs(5);

struct Held {
    inner: Arc<Inner>,
    ready: Arc<Ready>,
    token: Token,
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
    if is_idle(inner, &ready, want, true).await? {
        return Ok(None);
    }
    let started = Instant::now();
    let token = Token::new();
    let mut tx = inner.database.begin_to("claim records").await?;
    let taken = take(inner, &ready, want, &token, &mut tx).await?;
    let failed = store_error("claim records", &inner.name());
    let Some(taken) = taken else {
        tx.rollback().await.map_err(&failed)?;
        return Ok(None);
    };
    tx.commit().await.map_err(&failed)?;
    if let Some(named) = &taken.sweeping {
        process::sweep(inner.database.path(), named);
    }
    if taken.records.is_empty() {
        return Ok(None);
    }
    Ok(Some(Box::new(Held {
        inner: inner.clone(),
        ready,
        token,
        records: taken.records,
        lapses_at: started + inner.options.hold_max,
        lanes: taken.lanes,
        troubled: taken.troubled,
    })))
}

/// What a transaction took. Without records it still ended claims.
#[derive(Default)]
struct Taken {
    records: Vec<Record>,
    lanes: u32,
    troubled: bool,
    /// Where lock files are to be swept: the processes that claims still name.
    sweeping: Option<HashSet<String>>,
}

/// `None` where nothing was written.
async fn take(
    inner: &Inner,
    ready: &Ready,
    want: Want,
    token: &Token,
    tx: &mut Tx,
) -> Result<Option<Taken>, StoreError> {
    let failed = store_error("claim records", &inner.name());
    let outbox = &ready.table.full_name;
    let here = inner.database.presence()?;
    let others = Others::read(inner, outbox, &here, tx)
        .await
        .map_err(&failed)?;
    let ended = others.end(inner, tx).await.map_err(&failed)?;
    let now = Timestamp::now().as_micros();
    let records = select(inner, ready, want, &others, now, tx).await?;
    let mut taken = Taken {
        records: records.unwrap_or_default(),
        ..Taken::default()
    };
    if inner.options.layout.needs_troubles() && !taken.records.is_empty() {
        taken.troubled = recall_troubles(inner, ready, tx, &mut taken.records)
            .await
            .map_err(&failed)?;
    }
    if taken.records.is_empty() {
        return Ok(ended.then_some(taken));
    }
    let held = held(inner, ready, &taken.records, tx).await?;
    if inner.keeps_order() {
        taken.lanes = u32::try_from(held.len()).unwrap_or(u32::MAX);
    }
    let until = (inner.options.hold_max + MARGIN).as_micros();
    let claim = New {
        token: &token.0,
        outbox,
        process: &here.name,
        until: now.saturating_add(i64::try_from(until).unwrap_or(i64::MAX)),
        held,
    };
    claims::begin(inner, &claim, tx).await.map_err(&failed)?;
    if here.may_sweep() {
        taken.sweeping = Some(claims::processes(inner, tx).await.map_err(&failed)?);
    }
    Ok(Some(taken))
}

/// The lanes of the records, or with no order the records themselves.
async fn held(
    inner: &Inner,
    ready: &Ready,
    records: &[Record],
    connection: &mut SqliteConnection,
) -> Result<Vec<Value>, StoreError> {
    let ids = bind::ids(ready.id_kind, records.iter().map(|record| &record.id))?;
    if !inner.keeps_order() {
        return Ok(ids);
    }
    let failed = store_error("claim records", &inner.name());
    let lanes = Bound::new(&ready.statements.lanes_of).list(1, ids);
    let rows = lanes.rows(connection).await.map_err(&failed)?;
    rows.iter()
        .map(|row| {
            let lane: i64 = row.try_get(0).map_err(&failed)?;
            Ok(lane.into())
        })
        .collect()
}

async fn recall_troubles(
    inner: &Inner,
    ready: &Ready,
    connection: &mut SqliteConnection,
    records: &mut Vec<Record>,
) -> Result<bool, sqlx::Error> {
    let troubles = Bound::new(&ready.statements.troubles_of)
        .text(1, ready.table.full_name.clone())
        .texts(2, records.iter().map(|record| &record.id));
    let mut found: HashMap<String, Trouble> = HashMap::new();
    for row in troubles.rows(connection).await? {
        let trouble = Trouble {
            attempts: u32::try_from(row.try_get::<i64, _>(1)?).unwrap_or(0),
            blocked: row.try_get::<i64, _>(2)? != 0,
        };
        found.insert(row.try_get(0)?, trouble);
    }
    recall(records, inner.options.layout.ordering, &found);
    Ok(!found.is_empty())
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
    async fn end(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        let sorted = Sorted::new(&self.records, fates)?;
        let failed = store_error("settle a claim", &self.inner.name());
        let mut tx = self.inner.begin_settling().await?;
        let ours = claims::end(&self.inner, &self.token.0, &mut tx).await;
        if !ours.map_err(&failed)? {
            tx.rollback().await.map_err(&failed)?;
            let lapsed = self.records.len() as u64;
            return Ok(Settled {
                lapsed,
                ..Settled::default()
            });
        }
        let layout = &self.inner.options.layout;
        let mut book = Book {
            claim: &self,
            settling: Settling::begin("settle a claim", tx, self.inner.name()).await?,
        };
        let written = write(&mut book, &sorted, plain_error(layout)).await?;
        let lapsed = written.lapsed();
        let refused = self.inner.memory.note(layout, &sorted, written);
        book.settling.commit().await?;
        Ok(Settled { lapsed, refused })
    }

    fn rows(&self, failures: &[Failed<'_>]) -> Result<Vec<Value>, StoreError> {
        // Where troubles are not kept aside, enough attempts are what death looks like.
        let enough = match self.inner.options.layout.state {
            State::Timestamp { .. } => {
                i32::try_from(self.inner.options.max_attempts).unwrap_or(i32::MAX)
            }
            _ => 0,
        };
        let row = |of: &Failed<'_>| {
            let id = bind::id_value(self.ready.id_kind, &of.record.id)?;
            let attempts = match of.dead {
                true => of.attempts.max(enough),
                false => of.attempts,
            };
            let key = of.record.key.as_ref().map(ToString::to_string);
            let wait = of.wait_micros();
            Ok(json!([id, attempts, of.error, wait, of.dead, key]))
        };
        failures.iter().map(row).collect()
    }
}

/// A claim's fates, and the transaction that they are written in.
struct Book<'a> {
    claim: &'a Held,
    settling: Settling,
}

#[async_trait]
impl Ledger for Book<'_> {
    fn savepoint(&mut self) -> &mut dyn Savepoint {
        &mut self.settling
    }

    async fn published(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        let ready = &self.claim.ready;
        let update = Bound::new(&ready.statements.settle_published)
            .list(1, bind::ids(ready.id_kind, ids(records))?);
        let found = self.settling.execute(update).await?;
        if self.claim.troubled {
            let forget = Bound::new(&ready.statements.forget_troubles)
                .text(1, ready.table.full_name.clone())
                .texts(2, ids(records));
            self.settling.execute(forget).await?;
        }
        Ok(found)
    }

    async fn failed(&mut self, failures: &[Failed<'_>]) -> Result<u64, StoreError> {
        let (inner, ready) = (&self.claim.inner, &self.claim.ready);
        let rows = self.claim.rows(failures)?;
        let bound = |text| {
            let bound = Bound::new(text).list(1, rows.clone());
            inner.with_outbox(ready, 7, bound)
        };
        let mut marked = None;
        if let Some(mark) = &ready.statements.mark_failed {
            marked = Some(self.settling.execute(bound(mark)).await?);
        }
        let settle = bound(&ready.statements.settle_failed);
        let noted = self.settling.execute(settle).await?;
        Ok(marked.unwrap_or(noted))
    }
}
