//! End to end: a shop's orders through its outbox, real relay processes, a broker and real consumer processes to their
//! effects in another database, while processes are killed, join and leave.
//!
//! `POSTRIDER_TORTURE_SECS` makes the runs longer.

mod arena;
mod broken;
#[cfg(feature = "failpoints")]
mod crashes;
mod examples;
mod orders;
mod outcome;
mod processes;
mod rebalance;
mod torture;

use std::time::Duration;

/// How long a torture lasts.
fn time(default_secs: u64) -> Duration {
    let secs = std::env::var("POSTRIDER_TORTURE_SECS")
        .ok()
        .and_then(|secs| secs.parse().ok());
    Duration::from_secs(secs.unwrap_or(default_secs))
}
