//! What the phases with writers share: a relay that runs, a load by schedule, something that happens meanwhile, and
//! latencies.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::super::event::Events;
use super::super::load::{self, Schedule, Sent};
use super::super::reader::{Clock, Reader};
use super::super::relay::Relay;
use super::super::results::Figures;
use super::trial::{Meter, Trial, read_tables, read_verdict};
use crate::stats;

pub(super) struct Live {
    pub(super) rate: u64,
    pub(super) secs: u64,
    pub(super) events: Events,
    /// Whether a relay that ends by itself is started again, as whatever runs it would.
    pub(super) restarts: bool,
    /// Before `secs`, and counted by itself.
    pub(super) clean_secs: u64,
    /// Events that are not of the load: `meanwhile` writes them, after the last one of it.
    pub(super) more: u64,
}

impl Live {
    pub(super) fn new(rate: u64, secs: u64, events: Events) -> Self {
        Self {
            rate,
            secs,
            events,
            restarts: false,
            clean_secs: 0,
            more: 0,
        }
    }
}

/// What happens while the load is on.
pub(super) struct Scene<'a> {
    pub(super) trial: &'a Trial<'a>,
    pub(super) relay: Relay,
    pub(super) restarts: u32,
}

const LOOK: Duration = Duration::from_millis(20);
/// A virtual machine and its connectors on a busy machine.
const START_PATIENCE: Duration = Duration::from_secs(90);
/// Nothing arrived for so long, so what is missing is lost. A peer's locks end after more than a minute.
const SILENCE_MAX: Duration = Duration::from_secs(100);
/// After the last write. What is still coming then is late, not lost.
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(300);
/// For what says that it warms up.
const LONG_WARM_UP: u64 = 3;

impl Scene<'_> {
    /// Starts again what ended by itself.
    pub(super) fn tend(&mut self, may_restart: bool) -> anyhow::Result<()> {
        if self.relay.is_alive() {
            return Ok(());
        }
        anyhow::ensure!(may_restart, "the relay ended by itself");
        const RESTARTS_MAX: u32 = 60;
        anyhow::ensure!(
            self.restarts < RESTARTS_MAX,
            "the relay ended by itself {RESTARTS_MAX} times"
        );
        self.restarts += 1;
        self.relay.kill_and_restart()
    }
}

/// `meanwhile` begins with the warm-up over, and may take longer than the load. It is told which event comes after the load.
pub(super) async fn measure(
    trial: &mut Trial<'_>,
    live: Live,
    meanwhile: impl AsyncFnOnce(&mut Scene<'_>, u64) -> anyhow::Result<()>,
) -> anyhow::Result<Figures> {
    trial.settle_machine().await;
    let trial = &*trial;
    let start = Instant::now();
    let reader = Reader::start(
        trial.lab.kafka(),
        &trial.topic,
        live.events,
        Clock::Receipt(start),
    )?;
    let mut scene = Scene {
        trial,
        relay: trial.start_relay()?,
        restarts: 0,
    };
    until_ready(&scene, &reader, live.events).await?;

    let longer = if trial.subject.about.warms_up {
        LONG_WARM_UP
    } else {
        1
    };
    let warm_up = trial.warm_up_secs * longer;
    let schedule = Schedule {
        rate: live.rate,
        first: 1,
        count: live.rate * (warm_up + live.clean_secs + live.secs),
    };
    let clean = schedule.first + live.rate * warm_up;
    let counted = clean + live.rate * live.clean_secs;
    let end = schedule.first + schedule.count;
    let sent = Sent::new(schedule, start);
    let meter = Meter::start(trial, Some(&scene.relay)).await?;
    trial.progress.say(&format!(
        "{}/s for {} s",
        live.rate,
        schedule.count / live.rate
    ));
    let (pool, insert) = (&trial.database.pool, &trial.subject.about.insert);
    let load = load::steady(pool, insert, live.events, schedule, &sent);
    let happen = async {
        tokio::time::sleep(Duration::from_secs(warm_up)).await;
        meanwhile(&mut scene, end).await
    };
    tokio::try_join!(load, happen)?;
    let written = end + live.more;
    let is_over = until_arrived(&mut scene, &reader, written, live.restarts).await?;

    let mut figures = Figures::default();
    meter.read(trial, &mut scene.relay, &mut figures).await?;
    scene.relay.kill();
    read_tables(trial, &mut figures).await?;
    read_verdict(&reader, written, &mut figures);
    if !is_over && let Some(late) = figures.take("lost") {
        figures.set("late", late);
        figures.set("lost", 0.0);
    }
    if live.restarts {
        figures.set("restarts", f64::from(scene.restarts));
    }
    if live.clean_secs > 0 {
        let mut before = Figures::default();
        times(&reader, &sent, clean..counted, &mut before);
        for (name, value) in before.iter() {
            figures.set(&format!("clean_{name}"), value);
        }
    }
    times(&reader, &sent, counted..end, &mut figures);
    Ok(figures)
}

/// Until a first event got through.
pub(super) async fn until_ready(
    scene: &Scene<'_>,
    reader: &Reader,
    events: Events,
) -> anyhow::Result<()> {
    let trial = scene.trial;
    let mut connection = trial.database.pool.acquire().await?;
    load::insert(&mut connection, &trial.subject.about.insert, events, 0..1).await?;
    let start = Instant::now();
    while reader.with(|arrivals| arrivals.distinct) == 0 {
        anyhow::ensure!(scene.relay.is_alive(), "the relay ended by itself");
        anyhow::ensure!(
            start.elapsed() < START_PATIENCE,
            "no event arrived in {START_PATIENCE:?}"
        );
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Until all arrived, or nothing more comes; false if it still comes and we had enough.
async fn until_arrived(
    scene: &mut Scene<'_>,
    reader: &Reader,
    count: u64,
    may_restart: bool,
) -> anyhow::Result<bool> {
    let start = Instant::now();
    let (mut last, mut changed) = (0, Instant::now());
    loop {
        let distinct = reader.with(|arrivals| arrivals.distinct);
        if distinct > last {
            (last, changed) = (distinct, Instant::now());
        }
        if distinct >= count || changed.elapsed() > SILENCE_MAX {
            return Ok(true);
        }
        if start.elapsed() > ARRIVAL_PATIENCE {
            return Ok(false);
        }
        scene.tend(may_restart)?;
        scene.trial.progress.count(distinct, count);
        tokio::time::sleep(LOOK * 5).await;
    }
}

/// Latencies and rates of the events that count.
fn times(reader: &Reader, sent: &Sent, counted: Range<u64>, figures: &mut Figures) {
    let (mut latency, mut commit, mut after) = (Vec::new(), Vec::new(), Vec::new());
    let (mut last_commit, mut last_arrival) = (0, 0);
    reader.with(|arrivals| {
        for i in counted.clone() {
            let (sent, done) = sent.at(i);
            commit.push((done - sent) as f64 / 1000.0);
            last_commit = last_commit.max(done);
            let Some(seen) = arrivals.seen_at(i) else {
                continue;
            };
            last_arrival = last_arrival.max(seen);
            latency.push(seen.saturating_sub(sent) as f64 / 1000.0);
            // The consumer may have it before the writer hears of its commit.
            after.push(seen.saturating_sub(done) as f64 / 1000.0);
        }
    });
    let (begin, _) = sent.at(counted.start);
    let secs = |end: u64| (end.saturating_sub(begin) as f64 / 1e6).max(0.001);
    figures.set("written_per_sec", commit.len() as f64 / secs(last_commit));
    figures.set("per_sec", latency.len() as f64 / secs(last_arrival));
    for (name, values) in [
        ("latency", latency),
        ("commit", commit),
        ("after_commit", after),
    ] {
        if let Some(found) = stats::percentiles(values) {
            figures.set(&format!("{name}_p50_ms"), found.p50);
            figures.set(&format!("{name}_p99_ms"), found.p99);
            figures.set(&format!("{name}_p999_ms"), found.p999);
            figures.set(&format!("{name}_max_ms"), found.max);
        }
    }
}
