//! What the machine can do at most: reading the table without claiming, producing without reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use postrider::core::Layout;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use sqlx::Row as _;

use crate::report::Figures;
use crate::usage;
use crate::workload::Work;

/// Reads every record in order, as a claim would, and throws it away.
pub(crate) async fn read(work: &Work) -> anyhow::Result<Figures> {
    let start = Instant::now();
    let postgres = usage::postgres_cpu_secs();
    let sql = select(&work.layout);
    let mut rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch(&work.pool);
    let mut records = 0_u32;
    while let Some(row) = rows.try_next().await? {
        let payload: &[u8] = row
            .try_get_raw("payload")?
            .as_bytes()
            .map_err(anyhow::Error::from_boxed)?;
        records += u32::from(!payload.is_empty());
    }
    anyhow::ensure!(
        records == work.records,
        "read {records} of {}",
        work.records
    );
    Ok(Figures {
        per_sec: f64::from(records) / start.elapsed().as_secs_f64(),
        postgres_cpu_secs: Some(usage::postgres_cpu_secs() - postgres),
        ..Figures::default()
    })
}

fn select(layout: &Layout) -> String {
    let order: Vec<String> = layout.order.iter().map(|column| column.quoted()).collect();
    format!(
        "SELECT id, event_type, aggregate_id, version, payload, metadata, created_at FROM {} \
         WHERE NOT processed ORDER BY {}",
        layout.table.quoted(),
        order.join(", ")
    )
}

/// Produces the same messages from memory, as fast as the client and the broker take them.
pub(crate) async fn produce(work: &Work, kafka: &str) -> anyhow::Result<Figures> {
    let messages = load(work).await?;
    let topic = format!("bench_limit_{}", messages.first().map_or("none", |m| &m.id));
    let kafka = kafka.to_owned();
    tokio::task::spawn_blocking(move || send_all(&kafka, &topic, &messages)).await?
}

pub(crate) struct Sample {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) payload: Vec<u8>,
}

async fn load(work: &Work) -> anyhow::Result<Vec<Sample>> {
    let sql = format!(
        "SELECT id::text, aggregate_id, payload::text FROM {} ORDER BY created_at",
        work.layout.table.quoted()
    );
    let rows = sqlx::query(sqlx::AssertSqlSafe(sql))
        .fetch_all(&work.pool)
        .await?;
    rows.iter()
        .map(|row| {
            let payload: String = row.try_get(2)?;
            Ok(Sample {
                id: row.try_get(0)?,
                key: row.try_get(1)?,
                payload: payload.into_bytes(),
            })
        })
        .collect()
}

#[derive(Default, Clone)]
struct Acks {
    delivered: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

impl rdkafka::ClientContext for Acks {}

impl ProducerContext for Acks {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() {
            &self.delivered
        } else {
            &self.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Same settings as the relay's producer, same keys, bytes and headers, a topic of its own.
pub(crate) fn send_all(kafka: &str, topic: &str, messages: &[Sample]) -> anyhow::Result<Figures> {
    let acks = Acks::default();
    let producer: ThreadedProducer<Acks> = ClientConfig::new()
        .set("bootstrap.servers", kafka)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("compression.type", "lz4")
        .set("linger.ms", "5")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "1000000")
        .set("partitioner", "murmur2_random")
        .create_with_context(acks.clone())?;
    producer
        .client()
        .fetch_metadata(Some(topic), Duration::from_secs(10))?;
    let start = Instant::now();
    let cpu = usage::own_cpu_secs();
    for message in messages {
        send(&producer, topic, message)?;
    }
    producer.flush(Duration::from_secs(60))?;
    let delivered = acks.delivered.load(Ordering::Relaxed);
    anyhow::ensure!(
        delivered == messages.len() as u64,
        "delivered {delivered} of {}",
        messages.len()
    );
    Ok(Figures {
        per_sec: messages.len() as f64 / start.elapsed().as_secs_f64(),
        own_cpu_secs: Some(usage::own_cpu_secs() - cpu),
        ..Figures::default()
    })
}

fn send(producer: &ThreadedProducer<Acks>, topic: &str, message: &Sample) -> anyhow::Result<()> {
    let header = |key, value| Header {
        key,
        value: Some(value),
    };
    let headers = OwnedHeaders::new_with_capacity(2)
        .insert(header("event_id", message.id.as_str()))
        .insert(header("event_type", "order.order.placed.v1"));
    let mut record = BaseRecord::to(topic)
        .key(&message.key)
        .payload(&message.payload)
        .headers(headers);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}
