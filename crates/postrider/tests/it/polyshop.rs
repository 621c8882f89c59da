//! PolyShop: `outbox_events` with a processed flag, the envelope built at publish, order per entity, Kafka.

use std::collections::HashMap;
use std::time::Duration;

use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{Event, Message, RecordState, Topic};
use postrider_testkit::history::{Seen, Verdict};
use postrider_testkit::kafka::{Kafka, KafkaRecord};
use serde_json::{Value, json};
use sqlx::Row as _;
use uuid::Uuid;

use crate::world::{World, seen_sample, until_accepted, until_held};

pub(crate) const PLACED: &str = "order.order.placed.v1";

fn order_placed(event_type: &str, order: &str) -> Event {
    let data = json!({ "orderId": order, "userId": "u-1", "items": [{ "sku": "a" }], "totalAmount": 15.0 });
    Event::json(event_type, &data).unwrap().aggregate_id(order)
}

/// Event number `number` of an entity.
pub(crate) fn numbered(key: &str, number: i64) -> Event {
    let data = json!({ "key": key, "number": number });
    Event::json(PLACED, &data).unwrap().aggregate_id(key)
}

fn has_key(message: &Message, key: &str) -> bool {
    message
        .key
        .as_ref()
        .is_some_and(|found| found.as_bytes() == key.as_bytes())
}

/// A3-01: orders, items and one outbox row, or none of them.
#[tokio::test]
async fn an_order_its_items_and_its_event_are_one_transaction() {
    let world = World::new("polyshop").await;
    world
        .execute(
            "CREATE TABLE orders (id uuid); CREATE TABLE order_items (order_id uuid, sku text)",
        )
        .await;
    let order = Uuid::now_v7();
    for commits in [false, true] {
        let mut tx = world.pool().begin().await.unwrap();
        for sql in [
            "INSERT INTO orders VALUES ($1)",
            "INSERT INTO order_items VALUES ($1, 'a')",
        ] {
            sqlx::query(sql)
                .bind(order)
                .execute(&mut *tx)
                .await
                .unwrap();
        }
        let event = order_placed(PLACED, &order.to_string());
        world.outbox().emit(&mut tx, event).await.unwrap();
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        for table in ["orders", "order_items", "outbox_events"] {
            let count = world.number(&format!("SELECT count(*) FROM {table}")).await;
            assert_eq!(count, i64::from(commits), "{table}");
        }
    }
    let row = world
        .rows("SELECT event_type, aggregate_id::text, version, processed, payload::text FROM outbox_events")
        .await;
    assert_eq!(row[0].get::<&str, _>(0), PLACED);
    assert_eq!(row[0].get::<&str, _>(1), order.to_string());
    assert_eq!(row[0].get::<i32, _>(2), 1);
    assert!(!row[0].get::<bool, _>(3));
    let payload: Value = serde_json::from_str(row[0].get(4)).unwrap();
    // The table holds the data alone, without an envelope.
    assert_eq!(payload["orderId"], order.to_string());
    assert_eq!(payload.get("eventId"), None);
}

/// Publishes what the world holds to the real Kafka.
async fn publish_to_kafka(world: &World, kafka: &Kafka) {
    let publisher = KafkaPublisher::new(KafkaConfig::new(kafka.bootstrap())).unwrap();
    let relay = world.relay(publisher).source("order-service").start();
    world.until_drained().await;
    relay.stop().await;
}

fn envelope(record: &KafkaRecord) -> Value {
    serde_json::from_slice(record.value.as_deref().unwrap()).unwrap()
}

async fn topic_for(kafka: &Kafka) -> String {
    let topic = format!("{PLACED}.{}", Uuid::now_v7().simple());
    kafka.create_topic(&topic, 3, &[]).await;
    topic
}

/// A3-02: the event's type is its Kafka topic, the order its key, the envelope its value.
#[tokio::test]
async fn the_topic_named_by_the_type_holds_one_record_with_key_and_envelope() {
    let kafka = Kafka::shared();
    let topic = topic_for(&kafka).await;
    let world = World::new("polyshop").await;
    let event = order_placed(&topic, &Uuid::now_v7().to_string());
    world.emit([event.clone()]).await;
    publish_to_kafka(&world, &kafka).await;

    let records = kafka.records(&topic).await;
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    assert_eq!(
        record.key.as_deref(),
        event.aggregate_id.as_deref().map(str::as_bytes)
    );
    let envelope = envelope(record);
    let timestamp = envelope["timestamp"].as_str().unwrap();
    assert!(timestamp.ends_with('Z'), "{timestamp}");
    let same = format!("SELECT created_at = '{timestamp}'::timestamptz FROM outbox_events");
    assert!(world.flag(&same).await, "{timestamp} is not created_at");
    let expected = json!({
        "eventId": event.id,
        "timestamp": timestamp,
        "eventType": topic,
        "version": 1,
        "source": "order-service",
        "data": serde_json::from_slice::<Value>(&event.payload).unwrap(),
        "metadata": {},
    });
    assert_eq!(envelope, expected);
}

/// A3-03: what was known at emit arrives unchanged, and nothing is made up.
#[tokio::test]
async fn metadata_arrives_as_it_was_emitted_and_absent_metadata_stays_absent() {
    let kafka = Kafka::shared();
    let topic = topic_for(&kafka).await;
    let world = World::new("polyshop").await;
    let bare = order_placed(&topic, "bare");
    let traced = order_placed(&topic, "traced")
        .metadata("traceId", "4bf92f3577b34da6a3ce929d0e0e4736")
        .metadata("correlationId", "c-1")
        .metadata("idempotencyKey", "i-1")
        .metadata("userId", "u-1");
    world.emit([bare, traced]).await;
    publish_to_kafka(&world, &kafka).await;

    let records = kafka.records(&topic).await;
    let metadata: HashMap<String, Value> = records
        .iter()
        .map(|record| {
            let key = String::from_utf8(record.key.clone().unwrap()).unwrap();
            (key, envelope(record)["metadata"].clone())
        })
        .collect();
    assert_eq!(metadata["bare"], json!({}));
    assert_eq!(
        metadata["traced"],
        json!({
            "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
            "correlationId": "c-1",
            "idempotencyKey": "i-1",
            "userId": "u-1",
        })
    );
}

/// A3-04: processed only once the send was acknowledged; an earlier error is cleared by success.
#[tokio::test]
async fn a_row_is_processed_after_the_acknowledgement_and_its_old_error_is_cleared() {
    let world = World::new("polyshop").await;
    world.emit([numbered("a", 1)]).await;
    let broker = MemoryBroker::default();
    broker.fail_next(1, Fault::Transient, |_| true);
    let row = "SELECT processed || ' ' || (processed_at IS NULL)::text || ' ' \
               || (error_message IS NULL)::text FROM outbox_events";
    let relay = world
        .relay(broker.clone())
        .config(|config| config.retry.backoff.base = Duration::from_millis(300))
        .config(|config| config.retry.backoff.cap = Duration::from_millis(300))
        .start();
    world
        .until_count(
            "the failure is written",
            1,
            "SELECT count(*) FROM outbox_events WHERE error_message IS NOT NULL",
        )
        .await;
    assert_eq!(world.text(row).await, "false true false");
    broker.block();
    until_held(&broker, 1).await;
    assert_eq!(world.text(row).await, "false true false");
    broker.release();
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(world.text(row).await, "true false true");
    // Its troubles are over, too.
    assert_eq!(
        world
            .number("SELECT count(*) FROM postrider_troubles")
            .await,
        0
    );
}

/// A3-05: through an outage rows stay unprocessed and no attempt is counted; after it all are sent, in
/// order.
#[tokio::test]
async fn an_outage_leaves_rows_unprocessed_and_uncounted_until_the_broker_is_back() {
    for preset in ["polyshop", "native"] {
        an_outage_is_survived_on(&World::new(preset).await).await;
    }
}

async fn an_outage_is_survived_on(world: &World) {
    let broker = MemoryBroker::default();
    broker.stop();
    let committed: Vec<Seen> = (0..60)
        .map(|n| Seen {
            key: format!("order-{}", n % 6),
            number: n / 6,
        })
        .collect();
    world
        .emit(
            committed
                .iter()
                .map(|seen| world.numbered_sample(&seen.key, seen.number)),
        )
        .await;
    let relay = world.relay(broker.clone()).start();
    relay.until_metric("postrider_breaker_open", 1.0).await;
    assert!(!relay.health.report().is_ready());
    assert_eq!(world.in_state(RecordState::Pending).await.len(), 60);
    broker.start();
    world.until_drained().await;
    relay.until_ready().await;
    relay.until_metric("postrider_breaker_open", 0.0).await;
    assert_eq!(relay.metric("postrider_failed_total"), 0.0);
    relay.stop().await;

    let log: Vec<Seen> = broker
        .messages(&Topic::from(world.sample_topic()))
        .iter()
        .map(seen_sample)
        .collect();
    let verdict = Verdict::of(&committed, &log);
    verdict.assert_clean();
    assert_eq!(verdict.duplicates, 0);
}

/// A3-08: permanently failing events stop their own entities and nobody else, even when there are more of
/// them than a batch holds, and a dead row can be told from a sent one.
#[tokio::test]
async fn more_dead_rows_than_a_batch_stop_their_own_entities_only() {
    for preset in ["polyshop", "native"] {
        the_dead_stop_their_own_entities_only_on(&World::new(preset).await).await;
    }
}

async fn the_dead_stop_their_own_entities_only_on(world: &World) {
    let events = |name: &str, count: i64, number: i64| -> Vec<Event> {
        (0..count)
            .map(|n| world.numbered_sample(&format!("{name}-{n}"), number))
            .collect()
    };
    let (poison, behind) = (events("poison", 35, 1), events("poison", 35, 2));
    let good = events("good", 20, 1);
    world
        .emit(poison.into_iter().chain(behind).chain(good))
        .await;
    let broker = MemoryBroker::default();
    let is_poison = |message: &Message| {
        message
            .key
            .as_ref()
            .is_some_and(|key| key.as_bytes().starts_with(b"poison"))
            && seen_sample(message).number == 1
    };
    broker.fail_next(u32::MAX, Fault::Permanent, is_poison);
    let relay = world
        .relay(broker.clone())
        .config(|config| config.batch = 10)
        .start();
    until_accepted(&broker, world.sample_topic(), 20).await;
    let dead = world.until_dead(35).await;
    // The relay goes on with what comes later.
    world.emit(events("later", 1, 1)).await;
    until_accepted(&broker, world.sample_topic(), 21).await;
    relay.stop().await;

    assert_eq!(world.in_state(RecordState::Published).await.len(), 21);
    assert_eq!(world.pending().await, 35, "parked behind the dead");
    assert!(
        dead.iter()
            .all(|row| row.key.as_deref().unwrap().starts_with("poison-"))
    );
    let messages = broker.messages(&Topic::from(world.sample_topic()));
    assert!(messages.iter().all(|message| !has_key(message, "poison-0")));
}
