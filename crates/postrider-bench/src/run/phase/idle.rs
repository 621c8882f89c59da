//! Nothing to do: what waiting costs.

use std::time::{Duration, Instant};

use super::super::reader::{Clock, Reader};
use super::super::results::Figures;
use super::live::{Scene, until_ready};
use super::steady::EVENTS;
use super::trial::{Meter, Trial};

/// Until whatever follows the first event is over.
const SETTLE: Duration = Duration::from_secs(10);

pub(super) async fn measure(trial: &mut Trial<'_>, secs: u64) -> anyhow::Result<Figures> {
    trial.settle_machine().await;
    let clock = Clock::Receipt(Instant::now());
    let reader = Reader::start(trial.lab.kafka(), &trial.topic, EVENTS, clock)?;
    let mut scene = Scene {
        trial,
        relay: trial.start_relay()?,
        restarts: 0,
    };
    until_ready(&scene, &reader, EVENTS).await?;
    drop(reader);
    tokio::time::sleep(SETTLE).await;
    trial.progress.say("idle");
    let meter = Meter::start(trial, Some(&scene.relay)).await?;
    tokio::time::sleep(Duration::from_secs(secs)).await;
    scene.tend(false)?;
    let mut figures = Figures::default();
    meter.read(trial, &mut scene.relay, &mut figures).await?;
    let per_minute = 60.0 / secs.max(1) as f64;
    for (from, to) in [
        ("relay_cpu_secs", "relay_cpu_secs_per_minute"),
        ("postgres_cpu_secs", "postgres_cpu_secs_per_minute"),
    ] {
        if let Some(used) = figures.take(from) {
            figures.set(to, used * per_minute);
        }
    }
    figures.take("kafka_cpu_secs");
    Ok(figures)
}
