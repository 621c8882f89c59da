//! What a claim costs while nothing comes: one short look at whether anything has. All that a claim
//! begins with, its settings and locks, would cost the server several times as much.

use std::time::Duration;

use sqlx::Row as _;

use super::Inner;
use super::floor::{SESSION_SINCE, Stand};
use super::outbox::{Ready, writer};
use super::tx::{Tx, bounded};

const LOOKING_MAX: Duration = Duration::from_secs(1);

/// Whether a claim would surely find nothing. Asked only where nothing has been found for a while,
/// so that a record that comes in a dense stream does not wait for it; and only with the index that
/// makes it short.
pub(super) async fn is_idle(inner: &Inner, ready: &Ready) -> bool {
    if !ready.table.claim_index {
        return false;
    }
    let Some(stand) = ready.floor.idle_above() else {
        return false;
    };
    let looked = look(inner, ready, stand).await;
    // What the matter is, a claim will find out; and where a look takes too long, it may take
    // longer.
    if looked.is_err() {
        ready.floor.is_not_idle();
    }
    looked.unwrap_or(false)
}

async fn look(inner: &Inner, ready: &Ready, mut stand: Stand) -> Result<bool, sqlx::Error> {
    let any = writer(&inner.options, &ready.table).any_unsettled(stand.floor());
    let look = format!(
        "{}; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; {SESSION_SINCE}; {any}",
        bounded(LOOKING_MAX)
    );
    let (tx, rows) = Tx::begin(&inner.pool, look.into()).await?;
    tx.rollback().await?;
    let was_raised = stand.is_raised();
    stand.prove(&ready.floor, &rows);
    let found = rows.iter().find_map(|row| row.try_get("found").ok());
    Ok(found == Some(false) && stand.is_raised() == was_raised)
}
