//! Hints that new records have come: SQLite keeps a number that changes with every commit of another connection, and
//! looking at it costs no I/O.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Row as _, SqliteConnection};
use tokio::sync::Notify;

use super::connect::Database;
use crate::wake::Wake;

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long it rests after the file could not be read.
const REOPEN: Duration = Duration::from_secs(1);

pub(super) fn start(database: &Database) -> Wake {
    let database = database.clone();
    Wake::start(|notify| listen(database, notify))
}

async fn listen(database: Database, notify: Arc<Notify>) {
    loop {
        if let Err(error) = watch(&database, &notify).await {
            tracing::debug!(%error, "not watching; polling goes on");
        }
        tokio::time::sleep(REOPEN).await;
    }
}

async fn watch(database: &Database, notify: &Notify) -> Result<(), sqlx::Error> {
    // Not one of the readers: it would be missing there for good.
    let mut connection = database.own_connection().await?;
    let mut seen = None;
    loop {
        let version = version(&mut connection).await?;
        if seen.replace(version) != Some(version) {
            notify.notify_one();
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let row = sqlx::query("PRAGMA data_version")
        .fetch_one(connection)
        .await?;
    row.try_get(0)
}
