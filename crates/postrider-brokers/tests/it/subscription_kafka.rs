use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_brokers::kafka::StartAt;
use postrider_brokers::{KafkaConfig, KafkaPublisher, KafkaSubscription, KafkaSubscriptionConfig};
use postrider_core::{Delivery, Message, Publisher, SubscribeError, Subscription, Topic};
use postrider_testkit::conformance::publisher::{interleaved, numbered, publish_until_taken};
use postrider_testkit::conformance::subscription::{
    SubscriptionOutageWorld, SubscriptionWorld, independent,
};
use postrider_testkit::kafka::{Kafka, fresh_topic_name};
use postrider_testkit::services::{Kind, PrivateServer};
use postrider_testkit::{eventually, eventually_within};

struct World {
    kafka: Kafka,
    publisher: Arc<KafkaPublisher>,
    server: Option<PrivateServer>,
}

impl World {
    fn at(kafka: Kafka, server: Option<PrivateServer>) -> Self {
        let config = KafkaConfig::new(kafka.bootstrap());
        let publisher = KafkaPublisher::new(config).expect("a valid config");
        let publisher = Arc::new(publisher);
        Self {
            kafka,
            publisher,
            server,
        }
    }

    /// The group of a topic has its name.
    fn config(&self, topic: &Topic) -> KafkaSubscriptionConfig {
        let name = topic.as_str();
        let mut config = KafkaSubscriptionConfig::new(self.kafka.bootstrap(), name, [name]);
        // So that a test whose member crashed does not wait for long; the broker's minimum.
        config.session_timeout_ms = 6_000;
        config
    }

    async fn publish(&self, messages: &[Message]) {
        publish_until_taken(&*self.publisher, messages.to_vec()).await;
    }

    async fn committed(&self, topic: &Topic) -> BTreeMap<i32, i64> {
        self.kafka.committed(topic.as_str(), topic.as_str()).await
    }

    async fn wait_for_commit(&self, topic: &Topic, expected: &BTreeMap<i32, i64>) {
        eventually("the offsets are committed", async || {
            let committed = self.committed(topic).await;
            (&committed == expected).then_some(()).ok_or(committed)
        })
        .await;
    }
}

async fn world() -> World {
    World::at(Kafka::shared(), None)
}

async fn private_world() -> World {
    let server = PrivateServer::start(Kind::Kafka).await;
    World::at(Kafka::at(server.address()), Some(server))
}

#[async_trait]
impl SubscriptionWorld for World {
    async fn fresh_topic(&self) -> Topic {
        self.kafka.fresh_topic(3).await.into()
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        self.publisher.clone()
    }

    async fn subscribe(&self, topic: &Topic, in_flight_max: usize) -> Box<dyn Subscription> {
        let mut config = self.config(topic);
        config.in_flight_max = u32::try_from(in_flight_max).expect("a small number");
        Box::new(KafkaSubscription::new(config).expect("a valid config"))
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
        self.server.as_mut().expect("a private server").kill();
    }

    async fn start(&mut self) {
        let server = self.server.as_mut().expect("a private server");
        server.restart().await;
    }

    fn keeps_messages(&self) -> bool {
        true
    }
}

postrider_testkit::subscription_conformance!(world);
postrider_testkit::subscription_outage_conformance!(private_world);

const DEADLINE: Duration = Duration::from_secs(20);

/// Partition and offset, from `topic[partition]@offset`.
fn place(delivery: &Delivery) -> (i32, i64) {
    let parse = |position: &str| {
        let (_, place) = position.split_once('[')?;
        let (partition, offset) = place.split_once("]@")?;
        Some((partition.parse().ok()?, offset.parse().ok()?))
    };
    parse(&delivery.position).expect("a partition and an offset")
}

async fn next(subscription: &KafkaSubscription) -> Vec<Delivery> {
    let patience = Duration::from_secs(60);
    eventually_within(patience, "deliveries come", async || {
        let next = tokio::time::timeout(DEADLINE, subscription.next(1_000)).await;
        next.map_err(|_| "nothing".to_owned())?
            .map_err(|error| error.to_string())
    })
    .await
}

async fn take(subscription: &KafkaSubscription, count: usize) -> Vec<Delivery> {
    let mut held = Vec::new();
    while held.len() < count {
        held.extend(next(subscription).await);
    }
    assert_eq!(held.len(), count);
    held
}

fn ends(deliveries: &[Delivery]) -> BTreeMap<i32, i64> {
    let mut ends = BTreeMap::new();
    for (partition, offset) in deliveries.iter().map(place) {
        let end = ends.entry(partition).or_insert(0);
        *end = (*end).max(offset + 1);
    }
    ends
}

const KEYS: [&str; 16] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_committed_offset_never_passes_an_unfinished_record() {
    let world = world().await;
    let topic: Topic = world.kafka.fresh_topic(1).await.into();
    let subscription = KafkaSubscription::new(world.config(&topic)).unwrap();
    world.publish(&independent(&topic, 0..20)).await;
    let mut held = take(&subscription, 20).await;
    held.sort_by_key(place);
    for delivery in held.iter_mut().filter(|delivery| place(delivery).1 != 7) {
        delivery.ack();
    }
    world
        .wait_for_commit(&topic, &BTreeMap::from([(0, 7)]))
        .await;
    // Several more commits go by, since what is published meanwhile is done.
    for n in 20..25 {
        world.publish(&independent(&topic, n..n + 1)).await;
        take(&subscription, 1).await[0].ack();
        assert_eq!(world.committed(&topic).await[&0], 7);
    }
    held[7].ack();
    world
        .wait_for_commit(&topic, &BTreeMap::from([(0, 25)]))
        .await;
    subscription.close(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalance_commits_what_is_done_and_takes_away_the_rest() {
    let world = world().await;
    let topic: Topic = world.kafka.fresh_topic(4).await.into();
    let mut config = world.config(&topic);
    config.revoke_timeout_ms = 2_000;
    let first = KafkaSubscription::new(config.clone()).unwrap();
    world.publish(&independent(&topic, 0..80)).await;
    let mut held = take(&first, 80).await;
    // Of every partition the first half is done.
    held.sort_by_key(place);
    let ends = ends(&held);
    held.retain_mut(|delivery| {
        let (partition, offset) = place(delivery);
        let done = offset < ends[&partition] / 2;
        if done {
            delivery.ack();
        }
        !done
    });

    let second = KafkaSubscription::new(config).unwrap();
    let mut moved: BTreeMap<i32, BTreeSet<i64>> = BTreeMap::new();
    let expected = |partition: &i32, offsets: &BTreeSet<i64>| {
        let unfinished = ends[partition] / 2..ends[partition];
        offsets.iter().copied().eq(unfinished)
    };
    while moved.len() < 2 || !moved.iter().all(|(p, offsets)| expected(p, offsets)) {
        for mut delivery in next(&second).await {
            let (partition, offset) = place(&delivery);
            assert!(
                offset >= ends[&partition] / 2,
                "{partition}@{offset} was done"
            );
            moved.entry(partition).or_default().insert(offset);
            delivery.ack();
        }
    }
    for delivery in &mut held {
        let lost = tokio::time::timeout(Duration::from_millis(1), delivery.lost());
        let is_moved = moved.contains_key(&place(delivery).0);
        assert_eq!(lost.await.is_ok(), is_moved, "{}", delivery.position);
        // Without effect where it is lost.
        delivery.ack();
    }
    second.close(DEADLINE).await;
    world.wait_for_commit(&topic, &ends).await;

    // What the second member leaves comes back to the first, under another assignment.
    world.publish(&independent(&topic, 80..100)).await;
    let mut rest = take(&first, 20).await;
    assert!(
        rest.iter().all(|d| place(d).1 >= ends[&place(d).0]),
        "nothing done comes again"
    );
    rest.iter_mut().for_each(Delivery::ack);
    first.close(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_finished_while_its_partition_is_revoked_is_not_done_again() {
    let world = world().await;
    let topic: Topic = world.kafka.fresh_topic(4).await.into();
    let mut config = world.config(&topic);
    config.revoke_timeout_ms = 20_000;
    let first = KafkaSubscription::new(config.clone()).unwrap();
    world.publish(&independent(&topic, 0..32)).await;
    let mut held = take(&first, 32).await;
    let second = KafkaSubscription::new(config).unwrap();
    eventually("the second member joins", async || {
        let members = world.kafka.members(topic.as_str()).await;
        (members == 2).then_some(()).ok_or(members)
    })
    .await;
    held.iter_mut().for_each(Delivery::ack);
    world.wait_for_commit(&topic, &ends(&held)).await;
    // Each of them gets something, and nothing that was done.
    let mut seen = HashSet::new();
    let mut members = HashSet::new();
    while members.len() < 2 {
        world.publish(&independent(&topic, 0..20)).await;
        let mut left = 20;
        while left > 0 {
            let (member, batch) = tokio::select! {
                batch = next(&first) => (1, batch),
                batch = next(&second) => (2, batch),
            };
            members.insert(member);
            left -= batch.len();
            for mut delivery in batch {
                assert!(seen.insert(place(&delivery)), "{}", delivery.position);
                delivery.ack();
            }
        }
    }
    assert!(held.iter().all(|delivery| !seen.contains(&place(delivery))));
    tokio::join!(first.close(DEADLINE), second.close(DEADLINE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_outlasts_the_poll_interval_keeps_its_partition() {
    let world = world().await;
    let topic: Topic = world.kafka.fresh_topic(1).await.into();
    let mut config = world.config(&topic);
    config
        .properties
        .insert("max.poll.interval.ms".into(), "6000".into());
    config.in_flight_max = 2;
    let subscription = KafkaSubscription::new(config).unwrap();
    world.publish(&interleaved(&topic, &["a"], 0, 5)).await;
    let mut held = next(&subscription).await;
    let lost = tokio::time::timeout(Duration::from_secs(9), held[0].lost()).await;
    assert!(lost.is_err(), "the partition was taken away");
    held.iter_mut().for_each(Delivery::ack);
    let mut done = held.len();
    while done < 5 {
        for mut delivery in next(&subscription).await {
            assert_eq!(place(&delivery).1, done as i64, "nothing came twice");
            delivery.ack();
            done += 1;
        }
    }
    world
        .wait_for_commit(&topic, &BTreeMap::from([(0, 5)]))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pausing_neither_loses_nor_doubles_a_record() {
    const COUNT: usize = 300;
    let world = world().await;
    let topic = world.fresh_topic().await;
    let mut config = world.config(&topic);
    config.in_flight_max = 20;
    let subscription = KafkaSubscription::new(config).unwrap();
    world.publish(&interleaved(&topic, &KEYS, 0, COUNT)).await;
    let mut offsets: BTreeMap<i32, BTreeSet<i64>> = BTreeMap::new();
    let mut taken = 0;
    while taken < COUNT * KEYS.len() {
        for mut delivery in next(&subscription).await {
            let (partition, offset) = place(&delivery);
            let first = offsets.entry(partition).or_default().insert(offset);
            assert!(first, "{} came twice", delivery.position);
            taken += 1;
            delivery.ack();
        }
    }
    for (partition, offsets) in offsets {
        let count = offsets.len() as i64;
        assert!(offsets.into_iter().eq(0..count), "partition {partition}");
    }
    subscription.close(DEADLINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_does_not_exist_is_named_until_it_does() {
    let world = world().await;
    let topic = Topic::from(fresh_topic_name());
    let subscription = KafkaSubscription::new(world.config(&topic)).unwrap();
    let error = subscription.next(1).await.unwrap_err();
    assert!(
        matches!(error, SubscribeError::Unavailable { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains(topic.as_str()) && text.contains("create"),
        "{text}"
    );
    assert!(subscription.ping().await.is_err());

    world.kafka.create_topic(topic.as_str(), 1, &[]).await;
    world.publish(&[numbered(&topic, "a", 0)]).await;
    take(&subscription, 1).await[0].ack();
    subscription.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lag_is_what_is_not_done() {
    let world = world().await;
    let topic = world.fresh_topic().await;
    world.publish(&independent(&topic, 0..48)).await;
    let subscription = KafkaSubscription::new(world.config(&topic)).unwrap();
    let mut held = take(&subscription, 48).await;
    let lag = async |expected| {
        eventually("the lag is known", async || {
            match subscription.lag().await {
                Some(lag) if lag == expected => Ok(()),
                other => Err(other),
            }
        })
        .await;
    };
    lag(48).await;
    held.iter_mut().for_each(Delivery::ack);
    lag(0).await;
    subscription.close(DEADLINE).await;
    assert_eq!(
        subscription.lag().await,
        None,
        "nothing is assigned any more"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_group_may_begin_at_the_end() {
    let world = world().await;
    let topic: Topic = world.kafka.fresh_topic(1).await.into();
    world.publish(&interleaved(&topic, &["old"], 0, 3)).await;
    let mut config = world.config(&topic);
    config.start = StartAt::Latest;
    let subscription = KafkaSubscription::new(config).unwrap();
    // It begins where the topic ended when the group was formed, which is some time from now.
    let mut number = 0;
    let first = eventually("a message comes", async || {
        world.publish(&[numbered(&topic, "new", number)]).await;
        number += 1;
        let next = tokio::time::timeout(Duration::from_millis(200), subscription.next(1)).await;
        next.map_err(|_| "nothing".to_owned())?
            .map_err(|error| error.to_string())
    })
    .await;
    assert!(place(&first[0]).1 >= 3);
}

/// A partition from which nothing came while the group was there has its place all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_began_at_the_end_misses_nothing_while_it_is_away() {
    let world = world().await;
    let topic: Topic = world.kafka.fresh_topic(4).await.into();
    let mut config = world.config(&topic);
    config.start = StartAt::Latest;
    let subscription = KafkaSubscription::new(config.clone()).unwrap();
    let mut number = 0;
    eventually("a message comes", async || {
        world.publish(&[numbered(&topic, "first", number)]).await;
        number += 1;
        let next = tokio::time::timeout(Duration::from_millis(200), subscription.next(1)).await;
        next.map(|mut came| came.iter_mut().flatten().for_each(Delivery::ack))
            .map_err(|_| "nothing")
    })
    .await;
    subscription.close(DEADLINE).await;

    let keys: Vec<String> = (0..20).map(|key| format!("away-{key}")).collect();
    for key in &keys {
        world.publish(&[numbered(&topic, key, 0)]).await;
    }
    let subscription = KafkaSubscription::new(config).unwrap();
    let mut came = std::collections::BTreeSet::new();
    eventually("all that came meanwhile", async || {
        let next = tokio::time::timeout(Duration::from_millis(200), subscription.next(10)).await;
        for mut delivery in next.into_iter().flatten().flatten() {
            let key = delivery.message.key.as_ref().map(ToString::to_string);
            came.extend(key.filter(|key| key.starts_with("away")));
            delivery.ack();
        }
        if came.len() == keys.len() {
            Ok(())
        } else {
            Err(came.len())
        }
    })
    .await;
    subscription.close(DEADLINE).await;
}
