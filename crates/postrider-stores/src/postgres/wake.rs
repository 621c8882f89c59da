//! Hints that new records have come.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::layout::{Identifier, TableName};
use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::Notify;

use super::pool::Pool;
use crate::wake::Wake;

/// How long a lost connection rests before it is made again.
const RECONNECT: Duration = Duration::from_secs(1);

/// Listens on a connection of its own. Must be called within a runtime.
pub(super) fn start(pool: &Pool, table: &TableName) -> Wake {
    // Not one of the pool's connections: it would be missing there for good.
    let own = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with((*pool.connect_options()).clone());
    let channel = channel(&table.name);
    let pool = pool.clone();
    Wake::start(|notify| listen(pool, own, channel, notify))
}

/// What the trigger notifies and the relay listens to. Channel names have the length of other names.
pub(super) fn channel(table: &Identifier) -> String {
    const PREFIX: &str = "postrider_";
    let name = table.as_str();
    format!(
        "{PREFIX}{}",
        &name[..name.floor_char_boundary(63 - PREFIX.len())]
    )
}

/// Behind a pooler a session that listens is somebody else's a moment later, and nobody hears what it is told.
async fn listen(pool: Pool, own: PgPool, channel: String, notify: Arc<Notify>) {
    loop {
        match pool.is_behind_pooler().await {
            Ok(true) => {
                tracing::warn!(
                    channel,
                    "new records are found by polling: behind a pooler nobody can listen for them. \
                     To be notified, let the relay's URL name the database itself"
                );
                return;
            }
            Ok(false) => {
                if let Err(error) = receive(&own, &channel, &notify).await {
                    tracing::debug!(%error, channel, "not listening; polling goes on");
                }
            }
            Err(error) => tracing::debug!(%error, channel, "not listening; polling goes on"),
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn receive(pool: &PgPool, channel: &str, notify: &Notify) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(channel).await?;
    loop {
        // What came before it listened, or while the connection was lost, was not heard.
        notify.notify_one();
        while listener.try_recv().await?.is_some() {
            notify.notify_one();
        }
    }
}
