//! What happens beside the cycle: published records are deleted, the backlog is counted.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Cleanup, Shared};

/// Deletes published records until the relay stops.
pub(super) async fn clean(shared: Arc<Shared>, cleanup: Cleanup, shutdown: CancellationToken) {
    let count = |deleted| shared.metrics.purged(deleted);
    cleanup
        .run_counting(&shared.name, &*shared.store, shutdown, count)
        .await;
}

/// Counts the backlog for the metrics until the relay stops.
pub(super) async fn sample_backlog(shared: Arc<Shared>, shutdown: CancellationToken) {
    loop {
        let backlog = tokio::select! {
            backlog = shared.store.backlog() => backlog,
            // A long table takes long to count, and a stop need not wait for that.
            () = shutdown.cancelled() => return,
        };
        // Trouble with the database is told by the workers; the old figures stay.
        if let Ok(backlog) = backlog {
            shared.metrics.backlog(&backlog);
        }
        tokio::select! {
            () = tokio::time::sleep(shared.config.backlog_every) => {}
            () = shutdown.cancelled() => return,
        }
    }
}
