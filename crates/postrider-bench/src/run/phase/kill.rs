//! SIGKILL of the relay again and again while events are written.

use std::time::Duration;

use super::super::event::Events;
use super::super::results::Figures;
use super::live::{self, Live};
use super::trial::Trial;

/// Few, so that each has several events in flight when the relay dies.
pub(super) const EVENTS: Events = Events { keys: 200 };
const EVERY: Duration = Duration::from_secs(5);

pub(super) async fn measure(
    trial: &mut Trial<'_>,
    rate: u64,
    secs: u64,
) -> anyhow::Result<Figures> {
    let live = Live {
        restarts: true,
        ..Live::new(rate, secs, EVENTS)
    };
    let mut kills = 0.0;
    let measured = live::measure(trial, live, async |scene, _| {
        for _ in 0..secs / EVERY.as_secs() {
            tokio::time::sleep(EVERY).await;
            scene.trial.progress.say("SIGKILL");
            scene.relay.kill_and_restart()?;
            kills += 1.0;
        }
        Ok(())
    });
    let mut figures = measured.await?;
    figures.set("kills", kills);
    Ok(figures)
}
