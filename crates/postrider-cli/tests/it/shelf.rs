//! A PolyShop outbox whose events go to a Kafka topic of the test's own, and ways to put things wrong on either side.

use std::time::Duration;

use postrider::brokers::KafkaPublisher;
use postrider::brokers::kafka::KafkaConfig;
use postrider::core::{Header, Message, Publisher as _};
use postrider_testkit::eventually;
use postrider_testkit::kafka::{Kafka, KafkaRecord};
use uuid::Uuid;

use crate::binary::Project;
use crate::outbox::TestOutbox;

pub(crate) struct Shelf {
    pub(crate) outbox: TestOutbox,
    pub(crate) project: Project,
    /// Also the event type, since PolyShop's topics are its types.
    pub(crate) topic: String,
    publisher: KafkaPublisher,
}

impl Shelf {
    pub(crate) async fn new() -> Self {
        let outbox = TestOutbox::create("polyshop").await;
        let kafka = Kafka::shared();
        let topic = kafka.fresh_topic(3).await;
        let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", kafka.bootstrap());
        let project = Project::new(&outbox.config_with(&broker, ""));
        let publisher = KafkaPublisher::new(KafkaConfig::new(kafka.bootstrap())).unwrap();
        Self {
            outbox,
            project,
            topic,
            publisher,
        }
    }

    /// Records of `keys` keys that the real relay has published.
    pub(crate) async fn publish(&self, records: usize, keys: usize) {
        for number in 0..records {
            let key = format!("k{}", number % keys);
            self.outbox.emit(&self.topic, &key).await;
        }
        let relay = self.project.relay().await;
        eventually("all is published", async || {
            let waiting = self
                .outbox
                .database
                .count("outbox_events WHERE NOT processed");
            match waiting.await {
                0 => Ok(()),
                waiting => Err(waiting),
            }
        })
        .await;
        drop(relay);
    }

    /// A row that says that it was published, and never was.
    pub(crate) async fn pretend(&self, key: &str) -> Uuid {
        let (id, topic) = (Uuid::now_v7(), &self.topic);
        let sql = format!(
            "INSERT INTO outbox_events (id, aggregate_id, event_type, payload, processed, processed_at) \
             VALUES ('{id}', '{key}', '{topic}', '{{}}', true, clock_timestamp())"
        );
        self.outbox.database.execute(&sql).await;
        id
    }

    pub(crate) fn message(&self, id: Uuid, key: &str) -> Message {
        Message {
            topic: self.topic.as_str().into(),
            key: Some(key.into()),
            ordered: true,
            payload: Some("{}".into()),
            headers: vec![
                Header::new("event_id", id.to_string()),
                Header::new("event_type", self.topic.clone()),
            ],
        }
    }

    /// Puts messages on the topic past the relay.
    pub(crate) async fn produce(&self, messages: &[Message]) {
        let deadline = Duration::from_secs(30);
        for outcome in self.publisher.publish(messages, deadline).await {
            outcome.unwrap();
        }
    }

    pub(crate) async fn records(&self) -> Vec<KafkaRecord> {
        Kafka::shared().records(&self.topic).await
    }

    pub(crate) async fn ids(&self) -> Vec<Uuid> {
        let sql = "SELECT id FROM outbox_events ORDER BY created_at, id";
        let ids = self.outbox.database.texts(sql).await;
        ids.into_iter()
            .map(|id| id.unwrap().parse().unwrap())
            .collect()
    }
}

/// A header's value as text.
pub(crate) fn header<'a>(record: &'a KafkaRecord, name: &str) -> Option<&'a str> {
    let found = record.headers.iter().find(|(header, _)| header == name);
    found.and_then(|(_, value)| std::str::from_utf8(value.as_deref()?).ok())
}
