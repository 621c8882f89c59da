//! What a publisher makes of a part of the broker that takes no writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use postrider_brokers::{KafkaConfig, KafkaPublisher};
use postrider_core::{Message, PublishError, Publisher, Topic};
use postrider_testkit::conformance::publisher::{first_occurrences, interleaved};
use postrider_testkit::kafka::{Kafka, fresh_topic_name};
use postrider_testkit::{eventually, eventually_within};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use crate::kafka::seen;

/// Longer than any of these tests may take.
const DEADLINE: Duration = Duration::from_secs(120);

fn publisher(kafka: &Kafka) -> KafkaPublisher {
    let mut config = KafkaConfig::new(kafka.bootstrap());
    let never = "false".into();
    config
        .properties
        .insert("allow.auto.create.topics".into(), never);
    KafkaPublisher::new(config).expect("a valid config")
}

fn waits(outcome: &Result<(), PublishError>) -> bool {
    matches!(outcome, Err(PublishError::PartUnavailable { .. }))
}

fn of_topic<'a>(
    batch: &'a [Message],
    outcomes: &'a [Result<(), PublishError>],
    topic: &'a Topic,
) -> impl Iterator<Item = &'a Result<(), PublishError>> {
    let both = std::iter::zip(batch, outcomes);
    both.filter(move |(message, _)| message.topic == *topic)
        .map(|(_, outcome)| outcome)
}

/// Two topics of which the second one is in trouble. The call must end long before its deadline, with everything
/// of the first topic taken and nothing of the second one.
async fn assert_only_waits(publisher: &KafkaPublisher, well: &Topic, ill: &Topic, from: usize) {
    let mut batch = interleaved(well, &["a", "b"], from, 10);
    for message in interleaved(ill, &["a", "b"], 0, 5) {
        batch.insert(batch.len() / 2, message);
    }
    batch.sort_by_key(|message| message.topic == *ill);
    batch.rotate_right(3);
    let start = Instant::now();
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert!(start.elapsed() < DEADLINE / 2, "{:?}", start.elapsed());
    for outcome in of_topic(&batch, &outcomes, well) {
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let mut of_ill = of_topic(&batch, &outcomes, ill);
    assert!(of_ill.any(waits), "{outcomes:?}");
    let mut of_ill = of_topic(&batch, &outcomes, ill);
    assert!(of_ill.all(|outcome| waits(outcome) || matches!(outcome, Err(PublishError::Untried))));
}

async fn numbers(kafka: &Kafka, topic: &Topic, key: &str) -> Vec<usize> {
    let records = kafka.records(topic.as_str()).await.into_iter();
    let mut by_key = first_occurrences(&records.map(seen).collect::<Vec<_>>());
    by_key.remove(key).unwrap_or_default()
}

/// One broker of three says nothing. librdkafka's own cluster of three, because the tests' clusters have one broker.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_leader_is_silent_does_not_keep_a_call_until_its_deadline() {
    const SILENT: i32 = 2;
    let cluster = MockCluster::new(3).unwrap();
    let (well, ill) = (Topic::from("well"), Topic::from("ill"));
    for (topic, leaders) in [(&well, [1, 3]), (&ill, [SILENT, SILENT])] {
        cluster.create_topic(topic.as_str(), 2, 1).unwrap();
        for (partition, leader) in (0..).zip(leaders) {
            let led = cluster.partition_leader(topic.as_str(), partition, Some(leader));
            led.unwrap();
        }
    }
    let publisher = KafkaPublisher::new(KafkaConfig::new(cluster.bootstrap_servers())).unwrap();
    let batch = interleaved(&ill, &["a", "b"], 0, 5);
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");

    let hour = Duration::from_secs(3600);
    cluster.broker_round_trip_time(SILENT, hour).unwrap();
    for call in 0..4 {
        assert_only_waits(&publisher, &well, &ill, call * 10).await;
    }
    cluster
        .broker_round_trip_time(SILENT, Duration::ZERO)
        .unwrap();
    let batch = interleaved(&ill, &["a", "b"], 5, 5);
    eventually("the topic takes messages again", async || {
        let outcomes = publisher.publish(&batch, DEADLINE).await;
        if outcomes.iter().all(Result::is_ok) {
            Ok(())
        } else {
            Err(outcomes)
        }
    })
    .await;
    let kafka = Kafka::at(cluster.bootstrap_servers());
    for key in ["a", "b"] {
        let found = numbers(&kafka, &well, key).await;
        assert_eq!(found, (0..40).collect::<Vec<_>>());
    }
}

/// Each call that finds the trouble closes the session of all: nobody else's messages may fail or change places.
#[tokio::test(flavor = "multi_thread")]
async fn calls_beside_one_that_meets_a_deleted_topic_lose_nothing() {
    let kafka = Kafka::shared();
    let publisher = publisher(&kafka);
    let (well, ill) = (Topic::from(fresh_topic_name()), fresh_topic_name());
    kafka.create_topic(well.as_str(), 3, &[]).await;
    kafka.create_topic(&ill, 1, &[]).await;
    let topic = Topic::from(&*ill);
    let first = interleaved(&topic, &["x"], 0, 3);
    let outcomes = publisher.publish(&first, DEADLINE).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    kafka.delete_topic(&ill).await;
    let meets = async {
        for from in 0..4 {
            let batch = interleaved(&topic, &["x", "y"], 3 + from, 1);
            let outcomes = publisher.publish(&batch, DEADLINE).await;
            assert!(outcomes.iter().all(waits), "{outcomes:?}");
        }
    };
    let beside = (0..4).map(|call| {
        let (publisher, well) = (&publisher, &well);
        async move {
            let key = format!("key-{call}");
            for round in 0..20 {
                let batch = interleaved(well, &[&key], round * 20, 20);
                let outcomes = publisher.publish(&batch, DEADLINE).await;
                assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            }
        }
    });
    futures::future::join(meets, futures::future::join_all(beside)).await;
    for call in 0..4 {
        let found = numbers(&kafka, &well, &format!("key-{call}")).await;
        assert_eq!(found, (0..400).collect::<Vec<_>>());
    }
}

/// librdkafka's own cluster, because its partitions lose and get leaders when they are told to. It does not survive
/// a message to a partition that has lost its leader, so that tests make their publisher after that.
fn cluster(
    brokers: i32,
    topic: &Topic,
    leaders: &[i32],
) -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(brokers).expect("a cluster");
    let partitions = i32::try_from(leaders.len()).expect("a few");
    cluster
        .create_topic(topic.as_str(), partitions, 1)
        .expect("a topic");
    for (partition, leader) in (0..).zip(leaders) {
        let led = cluster.partition_leader(topic.as_str(), partition, Some(*leader));
        led.expect("a broker of it");
    }
    cluster
}

async fn publish_all(publisher: &KafkaPublisher, batch: &[Message]) {
    let outcomes = publisher.publish(batch, DEADLINE).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// Publishes until all of the batch is taken.
async fn until_taken(publisher: &KafkaPublisher, batch: &[Message], patience: Duration) {
    eventually_within(patience, "the part takes messages again", async || {
        let outcomes = publisher.publish(batch, DEADLINE).await;
        if outcomes.iter().all(Result::is_ok) {
            Ok(())
        } else {
            Err(outcomes)
        }
    })
    .await;
}

async fn partitions_of_keys(kafka: &Kafka, topic: &Topic) -> BTreeMap<String, BTreeSet<i32>> {
    let mut partitions: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for record in kafka.records(topic.as_str()).await {
        let key = String::from_utf8(record.key.unwrap_or_default()).expect("UTF-8");
        partitions.entry(key).or_default().insert(record.partition);
    }
    partitions
}

/// We do not know where such a partitioner puts a key, so nobody but librdkafka may choose.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_partitioner_of_ones_own_a_key_stays_in_its_partition() {
    let topic = Topic::from("orders");
    let cluster = cluster(1, &topic, &[1, 1]);
    let mut config = KafkaConfig::new(cluster.bootstrap_servers());
    let consistent = ("partitioner".into(), "consistent".into());
    config.properties.extend([consistent]);
    let names: Vec<String> = (0..10).map(|key| format!("key-{key}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let before = KafkaPublisher::new(config.clone()).unwrap();
    publish_all(&before, &interleaved(&topic, &keys, 0, 1)).await;

    cluster.partition_leader("orders", 1, None).unwrap();
    let publisher = KafkaPublisher::new(config).unwrap();
    let batch = interleaved(&topic, &keys, 1, 1);
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert!(outcomes.iter().any(waits), "{outcomes:?}");
    // A partition cannot be told from its topic, which stays closed although another partition would take the trial.
    eventually("it is tried again and again", async || {
        let outcomes = publisher.publish(&batch, DEADLINE).await;
        assert!(outcomes.iter().all(waits), "{outcomes:?}");
        let long = |outcome: &Result<(), PublishError>| {
            matches!(outcome, Err(PublishError::PartUnavailable { retry_after, .. })
                if *retry_after > Duration::from_secs(3))
        };
        if outcomes.iter().any(long) {
            Ok(())
        } else {
            Err(outcomes)
        }
    })
    .await;

    cluster.partition_leader("orders", 1, Some(1)).unwrap();
    until_taken(&publisher, &batch, Duration::from_secs(60)).await;
    let kafka = Kafka::at(cluster.bootstrap_servers());
    let found = partitions_of_keys(&kafka, &topic).await;
    assert_eq!(found.len(), keys.len());
    for (key, partitions) in found {
        assert_eq!(partitions.len(), 1, "{key}: {partitions:?}");
    }
}

/// A try takes several requests. A broker that answers all of them, each in its time, is not to be taken for one that
/// is silent.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_slow_broker_is_opened_again() {
    let topic = Topic::from("orders");
    let cluster = cluster(1, &topic, &[1]);
    cluster.partition_leader("orders", 0, None).unwrap();
    let publisher = KafkaPublisher::new(KafkaConfig::new(cluster.bootstrap_servers())).unwrap();
    let batch = interleaved(&topic, &["a"], 0, 1);
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert!(outcomes.iter().all(waits), "{outcomes:?}");

    let slow = Duration::from_millis(1200);
    cluster.broker_round_trip_time(1, slow).unwrap();
    cluster.partition_leader("orders", 0, Some(1)).unwrap();
    until_taken(&publisher, &batch, Duration::from_secs(90)).await;
}

/// What has no key goes to the partitions that are left, and finds out when there are more of them.
#[tokio::test(flavor = "multi_thread")]
async fn messages_without_a_key_open_a_partition_again() {
    const SILENT: i32 = 2;
    let topic = Topic::from("orders");
    let cluster = cluster(2, &topic, &[1, SILENT]);
    let publisher = KafkaPublisher::new(KafkaConfig::new(cluster.bootstrap_servers())).unwrap();
    let keyed = interleaved(&topic, &["a", "b", "c", "d"], 0, 1);
    publish_all(&publisher, &keyed).await;
    let hour = Duration::from_secs(3600);
    cluster.broker_round_trip_time(SILENT, hour).unwrap();
    let outcomes = publisher.publish(&keyed, DEADLINE).await;
    assert!(outcomes.iter().any(waits), "{outcomes:?}");

    let unkeyed = |from| {
        let mut batch = interleaved(&topic, &["unkeyed"], from, 4);
        batch.iter_mut().for_each(|message| message.key = None);
        batch
    };
    // Nothing else takes a second: the partition was tried, in vain, and everything was published nevertheless.
    eventually("the silent partition is tried", async || {
        let start = Instant::now();
        publish_all(&publisher, &unkeyed(0)).await;
        let took = start.elapsed();
        if took > Duration::from_secs(1) {
            Ok(())
        } else {
            Err(took)
        }
    })
    .await;

    cluster
        .broker_round_trip_time(SILENT, Duration::ZERO)
        .unwrap();
    let kafka = Kafka::at(cluster.bootstrap_servers());
    let patience = Duration::from_secs(60);
    eventually_within(patience, "it takes messages again", async || {
        publish_all(&publisher, &unkeyed(4)).await;
        let records = kafka.records(topic.as_str()).await;
        let in_it = records.into_iter().filter(|record| record.partition == 1);
        let found: Vec<usize> = first_occurrences(&in_it.map(seen).collect::<Vec<_>>())
            .remove("")
            .unwrap_or_default();
        // The first four may be there since the try that had no answer.
        if found.iter().any(|number| *number >= 4) {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
}
