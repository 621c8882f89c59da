//! What a claim costs while nothing comes: one short look at whether anything has. All that a claim begins with, its
//! settings and locks, would cost the server several times as much.

use postrider_core::StoreError;
use sqlx::Row as _;

use super::Inner;
use super::error::store_error;
use super::outbox::{LOOKING_MAX, Ready, writer};
use super::tx::{Tx, bounded};

/// Whether a claim would surely find nothing. Asked only where nothing has been found for a while, so that a record that
/// comes in a dense stream does not wait for it; and only with the index that makes it short.
pub(super) async fn is_idle(inner: &Inner, ready: &Ready) -> Result<bool, StoreError> {
    if !ready.table.claim_index {
        return Ok(false);
    }
    let Some(from) = ready.floor.idle_above() else {
        return Ok(false);
    };
    let any = writer(&inner.options, &ready.table).any_unsettled(from);
    let look = format!(
        "{}; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; {any}",
        bounded(LOOKING_MAX)
    );
    let failed = store_error("look for records", &inner.name());
    let (tx, rows) = Tx::begin(&inner.pool, look.into()).await.map_err(&failed)?;
    tx.rollback().await.map_err(&failed)?;
    let found = rows.iter().find_map(|row| row.try_get("found").ok());
    Ok(found == Some(false))
}
