//! Records that cannot be sent now: dead ones, ones that wait for their retry time, and ones behind a dead one of their key.
//! What do they cost those that can, and a relay that has nothing to do?
//!
//! A store of the harness makes them stuck, and is then measured itself: where a table has no column for retry times, nobody
//! else knows them. For the same reason the relay that idles runs inside the harness, on that store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use postrider::Relay;
use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::core::{
    Claim, Fate, Layout, Ordering, OutboxStore as _, Record, Router, Routes, Share, Want,
};
use postrider::relay::Config;
use postrider::stores::postgres::{self, Options, PostgresStore};
use tokio_util::sync::CancellationToken;

use super::super::event::{Events, scan};
use super::super::load;
use super::super::results::Figures;
use super::trial::Trial;
use crate::{stats, usage, workload};

/// What the measured claims ask for.
const CLAIM: u32 = 1000;
/// Of them; the median counts.
const CLAIMS: usize = 9;
/// What is made stuck at a time.
const MAKE: u32 = 3000;
/// Longer than any measurement.
const RETRY_AFTER: Duration = Duration::from_secs(4 * 3600);
/// A claim may find nothing in the part of the table that it looked at, and look further the next time.
const EMPTY_MAX: u32 = 1000;
const TEND: Duration = Duration::from_secs(10);
/// Until whatever follows the start of a relay is over.
const SETTLE: Duration = Duration::from_secs(10);
/// Keys of those that are not stuck.
const FREE: Events = Events { keys: u64::MAX };
const FREE_FIRST: u64 = 1_000_000_000;

pub(super) async fn measure(
    trial: &mut Trial<'_>,
    records: u64,
    secs: u64,
) -> anyhow::Result<Figures> {
    let layout = layout(trial)?;
    let pool = postgres::connect_relay(&trial.database.url, 8, "bench")?;
    // As the config of the subjects says.
    let options = Options {
        order_is_drawn: true,
        ..Options::new(layout.clone())
    };
    let store = Arc::new(PostgresStore::new(pool, options));
    store.open().await?;
    let start = Instant::now();
    make(trial, &store, records).await?;
    let insert = &trial.subject.about.insert;
    let mut connection = trial.database.pool.acquire().await?;
    let free = FREE_FIRST..FREE_FIRST + u64::from(CLAIM);
    load::insert(&mut connection, insert, FREE, free).await?;
    drop(connection);
    workload::execute(&trial.database.pool, "VACUUM ANALYZE").await?;
    workload::execute(&trial.database.pool, "CHECKPOINT").await?;
    let mut figures = Figures::default();
    figures.set("made_secs", start.elapsed().as_secs_f64());

    trial.settle_machine().await;
    trial.progress.say("claims");
    tend(&store).await?;
    claims(&store, &mut figures).await?;
    let backlog = store.backlog().await?;
    // Those that are dead, that wait, and that stand behind others.
    figures.set("stuck", (backlog.pending + backlog.dead) as f64);
    trial.progress.say("a relay idles");
    idle(trial, store, &layout, secs, &mut figures).await?;
    Ok(figures)
}

fn layout(trial: &Trial<'_>) -> anyhow::Result<Layout> {
    let settings = &trial.subject.about.settings;
    let preset = settings.get("layout").and_then(|layout| layout.as_str());
    let preset = preset.context("a subject of this phase says its layout in its settings")?;
    let mut layout = Layout::preset(preset)?;
    layout.ordering = Ordering::Key;
    Ok(layout)
}

/// A third is dead, a third waits, and a third stands behind what is dead.
async fn make(trial: &Trial<'_>, store: &PostgresStore, records: u64) -> anyhow::Result<()> {
    let failing = records - records / 3;
    if failing == 0 {
        return Ok(());
    }
    let events = Events { keys: failing };
    let (pool, insert) = (&trial.database.pool, &trial.subject.about.insert);
    load::backlog(pool, insert, events, failing).await?;
    let mut failed = 0;
    while failed < failing {
        trial.check_time()?;
        trial.progress.count(failed, failing);
        let claim = claim(store, MAKE).await?;
        let fates: Vec<Fate> = claim.records().iter().map(stick).collect();
        failed += fates.len() as u64;
        claim.settle(&fates).await?;
    }
    let mut connection = pool.acquire().await?;
    // The same keys again: `stick` kills the even ones.
    let behind: Vec<u64> = (0..records / 3)
        .map(|n| failing + 2 * n % failing)
        .collect();
    for part in behind.chunks(1000) {
        load::insert(&mut connection, insert, events, part.iter().copied()).await?;
    }
    Ok(())
}

fn stick(record: &Record) -> Fate {
    let payload = record.payload.as_deref().unwrap_or_default();
    let error = "made to fail by the bench".to_owned();
    match scan(payload).map(|event| event.i % 2) {
        Some(0) => Fate::Dead { attempts: 1, error },
        _ => Fate::Retry {
            attempts: 1,
            after: RETRY_AFTER,
            error,
        },
    }
}

async fn claim(store: &PostgresStore, limit: u32) -> anyhow::Result<Box<dyn Claim>> {
    let want = Want {
        limit,
        bytes: 64 << 20,
        share: Share::ALL,
    };
    for _ in 0..EMPTY_MAX {
        if let Some(claim) = store.claim(want).await? {
            return Ok(claim);
        }
    }
    anyhow::bail!("{EMPTY_MAX} claims found nothing, but there is something")
}

/// As a relay does beside its claims, for long enough that it has seen what is stuck.
async fn tend(store: &PostgresStore) -> anyhow::Result<()> {
    let until = Instant::now() + TEND;
    while Instant::now() < until {
        match store.tend().await? {
            Some(pause) => tokio::time::sleep(pause).await,
            None => break,
        }
    }
    Ok(())
}

/// The free records are claimed and released again and again. In the end they are published.
async fn claims(store: &PostgresStore, figures: &mut Figures) -> anyhow::Result<()> {
    let (mut times, mut counts) = (Vec::new(), Vec::new());
    for number in 0..=CLAIMS {
        let start = Instant::now();
        let claim = claim(store, CLAIM).await?;
        // The first one prepares its statements.
        if number > 0 {
            times.push(start.elapsed().as_secs_f64() * 1000.0);
            counts.push(claim.records().len() as f64);
        }
        let fates = vec![Fate::Released; claim.records().len()];
        claim.settle(&fates).await?;
    }
    let (low, high) = stats::spread(&times).unwrap_or_default();
    figures.set("claim_ms", stats::median(times).unwrap_or_default());
    figures.set("claim_low_ms", low);
    figures.set("claim_high_ms", high);
    figures.set("claim_records", stats::median(counts).unwrap_or_default());
    let mut left = u64::from(CLAIM);
    while left > 0 {
        let claim = claim(store, CLAIM).await?;
        let fates = vec![Fate::Published; claim.records().len()];
        left = left.saturating_sub(fates.len() as u64);
        claim.settle(&fates).await?;
    }
    Ok(())
}

async fn idle(
    trial: &Trial<'_>,
    store: Arc<PostgresStore>,
    layout: &Layout,
    secs: u64,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let publisher = KafkaPublisher::new(KafkaConfig::new(trial.lab.kafka()))?;
    let router = Router::new(layout, Routes::new(), None);
    let mut config = Config {
        ordering: layout.ordering,
        ..Config::default()
    };
    // As the program that ships does.
    if let Some(poll) = layout.defaults.poll_ms.map(Duration::from_millis) {
        (config.poll_min, config.poll_max) = (poll / 2, poll);
    }
    let relay = Relay::builder(store, Arc::new(publisher), router)
        .config(config)
        .build();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(relay.run(shutdown.clone()));
    tokio::time::sleep(SETTLE).await;
    let used = || [usage::own_cpu_secs(), trial.lab.postgres_cpu_secs()];
    let (before, start) = (used(), Instant::now());
    tokio::time::sleep(Duration::from_secs(secs)).await;
    let (after, elapsed) = (used(), start.elapsed().as_secs_f64());
    anyhow::ensure!(!running.is_finished(), "the relay ended by itself");
    shutdown.cancel();
    running.await??;
    let cores = [0, 1].map(|at| (after[at] - before[at]) / elapsed);
    figures.set("idle_relay_cores", cores[0]);
    figures.set("idle_postgres_cores", cores[1]);
    figures.set("idle_cores", cores[0] + cores[1]);
    Ok(())
}
