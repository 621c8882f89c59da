//! The same load while a transaction stays open, with something written and nothing to do. The load runs without it first,
//! in the same trial, so that the two are compared on the same machine at the same time.

use std::time::{Duration, Instant};

use super::super::lab::OWN_SCHEMA;
use super::super::load;
use super::super::results::Figures;
use super::live::{self, Live, Scene};
use super::steady::EVENTS;
use super::trial::Trial;
use crate::workload;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The load without it, before.
    pub(crate) clean_secs: u64,
    /// How long it is held.
    pub(crate) secs: u64,
    /// Whether it has written to the outbox, or only to a table elsewhere in the database.
    pub(crate) writes: bool,
}

pub(super) async fn measure(
    trial: &mut Trial<'_>,
    rate: u64,
    hold: Hold,
) -> anyhow::Result<Figures> {
    let live = Live {
        clean_secs: hold.clean_secs,
        more: u64::from(hold.writes),
        ..Live::new(rate, hold.secs, EVENTS)
    };
    let create = format!("CREATE TABLE {OWN_SCHEMA}.elsewhere (n bigint)");
    workload::execute(&trial.database.pool, &create).await?;
    live::measure(trial, live, async |scene, next| {
        tend_for(scene, hold.clean_secs, "nothing is held").await?;
        let mut held = scene.trial.database.pool.begin().await?;
        if hold.writes {
            // The last of its key. It can only be seen, and sent, after the commit.
            let insert = &scene.trial.subject.about.insert;
            load::insert(&mut held, insert, EVENTS, next..next + 1).await?;
        } else {
            let write = format!("INSERT INTO {OWN_SCHEMA}.elsewhere VALUES (1)");
            sqlx::query(sqlx::AssertSqlSafe(write))
                .execute(&mut *held)
                .await?;
        }
        tend_for(scene, hold.secs, "a transaction is held open").await?;
        held.commit().await?;
        Ok(())
    })
    .await
}

async fn tend_for(scene: &mut Scene<'_>, secs: u64, doing: &str) -> anyhow::Result<()> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(secs) {
        scene.tend(false)?;
        scene.trial.progress.say_now_and_then(doing);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
