//! Reading back what a topic holds, beside its consumers: partitions are assigned by hand, nothing is committed.

mod reader;

use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{KeptMessage, Readback, ReadbackError, Reading, Timestamp, Topic};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};

use super::config::{ConfigError, KafkaConfig};
use reader::Reader;

/// How long the cluster may take to answer one question, or to give the next message.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long it may take to reach the cluster.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads topics of a Kafka cluster. Connects when a topic is read.
pub struct KafkaReadback {
    config: KafkaConfig,
}

struct KafkaReading {
    /// `None` at the end, and while a call is under way.
    reader: Option<Reader>,
    ended: bool,
    total: u64,
    cut: bool,
}

impl KafkaReadback {
    /// Checks the configuration. It is that of the publisher.
    pub fn new(config: KafkaConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        client_config(&config).create_native_config()?;
        Ok(Self { config })
    }
}

#[async_trait]
impl Readback for KafkaReadback {
    async fn read_back(
        &self,
        topic: &Topic,
        since: Timestamp,
        until: Option<Timestamp>,
    ) -> Result<Option<Box<dyn Reading>>, ReadbackError> {
        let (config, topic) = (client_config(&self.config), topic.clone());
        let reader = blocking(move || Reader::open(&config, topic, since, until)).await?;
        Ok(reader.map(|reader| {
            let (total, cut) = (reader.total(), reader.is_cut());
            Box::new(KafkaReading {
                reader: Some(reader),
                ended: false,
                total,
                cut,
            }) as Box<dyn Reading>
        }))
    }
}

#[async_trait]
impl Reading for KafkaReading {
    fn total(&self) -> u64 {
        self.total
    }

    fn is_cut(&self) -> bool {
        self.cut
    }

    async fn next(&mut self) -> Result<Vec<KeptMessage>, ReadbackError> {
        if self.ended {
            return Ok(Vec::new());
        }
        let Some(mut reader) = self.reader.take() else {
            return Err(unavailable("reading was broken off; begin again"));
        };
        let (messages, reader) = blocking(move || {
            let messages = reader.next()?;
            // Its end waits for librdkafka's threads, so it is here and not with the reading.
            Ok((messages, (!reader.is_done()).then_some(reader)))
        })
        .await?;
        self.ended = reader.is_none();
        self.reader = reader;
        Ok(messages)
    }
}

impl Drop for KafkaReading {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            // Without a thread it is dropped here: slow, but the same.
            let end = std::thread::Builder::new().name("kafka-close".into());
            drop(end.spawn(move || drop(reader)));
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReadbackError> + Send + 'static,
) -> Result<T, ReadbackError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(unavailable("the reading thread ended; begin again")),
    }
}

fn client_config(kafka: &KafkaConfig) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set_log_level(RDKafkaLogLevel::Info)
        .set("bootstrap.servers", &kafka.bootstrap)
        .set("client.id", &kafka.client_id)
        .set("reconnect.backoff.max.ms", "1000");
    for (key, value) in &kafka.properties {
        config.set(key, value.expose());
    }
    config
        // librdkafka wants a name. No group is joined.
        .set("group.id", "postrider-verify")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "false")
        // What is fetched ahead stays small.
        .set("queued.min.messages", "20000")
        .set("queued.max.messages.kbytes", "16384");
    config
}

fn unavailable(reason: &str) -> ReadbackError {
    ReadbackError::Unavailable {
        reason: reason.into(),
        source: None,
    }
}
