use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_brokers::{KafkaConfig, KafkaPublisher};
use postrider_core::{Message, PublishError, Publisher, Topic};
use postrider_testkit::conformance::publisher::{
    OutageWorld, PublisherWorld, Seen, assert_each_key_ends_at_its_first_failure,
    first_occurrences, interleaved, numbered, publish_until_taken,
};
use postrider_testkit::kafka::{Kafka, KafkaRecord, fresh_topic_name};
use postrider_testkit::services::{Kind, PrivateServer};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

pub(crate) struct World {
    kafka: Kafka,
    publisher: Arc<KafkaPublisher>,
}

impl World {
    fn at(kafka: Kafka) -> Self {
        let mut config = KafkaConfig::new(kafka.bootstrap());
        // The tests' cluster creates topics for whoever asks.
        config
            .properties
            .insert("allow.auto.create.topics".into(), "false".into());
        let publisher = Arc::new(KafkaPublisher::new(config).expect("a valid config"));
        Self { kafka, publisher }
    }
}

pub(crate) async fn world() -> World {
    World::at(Kafka::shared())
}

#[async_trait]
impl PublisherWorld for World {
    fn publisher(&self) -> Arc<dyn Publisher> {
        self.publisher.clone()
    }

    async fn fresh_topic(&self) -> Topic {
        self.kafka.fresh_topic(3).await.into()
    }

    fn unknown_topic(&self) -> Topic {
        fresh_topic_name().into()
    }

    async fn read(&self, topic: &Topic) -> Vec<Seen> {
        self.kafka
            .records(topic.as_str())
            .await
            .into_iter()
            .map(seen)
            .collect()
    }

    fn oversize_bytes(&self) -> usize {
        1_000_001
    }

    fn has_tombstones(&self) -> bool {
        true
    }
}

pub(crate) fn seen(record: KafkaRecord) -> Seen {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let headers = record.headers.into_iter();
    Seen::new(
        record.key.map(text),
        record.value,
        headers.map(|(name, value)| (name, text(value.expect("a value")))),
    )
}

/// A world with the one private cluster, whose tests take turns.
struct PrivateWorld {
    server: MutexGuard<'static, PrivateServer>,
    world: World,
}

async fn private_world() -> PrivateWorld {
    static SERVER: OnceCell<Mutex<PrivateServer>> = OnceCell::const_new();
    let start = || async { Mutex::new(PrivateServer::start(Kind::Kafka).await) };
    let mut server = SERVER.get_or_init(start).await.lock().await;
    server.recover().await;
    let world = World::at(Kafka::at(server.address()));
    PrivateWorld { server, world }
}

#[async_trait]
impl PublisherWorld for PrivateWorld {
    fn publisher(&self) -> Arc<dyn Publisher> {
        self.world.publisher()
    }

    async fn fresh_topic(&self) -> Topic {
        self.world.fresh_topic().await
    }

    fn unknown_topic(&self) -> Topic {
        self.world.unknown_topic()
    }

    async fn read(&self, topic: &Topic) -> Vec<Seen> {
        self.world.read(topic).await
    }

    fn oversize_bytes(&self) -> usize {
        self.world.oversize_bytes()
    }

    fn has_tombstones(&self) -> bool {
        self.world.has_tombstones()
    }
}

#[async_trait]
impl OutageWorld for PrivateWorld {
    async fn stop(&mut self) {
        self.server.kill();
    }

    async fn start(&mut self) {
        self.server.restart().await;
    }

    fn keeps_messages(&self) -> bool {
        true
    }

    async fn freeze(&mut self) {
        self.server.pause();
    }

    async fn thaw(&mut self) {
        self.server.resume();
    }
}

postrider_testkit::publisher_conformance!(world);
postrider_testkit::publisher_outage_conformance!(private_world);

const DEADLINE: Duration = Duration::from_secs(20);

/// Compression cannot make this smaller.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn assert_all_taken(outcomes: &[Result<(), PublishError>]) {
    for outcome in outcomes {
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

/// With one partition, so that all messages meet in one batch.
async fn topic_with(world: &World, settings: &[(&str, &str)]) -> Topic {
    let topic = fresh_topic_name();
    world.kafka.create_topic(&topic, 1, settings).await;
    topic.into()
}

#[tokio::test]
async fn a_topic_with_a_low_limit_takes_many_small_messages() {
    let world = world().await;
    let topic = topic_with(&world, &[("max.message.bytes", "20000")]).await;
    let mut batch = interleaved(&topic, &["a", "b", "c", "d"], 0, 100);
    for message in &mut batch {
        message.payload = Some(noise(1_000).into());
    }
    assert_all_taken(&world.publisher.publish(&batch, DEADLINE).await);
    let by_key = first_occurrences(&world.read(&topic).await);
    for key in ["a", "b", "c", "d"] {
        assert_eq!(by_key[key], (0..100).collect::<Vec<_>>(), "key {key}");
    }
}

#[tokio::test]
async fn only_the_message_over_the_topics_own_limit_is_too_large() {
    let world = world().await;
    let topic = topic_with(&world, &[("max.message.bytes", "20000")]).await;
    let mut batch = interleaved(&topic, &["a", "b", "c", "d"], 0, 50);
    for message in &mut batch {
        message.payload = Some(noise(500).into());
    }
    batch[81].payload = Some(noise(50_000).into());
    let outcomes = world.publisher.publish(&batch, DEADLINE).await;
    assert_each_key_ends_at_its_first_failure(&batch, &outcomes);
    let limit = Some(20_000);
    assert!(
        matches!(outcomes[81], Err(PublishError::TooLarge { limit: l, .. }) if l == limit),
        "{:?}",
        outcomes[81]
    );
    let by_key = first_occurrences(&world.read(&topic).await);
    assert_eq!(by_key["b"], (0..20).collect::<Vec<_>>());
    for key in ["a", "c", "d"] {
        assert_eq!(by_key[key], (0..50).collect::<Vec<_>>(), "key {key}");
    }
}

#[tokio::test]
async fn requests_on_the_wire_behind_a_refused_one_are_not_taken() {
    let mut config = KafkaConfig::new(Kafka::shared().bootstrap());
    // Every message is a request of its own, and five are under way at a time.
    config.batch_bytes = 16_000;
    let world = world().await;
    let topic = topic_with(&world, &[("max.message.bytes", "20000")]).await;
    // The first request of a producer is special: the broker lets a new one begin anywhere.
    for (key, refused) in [("first", 0), ("later", 20)] {
        let publisher = KafkaPublisher::new(config.clone()).unwrap();
        let mut batch = interleaved(&topic, &[key], 0, 40);
        for message in &mut batch {
            message.payload = Some(noise(15_000).into());
        }
        batch[refused].payload = Some(noise(30_000).into());
        let outcomes = publisher.publish(&batch, DEADLINE).await;
        assert_each_key_ends_at_its_first_failure(&batch, &outcomes);
        let outcome = &outcomes[refused];
        assert!(
            matches!(outcome, Err(PublishError::TooLarge { .. })),
            "{outcome:?}"
        );
        let mut by_key = first_occurrences(&world.read(&topic).await);
        assert_eq!(
            by_key.remove(key).unwrap_or_default(),
            (0..refused).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn records_that_the_topic_refuses_harm_nobody_else() {
    let world = world().await;
    let topic = topic_with(&world, &[("cleanup.policy", "compact")]).await;
    // One is the hard case: librdkafka then blames the whole batch.
    for bad in [vec![100], vec![0, 50, 51, 202]] {
        let mut batch = interleaved(&topic, &["a", "b"], 0, 100);
        for index in &bad {
            batch.insert(
                *index,
                Message {
                    key: None,
                    ..numbered(&topic, "", 0)
                },
            );
        }
        let outcomes = world.publisher.publish(&batch, DEADLINE).await;
        let refused: Vec<usize> = (0..batch.len())
            .filter(|i| matches!(outcomes[*i], Err(PublishError::Refused { .. })))
            .collect();
        assert_eq!(refused, bad, "{outcomes:?}");
        let taken = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(taken, 200, "{outcomes:?}");
    }
    let by_key = first_occurrences(&world.read(&topic).await);
    assert_eq!(by_key["a"], (0..100).collect::<Vec<_>>());
    assert_eq!(by_key["b"], (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_batch_larger_than_the_queue_waits_for_room() {
    const COUNT: usize = 150_000;
    let world = world().await;
    let topic = world.fresh_topic().await;
    let batch = interleaved(&topic, &["a"], 0, COUNT);
    assert_all_taken(&world.publisher.publish(&batch, 3 * DEADLINE).await);
    assert_eq!(
        first_occurrences(&world.read(&topic).await)["a"],
        (0..COUNT).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_topic_that_is_made_later_is_found() {
    let world = world().await;
    let name = fresh_topic_name();
    let topic = Topic::from(&*name);
    let batch = interleaved(&topic, &["a"], 0, 3);
    let outcomes = world.publisher.publish(&batch, DEADLINE).await;
    assert!(
        matches!(outcomes[0], Err(PublishError::PartUnavailable { .. })),
        "{outcomes:?}"
    );
    assert!(outcomes.iter().all(Result::is_err));
    world.kafka.create_topic(&name, 1, &[]).await;
    publish_until_taken(&*world.publisher, batch).await;
    assert_eq!(first_occurrences(&world.read(&topic).await)["a"], [0, 1, 2]);
}

#[tokio::test]
async fn nobody_at_the_address_is_an_outage_with_its_cause() {
    let publisher = KafkaPublisher::new(KafkaConfig::new("127.0.0.1:1")).unwrap();
    let batch = interleaved(&Topic::from("orders"), &["a", "b"], 0, 2);
    let outcomes = publisher.publish(&batch, Duration::from_secs(2)).await;
    for outcome in outcomes {
        let text = outcome.unwrap_err().to_string();
        assert!(
            text.starts_with("broker unavailable") && text.contains("refused"),
            "{text}"
        );
    }
    assert!(publisher.ping().await.is_err());
}
