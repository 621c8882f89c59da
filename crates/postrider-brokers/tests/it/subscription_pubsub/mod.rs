//! What only a Pub/Sub subscription has: leases, a service that takes messages back, and one that may have lost
//! everything when it is there again.

mod conformance;
mod scripted;
mod service;

use std::time::Duration;

use postrider_brokers::pubsub::{PubSubSubscription, PubSubSubscriptionConfig};
use postrider_brokers::{PubSubConfig, PubSubPublisher};
use postrider_core::{Delivery, Publisher, Subscription, Topic};
use postrider_testkit::conformance::publisher::interleaved;
use postrider_testkit::pubsub::{PubSub, PubSubTopic, SubscriptionTraits};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);
/// The shortest that the client takes.
const LEASE_SECS: u32 = 10;

/// A topic with one subscription, for as many subscribers as a test wants.
struct Fixture {
    server: PubSub,
    topic: PubSubTopic,
    name: String,
    traits: SubscriptionTraits,
}

impl Fixture {
    async fn new(server: PubSub, traits: SubscriptionTraits) -> Self {
        let topic = server.fresh_topic().await;
        let fixture = Self {
            name: server.fresh_subscription_name(),
            server,
            topic,
            traits,
        };
        fixture.create_subscription().await;
        fixture
    }

    async fn create_subscription(&self) {
        let (name, topic) = (&self.name, self.topic.id());
        self.server
            .create_subscription(name, topic, &self.traits)
            .await;
    }

    /// Creates everything again after the server lost it.
    async fn create(&self) {
        self.topic.create().await;
        self.create_subscription().await;
    }

    async fn ordered() -> Self {
        let traits = SubscriptionTraits {
            ordering: true,
            ..SubscriptionTraits::default()
        };
        Self::new(PubSub::shared(), traits).await
    }

    fn config(&self) -> PubSubSubscriptionConfig {
        PubSubSubscriptionConfig {
            endpoint: Some(self.server.endpoint()),
            lease_secs: LEASE_SECS,
            ..PubSubSubscriptionConfig::new(self.server.project(), &self.name)
        }
    }

    fn subscriber(&self) -> PubSubSubscription {
        PubSubSubscription::new(self.config()).expect("a valid config")
    }

    async fn publish(&self, keys: &[&str], numbers: std::ops::Range<usize>) {
        let topic = Topic::from(self.topic.id());
        let batch = interleaved(&topic, keys, numbers.start, numbers.len());
        let publisher = PubSubPublisher::new(connection(&self.server)).expect("a valid config");
        let outcomes = publisher.publish(&batch, PATIENCE).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }
}

fn connection(server: &PubSub) -> PubSubConfig {
    PubSubConfig {
        endpoint: Some(server.endpoint()),
        ..PubSubConfig::new(server.project())
    }
}

async fn one(subscription: &PubSubSubscription) -> Delivery {
    let next = timeout(PATIENCE, subscription.next(1)).await;
    next.expect("in time").expect("no error").remove(0)
}

async fn nothing_within(subscription: &PubSubSubscription, patience: Duration) {
    if let Ok(next) = timeout(patience, subscription.next(1)).await {
        panic!("came: {next:?}");
    }
}

fn body(delivery: &Delivery) -> String {
    let payload = delivery.message.payload.as_deref().unwrap_or_default();
    String::from_utf8_lossy(payload).into_owned()
}
