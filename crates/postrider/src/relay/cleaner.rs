//! What happens beside the cycle: published records are deleted, the backlog is counted.

use std::sync::Arc;
use std::time::Instant;

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

/// Counts the backlog for the metrics until the relay stops.
pub(super) async fn sample_backlog(shared: Arc<Shared>, shutdown: CancellationToken) {
    loop {
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
        let pause = shared
            .config
            .backlog_every
            .max(started.elapsed() * COUNTING);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => return,
        }
    }
}
