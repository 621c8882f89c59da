//! A part of a broker that takes no writes holds up what belongs to it, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::brokers::pubsub::{PubSubConfig, PubSubPublisher};
use postrider::core::{Event, Ordering, Publisher, RecordFilter, Records as _, StoredRecord};
use postrider::relay::Config;
use postrider_testkit::kafka::{Kafka, fresh_topic_name};
use postrider_testkit::pubsub::PubSub;
use postrider_testkit::services::{Kind, PrivateServer};
use postrider_testkit::{eventually, eventually_within};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::world::{Running, World};

const KEYS: usize = 4;
const PER_KEY: usize = 5;
const PATIENCE: Duration = Duration::from_secs(90);

async fn world() -> World {
    World::with("talkie", |layout| layout.ordering = Ordering::Key).await
}

fn publisher(kafka: &Kafka) -> KafkaPublisher {
    let mut config = KafkaConfig::new(kafka.bootstrap());
    let never = "false".into();
    config
        .properties
        .insert("allow.auto.create.topics".into(), never);
    KafkaPublisher::new(config).unwrap()
}

/// Keys are of one topic only, so that none belongs to two parts.
fn event(topic: &str, key: usize, number: usize) -> Event {
    let key = format!("{topic}/{key}");
    Event::json("", &json!({ "key": key, "number": number }))
        .unwrap()
        .topic(topic)
        .key(key)
}

/// The `round`-th events of every topic and key.
async fn emit(world: &World, topics: &[String], round: usize) {
    let mut events = Vec::new();
    for number in round * PER_KEY..(round + 1) * PER_KEY {
        for topic in topics {
            events.extend((0..KEYS).map(|key| event(topic, key, number)));
        }
    }
    world.emit(events).await;
}

/// A relay that has the default time to publish: a deleted topic is reported after three seconds.
fn start(world: &World, publisher: impl Publisher + 'static) -> Running {
    let patient = |config: &mut Config| config.publish_timeout = Config::default().publish_timeout;
    world.relay(publisher).config(patient).start()
}

async fn unpublished(world: &World) -> Vec<StoredRecord> {
    let store = world.store();
    let filter = RecordFilter::default();
    let all = store.find(&filter, None, 1000).await.unwrap().items;
    all.into_iter()
        .filter(|record| record.published_at.is_none())
        .collect()
}

/// Waits until nothing is unpublished but what belongs to the broken part, then looks at that.
async fn until_only_left(
    world: &World,
    relay: &Running,
    count: usize,
    is_part: impl Fn(&str) -> bool,
) {
    let left =
        eventually_within(
            PATIENCE,
            "the healthy parts are published",
            async || match unpublished(world).await {
                left if left.len() <= count => Ok(left),
                left => Err((left.len(), relay.health.report())),
            },
        )
        .await;
    assert_eq!(left.len(), count);
    for record in &left {
        assert!(is_part(record.key.as_deref().unwrap()), "{record:?}");
        assert_eq!(record.attempts, 0, "{record:?}");
    }
    // A machine that is busy with other tests may miss a deadline once. What waits for the part
    // must not keep the breaker open.
    eventually("the broker counts as up", async || {
        let report = relay.health.report();
        let is_closed = relay.metric("postrider_breaker_open") == 0.0;
        (is_closed && report.is_ready()).then_some(()).ok_or(report)
    })
    .await;
}

/// Waits until what waits has been tried again so many times, which its times say.
async fn until_tried_again(world: &World, times: usize) {
    let mut seen = BTreeSet::new();
    eventually_within(PATIENCE, "what waits is tried again", async || {
        let waiting = "SELECT DISTINCT next_attempt_at::text FROM outbox WHERE status = 'failed'";
        seen.extend(world.column(waiting).await);
        if seen.len() > times {
            Ok(())
        } else {
            Err(seen.len())
        }
    })
    .await;
    for record in unpublished(world).await {
        assert_eq!(record.attempts, 0, "{record:?}");
    }
}

async fn until_drained(world: &World, relay: &Running) {
    eventually_within(
        PATIENCE,
        "everything is published",
        async || match unpublished(world).await {
            left if left.is_empty() => Ok(()),
            left => Err((left, relay.health.report())),
        },
    )
    .await;
}

/// The numbers of each key, in the order in which the broker has them, without repetitions.
async fn by_key(kafka: &Kafka, topic: &str) -> BTreeMap<String, Vec<u64>> {
    let mut found: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for record in kafka.records(topic).await {
        let body: serde_json::Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
        let numbers = found
            .entry(body["key"].as_str().unwrap().into())
            .or_default();
        let number = body["number"].as_u64().unwrap();
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    found
}

async fn assert_in_order(kafka: &Kafka, topic: &str, numbers: std::ops::Range<usize>) {
    let by_key = by_key(kafka, topic).await;
    assert_eq!(by_key.len(), KEYS, "{by_key:?}");
    let expected: Vec<u64> = numbers.map(|number| number as u64).collect();
    for (key, found) in by_key {
        assert_eq!(found, expected, "{key}");
    }
}

async fn topics(kafka: &Kafka, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|_| fresh_topic_name()).collect();
    futures::future::join_all(names.iter().map(|name| kafka.create_topic(name, 2, &[]))).await;
    names
}

/// A cluster whose topics can be forbidden and whose partitions can lose their leader. Its tests take turns.
async fn private() -> MutexGuard<'static, PrivateServer> {
    static SERVER: OnceCell<Mutex<PrivateServer>> = OnceCell::const_new();
    let start = || async {
        let folder = std::env::temp_dir().join("postrider-parts");
        let server =
            PrivateServer::start_in(&folder, Kind::Kafka, &[("POSTRIDER_KAFKA_PARTS", "1")]);
        Mutex::new(server.await)
    };
    let mut server = SERVER.get_or_init(start).await.lock().await;
    server.recover().await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_deleted_holds_up_its_own_records_only() {
    let kafka = Kafka::shared();
    let world = world().await;
    let topics = topics(&kafka, 10).await;
    let relay = start(&world, publisher(&kafka));
    emit(&world, &topics, 0).await;
    until_drained(&world, &relay).await;
    assert_eq!(relay.metric("postrider_broker_parts_closed"), 0.0);

    let gone = &topics[9];
    kafka.delete_topic(gone).await;
    for round in 1..4 {
        emit(&world, &topics, round).await;
        until_only_left(&world, &relay, KEYS * PER_KEY * round, |key| {
            key.starts_with(gone)
        })
        .await;
    }
    until_tried_again(&world, 2).await;
    eventually("the relay says what waits", async || {
        let report = relay.health.report();
        let told = format!("topic {gone} takes no writes: it does not exist");
        if report.parts.contains(&told) && report.is_ready() {
            Ok(())
        } else {
            Err(report)
        }
    })
    .await;
    assert!(relay.metric("postrider_broker_parts_closed") >= 1.0);

    kafka.create_topic(gone, 2, &[]).await;
    until_drained(&world, &relay).await;
    relay.stop().await;
    for topic in &topics[..9] {
        assert_in_order(&kafka, topic, 0..4 * PER_KEY).await;
    }
    assert_in_order(&kafka, gone, PER_KEY..4 * PER_KEY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_written_holds_up_its_own_records_only() {
    let server = private().await;
    let kafka = Kafka::at(server.address());
    let world = world().await;
    let topics = topics(&kafka, 10).await;
    let relay = start(&world, publisher(&kafka));
    emit(&world, &topics, 0).await;
    until_drained(&world, &relay).await;

    let closed = &topics[0];
    kafka.forbid_writing(closed).await;
    for round in 1..4 {
        emit(&world, &topics, round).await;
        until_only_left(&world, &relay, KEYS * PER_KEY * round, |key| {
            key.starts_with(closed)
        })
        .await;
    }
    until_tried_again(&world, 2).await;

    kafka.allow_writing(closed).await;
    until_drained(&world, &relay).await;
    relay.stop().await;
    for topic in &topics {
        assert_in_order(&kafka, topic, 0..4 * PER_KEY).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_without_a_leader_holds_up_its_own_keys_only() {
    const PARTITIONS: i32 = 6;
    let mut server = private().await;
    let kafka = Kafka::at(server.address());
    let world = world().await;
    let topic = fresh_topic_name();
    kafka.create_topic(&topic, PARTITIONS, &[]).await;
    let relay = start(&world, publisher(&kafka));
    let all: Vec<usize> = (0..40).collect();
    let round = |number| {
        all.iter()
            .map(move |key| (*key, number))
            .collect::<Vec<_>>()
    };
    let emit = async |number| {
        let events = round(number).into_iter();
        let topic = &topic;
        world
            .emit(events.map(|(key, number)| event(topic, key, number)))
            .await;
    };
    emit(0).await;
    until_drained(&world, &relay).await;
    let partition_of = partitions_of_keys(&kafka, &topic).await;

    // The directory is gone for the broker as soon as it writes its next checkpoint.
    let (there, away) = (server.dir().join("data2"), server.dir().join("away"));
    std::fs::rename(&there, &away).unwrap();
    let without_leader = eventually("partitions have no leader", async || {
        let leaders = kafka.leaders(&topic).await;
        let lost: BTreeSet<i32> = leaders
            .into_iter()
            .filter(|(_, leader)| *leader < 0)
            .map(|(id, _)| id)
            .collect();
        if lost.is_empty() { Err(()) } else { Ok(lost) }
    })
    .await;
    assert!(
        without_leader.len() < PARTITIONS as usize,
        "{without_leader:?}"
    );
    let is_lost = |key: &str| without_leader.contains(&partition_of[key]);
    let lost = partition_of.keys().filter(|key| is_lost(key)).count();
    for number in 1..4 {
        emit(number).await;
        until_only_left(&world, &relay, lost * number, is_lost).await;
    }
    until_tried_again(&world, 2).await;

    server.kill();
    std::fs::rename(&away, &there).unwrap();
    server.restart().await;
    until_drained(&world, &relay).await;
    relay.stop().await;
    for (key, numbers) in by_key(&kafka, &topic).await {
        assert_eq!(numbers, [0, 1, 2, 3], "{key}");
    }
}

async fn partitions_of_keys(kafka: &Kafka, topic: &str) -> BTreeMap<String, i32> {
    let records = kafka.records(topic).await.into_iter();
    records
        .map(|record| {
            (
                String::from_utf8(record.key.unwrap()).unwrap(),
                record.partition,
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pubsub_topic_that_was_deleted_holds_up_its_own_records_only() {
    let server = PubSub::shared();
    let world = world().await;
    let mut topics = Vec::new();
    for _ in 0..10 {
        topics.push(server.fresh_topic().await);
    }
    let names: Vec<String> = topics.iter().map(|topic| topic.id().to_owned()).collect();
    let config = PubSubConfig {
        endpoint: Some(server.endpoint()),
        ..PubSubConfig::new(server.project())
    };
    let relay = start(&world, PubSubPublisher::new(config).unwrap());
    emit(&world, &names, 0).await;
    until_drained(&world, &relay).await;

    let gone = &topics[5];
    gone.delete().await;
    for round in 1..4 {
        emit(&world, &names, round).await;
        until_only_left(&world, &relay, KEYS * PER_KEY * round, |key| {
            key.starts_with(gone.id())
        })
        .await;
    }
    until_tried_again(&world, 2).await;

    gone.create().await;
    until_drained(&world, &relay).await;
    relay.stop().await;
    let mut by_key: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for message in gone.messages().await {
        let body: serde_json::Value = serde_json::from_slice(&message.data).unwrap();
        let key = body["key"].as_str().unwrap().to_owned();
        by_key
            .entry(key)
            .or_default()
            .push(body["number"].as_u64().unwrap());
    }
    assert_eq!(by_key.len(), KEYS);
    for (key, numbers) in by_key {
        assert_eq!(
            numbers,
            (PER_KEY as u64..4 * PER_KEY as u64).collect::<Vec<_>>(),
            "{key}"
        );
    }
}
