//! What is special about an append-only outbox.

mod ahead;
mod cursors;
mod reading;
mod restore;
mod segments;
mod standby;
mod structure;
mod teams;
mod troubles;

use postrider_core::{Fate, OutboxStore, Record, Share, Want};
use postrider_stores::postgres::PostgresStore;

const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// Publishes what can be claimed now, and gives it back as `key` and `n`.
async fn publish(store: &PostgresStore) -> Vec<(String, i64)> {
    let Some(claim) = store.claim(ALL).await.unwrap() else {
        return Vec::new();
    };
    let seen = claim.records().iter().map(seen).collect();
    let fates = vec![Fate::Published; claim.records().len()];
    claim.settle(&fates).await.unwrap();
    seen
}

/// Publishes until nothing is left.
async fn drain(store: &PostgresStore) -> Vec<(String, i64)> {
    let mut all = Vec::new();
    loop {
        let more = publish(store).await;
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

fn seen(record: &Record) -> (String, i64) {
    let payload: serde_json::Value =
        serde_json::from_slice(record.payload.as_ref().unwrap()).unwrap();
    let key = record
        .key
        .as_ref()
        .map_or(String::new(), ToString::to_string);
    (key, payload["n"].as_i64().unwrap())
}

fn numbers(seen: &[(String, i64)]) -> Vec<i64> {
    seen.iter().map(|(_, number)| *number).collect()
}
