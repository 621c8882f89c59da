//! What the same machine can do at most, in the same round: producing without reading, reading without producing.

use std::time::Instant;

use futures::TryStreamExt as _;
use postrider::core::Timestamp;
use sqlx::Row as _;

use super::super::lab::{Lab, OWN_SCHEMA};
use super::super::load;
use super::super::quiet::{self, Quiet};
use super::super::reader::{Clock, Reader};
use super::super::results::Figures;
use super::drain::{EVENTS, rates, until_read};
use super::trial::Bounds;
use crate::limits::{self, Sample};
use crate::workload;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    ProduceOnly,
    ReadOnly,
}

impl Limit {
    pub(crate) const ALL: [Self; 2] = [Self::ProduceOnly, Self::ReadOnly];

    /// What results call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ProduceOnly => "produce-only",
            Self::ReadOnly => "read-only",
        }
    }

    pub(crate) async fn measure(
        self,
        lab: &Lab,
        bounds: &Bounds,
        topic: &str,
        records: u64,
    ) -> anyhow::Result<(Quiet, Figures)> {
        lab.revive().await?;
        match self {
            Self::ProduceOnly => produce(lab, bounds, topic, records).await,
            Self::ReadOnly => read(lab, bounds, records).await,
        }
    }
}

/// The same messages with our producer's settings, from memory.
async fn produce(
    lab: &Lab,
    bounds: &Bounds,
    topic: &str,
    records: u64,
) -> anyhow::Result<(Quiet, Figures)> {
    let samples: Vec<Sample> = (0..records)
        .map(|i| Sample {
            id: format!("{i:032x}"),
            key: EVENTS.key(i),
            payload: EVENTS.payload(i).into_bytes(),
        })
        .collect();
    lab.create_topic(topic).await?;
    let quiet = quiet::wait(bounds.quiet_patience).await;
    let kafka = lab.kafka_cpu_secs().await;
    let (address, name) = (lab.kafka().to_owned(), topic.to_owned());
    let started_micros = Timestamp::now().as_micros() as u64;
    let sending = move || limits::send_all(&address, &name, &samples);
    let sent = tokio::task::spawn_blocking(sending).await??;
    let mut figures = Figures::default();
    figures.set("records", records as f64);
    figures.set("relay_cpu_secs", sent.own_cpu_secs.unwrap_or(0.0));
    figures.set("kafka_cpu_secs", lab.kafka_cpu_secs().await - kafka);
    // Between the first and the last arrival, as with a relay.
    let reader = Reader::start(lab.kafka(), topic, EVENTS, Clock::Append)?;
    until_read(&reader, records).await;
    rates(
        &reader.with(|arrivals| arrivals.times()),
        started_micros,
        &mut figures,
    );
    drop(reader);
    lab.delete_topic(topic).await?;
    Ok((quiet, figures))
}

/// The same bytes from a table with no index, in no order.
async fn read(lab: &Lab, bounds: &Bounds, records: u64) -> anyhow::Result<(Quiet, Figures)> {
    let database = lab.fresh_database().await?;
    let table = format!("{OWN_SCHEMA}.bare");
    let create = format!("CREATE TABLE {table} (key text, payload bytea)");
    workload::execute(&database.pool, &create).await?;
    let insert = format!(
        "INSERT INTO {table} SELECT k, convert_to(p, 'UTF8') FROM unnest($1::text[], $2::text[]) AS e(k, p)"
    );
    load::backlog(&database.pool, &insert, EVENTS, records).await?;
    workload::execute(&database.pool, "VACUUM ANALYZE").await?;
    workload::execute(&database.pool, "CHECKPOINT").await?;
    let quiet = quiet::wait(bounds.quiet_patience).await;
    let (start, postgres) = (Instant::now(), lab.postgres_cpu_secs());
    let select = format!("SELECT key, payload FROM {table}");
    let mut rows = sqlx::query(sqlx::AssertSqlSafe(select)).fetch(&database.pool);
    let mut found = 0_u64;
    while let Some(row) = rows.try_next().await? {
        let payload: &[u8] = row.try_get(1)?;
        found += u64::from(!payload.is_empty());
    }
    drop(rows);
    anyhow::ensure!(found == records, "read {found} of {records}");
    let mut figures = Figures::default();
    figures.set("records", records as f64);
    figures.set("per_sec", records as f64 / start.elapsed().as_secs_f64());
    figures.set("postgres_cpu_secs", lab.postgres_cpu_secs() - postgres);
    database.pool.close().await;
    Ok((quiet, figures))
}
