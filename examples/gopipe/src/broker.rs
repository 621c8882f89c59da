//! The broker behind the pipe: Kafka, or one inside the process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use postrider::brokers::kafka::{
    KafkaConfig, KafkaPublisher, KafkaSubscription, KafkaSubscriptionConfig,
};
use postrider::brokers::memory::{MemoryBroker, MemorySubscriptionConfig};
use postrider::core::{EventPayload, Header, Message, Publisher, Subscription, Topic};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::types::RDKafkaErrorCode;

use crate::orders::PlaceOrder;

const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);
const PARTITIONS: i32 = 4;

#[derive(Clone)]
pub enum Broker {
    Memory(MemoryBroker),
    Kafka(KafkaConfig, Arc<KafkaPublisher>),
}

impl Broker {
    pub fn kafka(bootstrap: impl Into<String>) -> anyhow::Result<Self> {
        let config = KafkaConfig::new(bootstrap);
        let publisher = KafkaPublisher::new(config.clone())?;
        Ok(Self::Kafka(config, Arc::new(publisher)))
    }

    /// Creates topics that are not there. The broker in the process needs none.
    pub async fn create_topics(&self, topics: &[&str]) -> anyhow::Result<()> {
        let Self::Kafka(config, _) = self else {
            return Ok(());
        };
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &config.bootstrap)
            .create()?;
        let topics: Vec<NewTopic<'_>> = topics
            .iter()
            .map(|name| NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(-1)))
            .collect();
        for made in admin.create_topics(&topics, &AdminOptions::new()).await? {
            if let Err((name, code)) = made
                && code != RDKafkaErrorCode::TopicAlreadyExists
            {
                anyhow::bail!("topic {name} cannot be created: {code}");
            }
        }
        Ok(())
    }

    pub fn publisher(&self) -> Arc<dyn Publisher> {
        match self {
            Self::Memory(broker) => Arc::new(broker.clone()),
            Self::Kafka(_, publisher) => publisher.clone(),
        }
    }

    /// What consumers of this name read of the topic together. Groups are of one topic, so that those who read another
    /// have nothing to do with it.
    pub fn subscribe(&self, name: &str, topic: &str) -> anyhow::Result<Arc<dyn Subscription>> {
        let group = format!("{name}.{topic}");
        Ok(match self {
            Self::Memory(broker) => Arc::new(broker.subscribe(
                &group,
                &[Topic::from(topic)],
                &MemorySubscriptionConfig::default(),
            )),
            Self::Kafka(config, _) => {
                let config = KafkaSubscriptionConfig::at(config, &group, [topic]);
                Arc::new(KafkaSubscription::new(config)?)
            }
        })
    }

    /// Sends a command as any producer would: id and type among the attributes, JSON as data.
    pub async fn send(&self, topic: &str, id: &str, command: &PlaceOrder) -> anyhow::Result<()> {
        let message = Message {
            topic: Topic::from(topic),
            key: None,
            ordered: false,
            payload: Some(serde_json::to_vec(command)?.into()),
            headers: vec![
                Header::new("id", id),
                Header::new("type", PlaceOrder::EVENT_TYPE),
            ],
        };
        let outcomes = self.publisher().publish(&[message], PUBLISH_TIMEOUT).await;
        let outcome = outcomes.into_iter().next().context("no outcome")?;
        outcome.context("the command was not sent")
    }
}
