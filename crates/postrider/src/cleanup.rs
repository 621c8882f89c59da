//! Cutting back what grows: published records, inbox entries. In bounded batches, beside the work and never in its way.

use std::time::Duration;

use postrider_core::Purge;
use postrider_core::text::chain;
use tokio_util::sync::CancellationToken;

/// Between two statements of one clean-up, so that it never keeps the database busy by itself.
const BREATH: Duration = Duration::from_millis(50);

/// What is deleted, and how fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleanup {
    pub keep: Duration,
    pub every: Duration,
    /// Most entries per statement.
    pub batch: u32,
}

impl Default for Cleanup {
    /// Seven days, every minute, 1,000 at a time.
    fn default() -> Self {
        Self {
            keep: Duration::from_secs(7 * 24 * 3600),
            every: Duration::from_secs(60),
            batch: 1_000,
        }
    }
}

impl Cleanup {
    /// Deletes until `shutdown`; `name` is what logs call the table. An error waits for the next round.
    pub async fn run(self, name: &str, table: &dyn Purge, shutdown: CancellationToken) {
        self.run_counting(name, table, shutdown, |_| {}).await;
    }

    pub(crate) async fn run_counting(
        self,
        name: &str,
        table: &dyn Purge,
        shutdown: CancellationToken,
        count: impl Fn(u64),
    ) {
        loop {
            let purged = tokio::select! {
                purged = table.purge(self.keep, self.batch) => purged,
                () = shutdown.cancelled() => return,
            };
            let deleted = purged.unwrap_or_else(|error| {
                tracing::warn!(table = name, reason = chain(&error), "cleanup failed");
                0
            });
            count(deleted);
            let full = deleted >= u64::from(self.batch);
            tokio::select! {
                () = tokio::time::sleep(if full { BREATH } else { self.every }) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }
}
