//! A steady load, nothing else.

use super::super::event::Events;
use super::super::results::Figures;
use super::live::{self, Live};
use super::trial::Trial;

pub(super) const EVENTS: Events = Events { keys: 10_000 };

pub(super) async fn measure(
    trial: &mut Trial<'_>,
    rate: u64,
    secs: u64,
) -> anyhow::Result<Figures> {
    let live = Live::new(rate, secs, EVENTS);
    live::measure(trial, live, async |_, _| Ok(())).await
}
