//! `outbox-cleanup`: deletes rows that were published long enough ago, and nothing else. Apart from the publisher, so that
//! neither has the other's rights nor its load.

use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use postrider::core::{Layout, Purge, StoreError};
use postrider::relay::Cleanup;
use postrider::stores::postgres::{self, Options, PostgresStore};
use tokio_util::sync::CancellationToken;

use crate::settings;

const EVERY: Duration = Duration::from_secs(60);
/// One deletes; the other looks at the table first.
const CONNECTIONS: u32 = 2;

/// Runs until told to stop.
pub async fn run(settings: settings::Cleanup, shutdown: CancellationToken) -> anyhow::Result<()> {
    let layout = Layout::preset("packfinderz")?;
    let keep = layout.defaults.keep();
    let keep = keep.context("the layout does not say how long rows are kept")?;
    let pool = postgres::connect(&settings.database_url, CONNECTIONS)?;
    let rows = Rows(PostgresStore::new(pool, Options::new(layout)));
    let cleanup = Cleanup {
        keep,
        every: EVERY,
        ..Cleanup::default()
    };
    tracing::info!(keep_secs = keep.as_secs(), "outbox-cleanup starts");
    cleanup.run("outbox_events", &rows, shutdown).await;
    Ok(())
}

/// Says what was deleted.
struct Rows(PostgresStore);

#[async_trait]
impl Purge for Rows {
    async fn purge(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        let deleted = self.0.purge(keep, limit).await?;
        if deleted > 0 {
            tracing::info!(rows = deleted, "deleted");
        }
        Ok(deleted)
    }
}
