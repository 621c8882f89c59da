//! What happens beside the cycle: published records are deleted, the backlog is counted.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::text::chain;
use tokio_util::sync::CancellationToken;

use super::{Cleanup, Shared};

/// Between two statements of one clean-up, so that it never keeps the database busy by itself.
const BREATH: Duration = Duration::from_millis(50);

/// Deletes in bounded batches until the relay stops. An error waits for the next round.
pub(super) async fn clean(shared: Arc<Shared>, cleanup: Cleanup, shutdown: CancellationToken) {
    loop {
        let deleted = match shared.store.purge(cleanup.keep, cleanup.batch).await {
            Ok(deleted) => deleted,
            Err(error) => {
                tracing::warn!(
                    outbox = shared.name,
                    reason = chain(&error),
                    "cleanup failed"
                );
                0
            }
        };
        shared.metrics.purged(deleted);
        let full = deleted >= u64::from(cleanup.batch);
        let wait = if full { BREATH } else { cleanup.every };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shutdown.cancelled() => return,
        }
    }
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
