//! The broker is stopped for a while and started again, while events are written.

use std::time::{Duration, Instant};

use super::super::results::Figures;
use super::kill::EVENTS;
use super::live::{self, Live};
use super::trial::Trial;

const BEFORE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(500);

pub(super) async fn measure(
    trial: &mut Trial<'_>,
    rate: u64,
    secs: u64,
) -> anyhow::Result<Figures> {
    const AFTER_SECS: u64 = 5;
    let live = Live {
        restarts: true,
        ..Live::new(rate, BEFORE.as_secs() + secs + AFTER_SECS, EVENTS)
    };
    let mut down_secs = 0.0;
    let measured = live::measure(trial, live, async |scene, _| {
        tokio::time::sleep(BEFORE).await;
        scene.trial.progress.say("the broker is stopped");
        let start = Instant::now();
        scene.trial.lab.stop_kafka().await;
        while start.elapsed() < Duration::from_secs(secs) {
            tokio::time::sleep(LOOK).await;
            scene.tend(true)?;
        }
        scene.trial.lab.start_kafka().await;
        down_secs = start.elapsed().as_secs_f64();
        scene.trial.progress.say("the broker answers again");
        Ok(())
    });
    let mut figures = measured.await?;
    figures.set("down_secs", down_secs);
    Ok(figures)
}
