//! PackFinderz on the real Pub/Sub server.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use postrider::Dependency;
use postrider::brokers::pubsub::{PubSubConfig, PubSubPublisher};
use postrider_testkit::eventually;
use postrider_testkit::pubsub::{PubSub, PubSubTopic};
use postrider_testkit::services::{Kind, PrivateServer};
use sqlx::Row as _;

use crate::packfinderz::{TOPIC, license_event};
use crate::world::{World, template};

fn publisher(server: &PubSub) -> PubSubPublisher {
    let endpoint = Some(server.endpoint());
    PubSubPublisher::new(PubSubConfig {
        endpoint,
        ..PubSubConfig::new(server.project())
    })
    .unwrap()
}

/// The preset's table and a topic of its own, which all its events go to.
async fn world_on(server: &PubSub) -> (World, PubSubTopic) {
    let topic = server.fresh_topic().await;
    let world = World::with("packfinderz", |layout| {
        assert_eq!(layout.topic, template(TOPIC));
        layout.topic = template(topic.id());
    })
    .await;
    (world, topic)
}

/// A0-03: the topic gets one message whose body is the column's text and which has the five attributes;
/// then the row is published.
#[tokio::test]
async fn a_row_becomes_one_message_with_the_columns_text_and_five_attributes() {
    let server = PubSub::shared();
    let (world, topic) = world_on(&server).await;
    world.emit([license_event()]).await;
    let relay = world.relay(publisher(&server)).start();
    world.until_drained().await;
    relay.stop().await;

    let rows = world
        .rows(
            "SELECT payload_json::text, id::text, event_type::text, aggregate_type::text, \
             aggregate_id::text, published_at IS NOT NULL FROM outbox_events",
        )
        .await;
    let messages = topic.wait_for(1, Duration::from_secs(10)).await;
    let [message] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert_eq!(message.data, rows[0].get::<&str, _>(0).as_bytes());
    assert!(rows[0].get::<bool, _>(5));
    let mut attributes = message.attributes.clone();
    let created_at = attributes
        .remove("created_at")
        .expect("an attribute created_at");
    let same = format!("SELECT created_at = '{created_at}'::timestamptz FROM outbox_events");
    assert!(
        created_at.ends_with('Z') && world.flag(&same).await,
        "{created_at}"
    );
    let expected: BTreeMap<String, String> =
        ["event_id", "event_type", "aggregate_type", "aggregate_id"]
            .into_iter()
            .zip(1..)
            .map(|(name, column)| (name.to_owned(), rows[0].get(column)))
            .collect();
    assert_eq!(attributes, expected);
    // PackFinderz asks for no order, and pays for none.
    assert_eq!(message.ordering_key, "");
}

/// A0-04: two relays and 10,000 rows on the real server: every event exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn two_relays_bring_ten_thousand_rows_to_pubsub_exactly_once() {
    let server = PubSub::shared();
    let (world, topic) = world_on(&server).await;
    world.insert_licenses(10_000).await;
    let start = || {
        world
            .relay(publisher(&server))
            .config(|config| config.batch = 500)
            .start()
    };
    let relays = [start(), start()];
    world.until_drained().await;
    for relay in relays {
        relay.stop().await;
    }
    let mut times: HashMap<String, usize> = HashMap::new();
    for message in topic.wait_for(10_000, Duration::from_secs(30)).await {
        *times
            .entry(message.attributes["event_id"].clone())
            .or_default() += 1;
    }
    assert_eq!(times.len(), 10_000);
    assert!(times.values().all(|times| *times == 1));
    for id in world.column("SELECT id::text FROM outbox_events").await {
        assert!(times.contains_key(&id.unwrap()));
    }
}

/// With order per key, the aggregate's id is the ordering key and its events arrive in order.
#[tokio::test]
async fn with_order_per_key_an_aggregates_events_share_an_ordering_key_and_its_order() {
    let server = PubSub::shared();
    let (mut world, topic) = world_on(&server).await;
    world.layout.ordering = postrider::core::Ordering::Key;
    let licenses: Vec<String> = (0..5).map(|_| uuid::Uuid::now_v7().to_string()).collect();
    let events = (0..50).map(|n| license_event().aggregate("license", &licenses[n % 5]));
    let events: Vec<_> = events.collect();
    world.emit(events.clone()).await;
    let relay = world
        .relay(publisher(&server))
        .config(|config| config.batch = 7)
        .start();
    world.until_drained().await;
    relay.stop().await;

    let messages = topic.wait_for(50, Duration::from_secs(10)).await;
    assert_eq!(messages.len(), 50);
    for license in licenses {
        let of_license = |id: &str| *id == license;
        let arrived: Vec<&str> = messages
            .iter()
            .filter(|message| of_license(&message.ordering_key))
            .map(|message| message.attributes["event_id"].as_str())
            .collect();
        let emitted: Vec<&str> = events
            .iter()
            .filter(|event| of_license(event.aggregate_id.as_deref().unwrap()))
            .map(|event| event.id.as_str())
            .collect();
        assert_eq!(arrived, emitted);
    }
}

/// A1-06: readiness fails while Pub/Sub is away, and passes when it is back.
#[tokio::test]
async fn readiness_follows_the_pubsub_server() {
    let mut server = PrivateServer::start(Kind::PubSub).await;
    let world = World::new("packfinderz").await;
    let relay = world
        .relay(publisher(&PubSub::at(server.address())))
        .start();
    relay.until_ready().await;
    server.kill();
    eventually("readiness fails", async || {
        match relay.health.report().broker {
            Dependency::NotReady { reason } => Ok(reason),
            Dependency::Ready => Err("ready"),
        }
    })
    .await;
    server.restart().await;
    relay.until_ready().await;
    relay.stop().await;
}
