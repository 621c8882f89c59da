//! What happens beside the cycle: published records are deleted, the backlog is counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider_core::text::chain;
use tokio_util::sync::CancellationToken;

use super::{Cleanup, Shared};

/// Deletes published records until the relay stops.
pub(super) async fn clean(shared: Arc<Shared>, cleanup: Cleanup, shutdown: CancellationToken) {
    let count = |deleted| shared.metrics.purged(deleted);
    cleanup
        .run_counting(&shared.name, &*shared.store, shutdown, count)
        .await;
}

/// Counting the backlog may take one part in so many of the time: a long table takes long to count, and what polls take
/// comes on top.
const COUNTING: u32 = 50;

const FIRST_COUNT: Duration = Duration::from_secs(5);

/// Counts the backlog for the metrics until the relay stops.
pub(super) async fn sample_backlog(shared: Arc<Shared>, shutdown: CancellationToken) {
    // What waits is published first, and counted when a relay that has just come up has had time for it.
    let mut pause = shared.config.backlog_every.min(FIRST_COUNT);
    let mut is_told = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => return,
        }
        let started = Instant::now();
        let backlog = tokio::select! {
            backlog = shared.answered("count the backlog", shared.store.backlog()) => backlog,
            // A stop need not wait for it.
            () = shutdown.cancelled() => return,
        };
        match backlog {
            Ok(backlog) => {
                shared.metrics.backlog(&backlog);
                is_told = false;
            }
            Err(error) if !is_told => {
                let reason = chain(&error);
                tracing::warn!(
                    outbox = shared.name,
                    reason,
                    "the backlog could not be counted; its metrics keep their last values"
                );
                is_told = true;
            }
            Err(_) => {}
        }
        let counting = started.elapsed() * COUNTING;
        pause = shared.config.backlog_every.max(counting);
    }
}
