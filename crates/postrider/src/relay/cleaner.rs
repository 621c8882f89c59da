//! What happens beside the cycle: published records are deleted, the backlog is counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Cleanup, Shared};

/// Deletes published records until the relay stops.
pub(super) async fn clean(shared: Arc<Shared>, cleanup: Cleanup, shutdown: CancellationToken) {
    let count = |deleted| shared.metrics.purged(deleted);
    cleanup
        .run_counting(&shared.name, &*shared.store, shutdown, count)
        .await;
}

/// Counting the backlog may take one part in so many of the time: a long table takes long to count.
const COUNTING: u32 = 20;

const FIRST_COUNT: Duration = Duration::from_secs(5);

/// Counts the backlog for the metrics until the relay stops.
pub(super) async fn sample_backlog(shared: Arc<Shared>, shutdown: CancellationToken) {
    // What waits is published first, and counted when a relay that has just come up has had time for it.
    let mut pause = shared.config.backlog_every.min(FIRST_COUNT);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => return,
        }
        let started = Instant::now();
        let backlog = tokio::select! {
            backlog = shared.store.backlog() => backlog,
            // A stop need not wait for it.
            () = shutdown.cancelled() => return,
        };
        // Trouble with the database is told by the workers; the old figures stay.
        if let Ok(backlog) = backlog {
            shared.metrics.backlog(&backlog);
        }
        let counting = started.elapsed() * COUNTING;
        pause = shared.config.backlog_every.max(counting);
    }
}
