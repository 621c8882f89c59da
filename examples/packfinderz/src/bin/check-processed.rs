//! The idempotency check for consumers that are scripts: `check-processed CONSUMER` reads event ids, a line each, marks all
//! of them at once, and prints for each whether it was processed before: `new ID` or `processed ID`. An event that is new is
//! marked before its effect, so a script that dies in between has lost it; `compliance-consumer` shows how to avoid that.

use std::io::{BufRead as _, Write as _};

use anyhow::Context as _;
use example_packfinderz::process;
use example_packfinderz::settings::{self, REDIS_URL};
use postrider::core::EventId;
use postrider::stores::redis::{RedisIdempotency, ttl_from_env};
use tokio::task::JoinSet;
use uuid::Uuid;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let consumer = std::env::args().nth(1);
    let consumer = consumer.context("usage: check-processed CONSUMER")?;
    let store = RedisIdempotency::connect(&settings::needed(&process::variable, REDIS_URL)?)?;
    let ttl = ttl_from_env(process::variable)?;
    let mut checks = JoinSet::new();
    for id in std::io::stdin().lock().lines() {
        let id = id?;
        let id: Uuid = id
            .parse()
            .with_context(|| format!("{id:?} is no event id"))?;
        let (store, consumer) = (store.clone(), consumer.clone());
        checks.spawn(async move {
            let event = EventId::from(id);
            let check = store.check_and_mark_processed(&consumer, &event, ttl);
            check.await.map(|processed| (processed, id))
        });
    }
    let mut out = std::io::stdout().lock();
    while let Some(checked) = checks.join_next().await {
        let (processed, id) = checked??;
        writeln!(out, "{} {id}", if processed { "processed" } else { "new" })?;
    }
    Ok(())
}
