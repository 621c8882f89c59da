//! The drain itself: a relay in a process of its own, so that its CPU time and memory are its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::core::{Router, Routes};
use postrider::relay::Config;
use postrider::stores::postgres::{self, Options, PostgresStore};
use postrider::{Metrics, Relay};
use tokio_util::sync::CancellationToken;

use crate::report::Figures;
use crate::workload::{Mode, Work, layout};
use crate::{DrainArgs, usage};

/// As in what is compared: large batches, small ones, and producing without reading. The ratio of large to small was set as a
/// goal with it; with less, small batches gain most.
pub(crate) const LINGER_MS: u32 = 5;

#[derive(clap::Args)]
pub(crate) struct Child {
    #[arg(long)]
    postgres: String,
    #[arg(long)]
    kafka: String,
    #[arg(long)]
    layout: String,
    #[arg(long)]
    topic: String,
    #[arg(long)]
    records: u32,
    #[arg(long)]
    batch: u32,
    #[arg(long)]
    claims: u32,
}

/// Runs a relay on the prepared backlog until it is empty.
pub(crate) async fn run(work: &Work, mode: Mode, args: &DrainArgs) -> anyhow::Result<Figures> {
    let (records, batch, claims) = (work.records, mode.batch, mode.claims);
    let numbers = [records, batch, claims].map(|number| number.to_string());
    let [records, batch, claims] = &numbers;
    usage::measure_child([
        "relay",
        "--postgres",
        &args.postgres,
        "--kafka",
        &args.kafka,
        "--layout",
        mode.layout,
        "--topic",
        &work.topic,
        "--records",
        records,
        "--batch",
        batch,
        "--claims",
        claims,
    ])
    .await
}

/// The process of its own: relays until every record is published and prints one line of JSON.
pub(crate) async fn relay(child: Child) -> anyhow::Result<()> {
    let layout = layout(&child.layout, &child.topic)?;
    let pool = postgres::connect(&child.postgres, child.claims + 2)?;
    let kafka = KafkaConfig {
        linger_ms: LINGER_MS,
        ..KafkaConfig::new(&child.kafka)
    };
    let publisher = KafkaPublisher::new(kafka)?;
    let metrics = Metrics::new();
    let config = Config {
        batch: child.batch,
        claims: child.claims,
        backlog_every: Duration::from_secs(3600),
        ..Config::default()
    };
    let router = Router::new(&layout, Routes::new(), None);
    let store = PostgresStore::new(pool, Options::new(layout));
    let relay = Relay::builder(Arc::new(store), Arc::new(publisher), router)
        .config(config)
        .metrics(&metrics)
        .build();
    let shutdown = CancellationToken::new();
    let start = Instant::now();
    let running = relay.run(shutdown.clone());
    let watching = async {
        let tenths = watch(&metrics, child.records, start).await;
        shutdown.cancel();
        tenths
    };
    let (ended, tenths) = tokio::join!(running, watching);
    ended?;
    print_line(child.records, &tenths);
    Ok(())
}

/// When each tenth of the backlog was done, in seconds from the start.
async fn watch(metrics: &Metrics, records: u32, start: Instant) -> Vec<f64> {
    let mut tenths = Vec::new();
    while tenths.len() < 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let done = published(metrics) * 10 / u64::from(records.max(1));
        while (tenths.len() as u64) < done.min(10) {
            tenths.push(start.elapsed().as_secs_f64());
        }
    }
    tenths
}

fn published(metrics: &Metrics) -> u64 {
    let text = metrics.encode();
    let line = text
        .lines()
        .find(|line| line.starts_with("postrider_published_total{"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or(0)
}

fn print_line(records: u32, tenths: &[f64]) {
    let took = |tenth: usize| tenths[tenth] - tenths[tenth - 1];
    let line = serde_json::json!({
        "per_sec": f64::from(records) / tenths[9],
        // Rates are the other way round than times.
        "steadiness": took(1) / took(9).max(1e-9),
        "cpu_secs": usage::own_cpu_secs(),
        "peak_mb": usage::own_peak_mb(),
    });
    println!("{line}");
}
