//! Task 5: a table is cut back in the background. Each has its own retention, interval and condition.

use std::time::Duration;

use postrider::Cleanup;
use postrider::stores::postgres::{Options, PgPool, PostgresStore};
use tokio_util::sync::CancellationToken;

use crate::{InboxConfig, OutboxConfig};

/// The plan's `CleanupConfig`. `Table`, `Column` and `Condition` are not text to be spliced into SQL: they follow from the
/// table that is given, and both age by `created_at`.
#[derive(Debug, Clone)]
pub struct CleanupConfig {
    pub table: Cleaned,
    /// Default seven days.
    pub retention: Duration,
    /// Default one minute.
    pub interval: Duration,
    /// Most rows per statement. Default 1,000.
    pub batch: u32,
}

/// What is cut back, and which of its rows.
#[derive(Debug, Clone)]
pub enum Cleaned {
    /// All entries that are old enough.
    Inbox(InboxConfig),
    /// "AND published = true": events that are not published stay, whatever their age.
    Outbox(Box<OutboxConfig>),
}

impl CleanupConfig {
    pub fn inbox(inbox: &InboxConfig) -> Self {
        Self::of(Cleaned::Inbox(inbox.clone()))
    }

    pub fn outbox(outbox: &OutboxConfig) -> Self {
        Self::of(Cleaned::Outbox(Box::new(outbox.clone())))
    }

    fn of(table: Cleaned) -> Self {
        let Cleanup { keep, every, batch } = Cleanup::default();
        Self {
            table,
            retention: keep,
            interval: every,
            batch,
        }
    }
}

/// Deletes rows of one table until `shutdown`.
pub async fn start_cleanup(pool: PgPool, config: CleanupConfig, shutdown: CancellationToken) {
    let cleanup = Cleanup {
        keep: config.retention,
        every: config.interval,
        batch: config.batch,
    };
    match config.table {
        Cleaned::Inbox(inbox) => {
            let entries = inbox.inbox().upkeep(pool);
            cleanup.run("inbox", &entries, shutdown).await;
        }
        Cleaned::Outbox(outbox) => {
            let rows = PostgresStore::new(pool, Options::new(outbox.layout().clone()));
            cleanup.run("outbox", &rows, shutdown).await;
        }
    }
}
