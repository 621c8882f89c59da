//! oxide-outbox (outbox-core and outbox-postgres) with a transport to Kafka, which it leaves to its user.
//! Settings by environment: BENCH_POSTGRES, BENCH_KAFKA, BENCH_TOPIC, and fields of `OutboxConfig` by their names.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use outbox_core::OutboxConfig;
use outbox_core::prelude::*;
use outbox_postgres::PostgresOutbox;
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::Value;
use sqlx::PgPool;

/// How long a message may wait for room in the producer's queue.
const QUEUE_WAIT_MAX: Duration = Duration::from_secs(10);

struct Kafka {
    producer: FutureProducer,
    topic: String,
}

#[async_trait::async_trait]
impl Transport<Value> for Kafka {
    async fn publish(&self, event: Event<Value>) -> Result<(), OutboxError> {
        let payload = event.payload.as_value();
        let body = payload.to_string();
        // The library's event has no key; the payload carries it.
        let key = payload["k"].as_str().unwrap_or_default();
        let record = FutureRecord::to(&self.topic).key(key).payload(&body);
        match self.producer.send(record, QUEUE_WAIT_MAX).await {
            Ok(_) => Ok(()),
            Err((error, _)) => Err(OutboxError::InfrastructureError(error.to_string())),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = PgPool::connect(&env::var("BENCH_POSTGRES")?).await?;
    let mut config = OutboxConfig::<Value>::default();
    if let Ok(minutes) = env::var("lock_timeout_mins") {
        config.lock_timeout_mins = minutes.parse()?;
    }
    let config = Arc::new(config);
    let producer = ClientConfig::new()
        .set("bootstrap.servers", env::var("BENCH_KAFKA")?)
        .set("enable.idempotence", "true")
        .set("linger.ms", "0")
        .create()?;
    let topic = env::var("BENCH_TOPIC")?;
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    OutboxManagerBuilder::new()
        .storage(Arc::new(PostgresOutbox::new(pool, config.clone())))
        .publisher(Arc::new(Kafka { producer, topic }))
        .config(config)
        .shutdown_rx(stopped)
        .build()?
        .run()
        .await?;
    Ok(())
}
