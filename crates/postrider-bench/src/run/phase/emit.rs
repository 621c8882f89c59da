//! What writing the events costs, without a relay.

use super::super::load;
use super::super::results::Figures;
use super::drain::EVENTS;
use super::trial::{Meter, Trial};
use crate::workload;

pub(super) async fn measure(
    trial: &mut Trial<'_>,
    per_statement: u64,
    rows: u64,
) -> anyhow::Result<Figures> {
    workload::execute(&trial.database.pool, "CHECKPOINT").await?;
    trial.settle_machine().await;
    let meter = Meter::start(trial, None).await?;
    let insert = &trial.subject.about.insert;
    let rate = load::burst(&trial.database.pool, insert, EVENTS, rows, per_statement).await?;
    let mut figures = Figures::default();
    figures.set("records", rows as f64);
    figures.set("per_sec", rate);
    meter.read_servers(trial, &mut figures).await?;
    figures.take("kafka_cpu_secs");
    Ok(figures)
}
