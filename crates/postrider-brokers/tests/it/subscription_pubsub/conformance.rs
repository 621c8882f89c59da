//! The contract on Google's test server.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use postrider_brokers::PubSubPublisher;
use postrider_brokers::pubsub::{PubSubSubscription, PubSubSubscriptionConfig};
use postrider_core::{Publisher, Subscription, Topic};
use postrider_testkit::conformance::subscription::{SubscriptionOutageWorld, SubscriptionWorld};
use postrider_testkit::pubsub::{PubSub, PubSubTopic, SubscriptionTraits};
use postrider_testkit::services::{Kind, PrivateServer};
use tokio::sync::Mutex;

use super::{Fixture, connection};

struct World {
    server: PubSub,
    private: Option<PrivateServer>,
    publisher: Arc<PubSubPublisher>,
    /// Without somewhere for dead letters to go, the service does not count attempts.
    dead_letters: PubSubTopic,
    topics: Mutex<HashMap<Topic, Fixture>>,
}

impl World {
    async fn new(server: PubSub, private: Option<PrivateServer>) -> Self {
        let publisher = PubSubPublisher::new(connection(&server)).expect("a valid config");
        Self {
            dead_letters: server.fresh_topic().await,
            publisher: Arc::new(publisher),
            server,
            private,
            topics: Mutex::default(),
        }
    }
}

async fn world() -> World {
    World::new(PubSub::shared(), None).await
}

async fn private_world() -> World {
    let server = PrivateServer::start(Kind::PubSub).await;
    World::new(PubSub::at(server.address()), Some(server)).await
}

#[async_trait]
impl SubscriptionWorld for World {
    async fn fresh_topic(&self) -> Topic {
        let traits = SubscriptionTraits {
            ordering: true,
            dead_letter_topic: Some(self.dead_letters.id().to_owned()),
            attempts_max: 100,
            ..SubscriptionTraits::default()
        };
        let fixture = Fixture::new(self.server.clone(), traits).await;
        let topic = Topic::from(fixture.topic.id());
        self.topics.lock().await.insert(topic.clone(), fixture);
        topic
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        self.publisher.clone()
    }

    async fn subscribe(&self, topic: &Topic, in_flight_max: usize) -> Box<dyn Subscription> {
        let config = PubSubSubscriptionConfig {
            in_flight_max: u32::try_from(in_flight_max).expect("small"),
            ..self.topics.lock().await[topic].config()
        };
        Box::new(PubSubSubscription::new(config).expect("a valid config"))
    }

    fn has_tombstones(&self) -> bool {
        false
    }

    fn keeps_any_bytes(&self) -> bool {
        false
    }

    fn counts_attempts(&self) -> bool {
        true
    }
}

#[async_trait]
impl SubscriptionOutageWorld for World {
    async fn stop(&mut self) {
        self.private.as_mut().expect("a private server").kill();
    }

    async fn start(&mut self) {
        let private = self.private.as_mut().expect("a private server");
        private.restart().await;
        self.dead_letters.create().await;
        for fixture in self.topics.lock().await.values() {
            fixture.create().await;
        }
    }

    fn keeps_messages(&self) -> bool {
        false
    }
}

postrider_testkit::subscription_conformance!(world);
postrider_testkit::subscription_outage_conformance!(private_world);
