use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_brokers::{MemoryBroker, MemoryConfig, MemorySubscriptionConfig};
use postrider_core::{Publisher, SubscribeError, Subscription, Topic};
use postrider_testkit::conformance::publisher::{interleaved, publish_until_taken};
use postrider_testkit::conformance::subscription::{SubscriptionOutageWorld, SubscriptionWorld};

struct World {
    broker: MemoryBroker,
}

async fn world() -> World {
    World {
        broker: MemoryBroker::default(),
    }
}

#[async_trait]
impl SubscriptionWorld for World {
    async fn fresh_topic(&self) -> Topic {
        Topic::from("orders")
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.broker.clone())
    }

    async fn subscribe(&self, topic: &Topic, in_flight_max: usize) -> Box<dyn Subscription> {
        let config = MemorySubscriptionConfig {
            in_flight_max,
            ..MemorySubscriptionConfig::default()
        };
        let topics = [topic.clone()];
        Box::new(self.broker.subscribe("group", &topics, &config))
    }

    fn has_tombstones(&self) -> bool {
        true
    }

    fn keeps_any_bytes(&self) -> bool {
        true
    }

    fn counts_attempts(&self) -> bool {
        true
    }
}

#[async_trait]
impl SubscriptionOutageWorld for World {
    async fn stop(&mut self) {
        self.broker.stop();
    }

    async fn start(&mut self) {
        self.broker.start();
    }

    fn keeps_messages(&self) -> bool {
        true
    }
}

postrider_testkit::subscription_conformance!(world);
postrider_testkit::subscription_outage_conformance!(world);

#[tokio::test]
async fn groups_read_independently_and_lag_is_what_is_not_done() {
    let (broker, topic) = (MemoryBroker::default(), Topic::from("orders"));
    publish_until_taken(&broker, interleaved(&topic, &["a", "b"], 0, 5)).await;
    let config = MemorySubscriptionConfig::default();
    let topics = [topic];
    let first = broker.subscribe("first", &topics, &config);
    let second = broker.subscribe("second", &topics, &config);
    let mut batch = first.next(4).await.unwrap();
    batch.iter_mut().for_each(postrider_core::Delivery::ack);
    assert_eq!(first.lag().await, Some(6));
    assert_eq!(second.lag().await, Some(10));
    assert_eq!(second.next(100).await.unwrap().len(), 10);
}

#[tokio::test]
async fn a_group_that_falls_behind_goes_on_at_the_oldest_message_kept() {
    let config = MemoryConfig {
        messages_max: 3,
        ..MemoryConfig::default()
    };
    let (broker, topic) = (MemoryBroker::new(config), Topic::from("orders"));
    let config = MemorySubscriptionConfig::default();
    let subscription = broker.subscribe("group", std::slice::from_ref(&topic), &config);
    publish_until_taken(&broker, interleaved(&topic, &["a"], 0, 10)).await;
    let batch = subscription.next(100).await.unwrap();
    let positions: Vec<&str> = batch.iter().map(|d| d.position.as_str()).collect();
    assert_eq!(positions, ["orders@7", "orders@8", "orders@9"]);
}

#[tokio::test]
async fn a_stopped_broker_ends_a_wait() {
    let broker = MemoryBroker::default();
    let config = MemorySubscriptionConfig::default();
    let subscription = broker.subscribe("group", &[Topic::from("orders")], &config);
    let stop = async {
        tokio::task::yield_now().await;
        broker.stop();
    };
    let waiting = tokio::time::timeout(Duration::from_secs(10), subscription.next(1));
    let (waited, ()) = tokio::join!(waiting, stop);
    let error = waited.unwrap().unwrap_err();
    assert!(matches!(error, SubscribeError::Unavailable { .. }));
    assert!(subscription.ping().await.is_err());
    broker.start();
    subscription.ping().await.unwrap();
}
