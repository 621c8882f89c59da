//! The same load while a transaction elsewhere in the database stays open, with something written and nothing to do.

use std::time::{Duration, Instant};

use super::super::lab::OWN_SCHEMA;
use super::super::results::Figures;
use super::live::{self, Live};
use super::steady::EVENTS;
use super::trial::Trial;
use crate::workload;

pub(super) async fn measure(
    trial: &mut Trial<'_>,
    rate: u64,
    secs: u64,
) -> anyhow::Result<Figures> {
    let live = Live {
        rate,
        secs,
        events: EVENTS,
        restarts: false,
    };
    let create = format!("CREATE TABLE {OWN_SCHEMA}.elsewhere (n bigint)");
    workload::execute(&trial.database.pool, &create).await?;
    live::measure(trial, live, async |scene| {
        let mut held = scene.trial.database.pool.begin().await?;
        let write = format!("INSERT INTO {OWN_SCHEMA}.elsewhere VALUES (1)");
        sqlx::query(sqlx::AssertSqlSafe(write))
            .execute(&mut *held)
            .await?;
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(secs) {
            scene.tend(false)?;
            scene
                .trial
                .progress
                .say_now_and_then("a transaction is held open");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        held.commit().await?;
        Ok(())
    })
    .await
}
