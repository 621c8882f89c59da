//! Task 5: both tables are cut back in the background. Unpublished events stay, whatever their age.

use postrider::stores::postgres::{Options, PgPool, PostgresStore};
use tokio_util::sync::CancellationToken;

use crate::{InboxConfig, OutboxConfig};

/// Retention, interval and rows per statement; by default seven days, one minute and 1,000. The condition
/// "published only" is not text to be spliced into SQL: it is part of what an outbox is.
pub use postrider::Cleanup as CleanupConfig;

/// Deletes until `shutdown`.
pub async fn start_cleanup(
    pool: PgPool,
    inbox: &InboxConfig,
    outbox: &OutboxConfig,
    config: CleanupConfig,
    shutdown: CancellationToken,
) {
    let entries = inbox.inbox().upkeep(pool.clone());
    let records = PostgresStore::new(pool, Options::new(outbox.layout().clone()));
    tokio::join!(
        config.run("inbox", &entries, shutdown.clone()),
        config.run("outbox", &records, shutdown)
    );
}
