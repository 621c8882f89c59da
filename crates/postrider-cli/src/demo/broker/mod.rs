//! The brokers that the demo runs on.

mod kafka;

use std::sync::Arc;

use anyhow::Context as _;
use postrider::brokers::kafka::{
    KafkaConfig, KafkaPublisher, KafkaSubscription, KafkaSubscriptionConfig,
};
use postrider::brokers::memory::{MemoryBroker, MemorySubscriptionConfig};
use postrider::core::{Publisher, Subscription, Topic};

/// The least that a cluster takes by default: a demo that was killed goes on soon.
const SESSION_TIMEOUT_MS: u32 = 6_000;

/// Cheap to clone.
#[derive(Clone)]
pub(super) enum Broker {
    /// In this process, and gone with it.
    Memory(MemoryBroker),
    Kafka(KafkaConfig),
}

impl Broker {
    /// Creates the topics that are missing, and gives their names.
    pub(super) async fn prepare(&self, topics: &[Topic]) -> anyhow::Result<Vec<Topic>> {
        match self {
            Self::Memory(_) => Ok(topics.to_vec()),
            Self::Kafka(config) => kafka::create_topics(config, topics).await,
        }
    }

    pub(super) fn publisher(&self) -> anyhow::Result<Arc<dyn Publisher>> {
        Ok(match self {
            Self::Memory(broker) => Arc::new(broker.clone()),
            Self::Kafka(config) => {
                Arc::new(KafkaPublisher::new(config.clone()).context("Kafka cannot be used")?)
            }
        })
    }

    pub(super) fn subscribe(
        &self,
        consumer: &str,
        topics: &[Topic],
    ) -> anyhow::Result<Arc<dyn Subscription>> {
        Ok(match self {
            Self::Memory(broker) => {
                let config = MemorySubscriptionConfig::default();
                Arc::new(broker.subscribe(consumer, topics, &config))
            }
            Self::Kafka(config) => {
                let names = topics.iter().map(Topic::as_str);
                let config = KafkaSubscriptionConfig {
                    session_timeout_ms: SESSION_TIMEOUT_MS,
                    ..KafkaSubscriptionConfig::at(config, group(consumer, topics), names)
                };
                Arc::new(KafkaSubscription::new(config).context("Kafka cannot be used")?)
            }
        })
    }

    /// As OpenTelemetry names messaging systems.
    pub(super) fn system(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Kafka(_) => "kafka",
        }
    }
}

/// After the topic, so that demos on one cluster with topics of their own do not share their work.
fn group(consumer: &str, topics: &[Topic]) -> String {
    let topic = topics.first().map_or("", Topic::as_str);
    format!("{topic}.{consumer}")
}
