//! Kafka on both sides: deliveries from it, dead letters to it.

use std::sync::Arc;
use std::time::Duration;

use postrider::Consumer;
use postrider::brokers::kafka::{
    KafkaConfig, KafkaPublisher, KafkaSubscription, KafkaSubscriptionConfig,
};
use postrider::consumer::middleware::DeadLetter;
use postrider::core::{Header, Message, MessageKey, Publisher as _, Topic};
use postrider_testkit::kafka::{Kafka, KafkaRecord};
use serde_json::{Value, json};
use uuid::Uuid;

use super::acting::{Act, Acting};
use super::polyshop::{in_transaction, shop};
use super::settings::{ack, config};
use super::world::Running;

/// An order as PolyShop sends it.
fn placed(topic: &str, id: Uuid, order: i64) -> Message {
    let envelope = json!({
        "eventId": id, "timestamp": "2026-01-02T03:04:05Z", "eventType": "order.placed", "version": 1,
        "source": "order-service", "data": { "order": order }, "metadata": { "correlationId": "c-1" },
    });
    Message {
        topic: Topic::from(topic),
        key: Some(MessageKey::from("order-7")),
        ordered: true,
        // The spaces are there to see that nothing writes the original anew.
        payload: Some(serde_json::to_vec_pretty(&envelope).unwrap().into()),
        headers: vec![
            Header::new("event_id", id.to_string()),
            Header::new("tenant", "acme"),
        ],
    }
}

/// A3-12: a permanent error is in `{topic}.dlt` on Kafka with all its fields, key and headers; the offset moves on, and
/// the event is not in `processed_events`.
#[tokio::test(flavor = "multi_thread")]
async fn a_permanent_error_is_a_dead_letter_on_kafka_and_the_offset_moves_on() {
    let (world, kafka) = (shop().await, Kafka::shared());
    let topic = kafka.fresh_topic(1).await;
    kafka.create_topic(&format!("{topic}.dlt"), 1, &[]).await;
    let publisher = Arc::new(KafkaPublisher::new(KafkaConfig::new(kafka.bootstrap())).unwrap());
    let (bad, good) = (Uuid::now_v7(), Uuid::now_v7());
    let messages = [placed(&topic, bad, 1), placed(&topic, good, 2)];
    for outcome in publisher.publish(&messages, Duration::from_secs(20)).await {
        outcome.unwrap();
    }
    let acting = Acting::new(&world, |order, _| {
        if order == 1 {
            Act::Permanent
        } else {
            Act::Apply
        }
    });
    let consumer = |group: &str| {
        let subscription = KafkaSubscriptionConfig::new(kafka.bootstrap(), group, [topic.as_str()]);
        let subscription = Arc::new(KafkaSubscription::new(subscription).unwrap());
        let dead = DeadLetter::new(publisher.clone()).service("payment-service");
        let chain = Consumer::builder("payments", subscription)
            .config(config())
            .metrics(&world.metrics);
        in_transaction(&world, chain.with(ack()).with(dead)).handle(acting.clone())
    };
    let running = Running::start(consumer(&topic));
    world.until_effects(1).await;
    running.stop().await;
    // The group has nothing left: only what comes now is handled.
    publisher
        .publish(
            &[placed(&topic, Uuid::now_v7(), 3)],
            Duration::from_secs(20),
        )
        .await;
    let running = Running::start(consumer(&topic));
    world.until_effects(2).await;
    running.stop().await;
    assert_eq!((acting.calls(1).len(), acting.calls(2).len()), (1, 1));

    let dead = kafka.records(&format!("{topic}.dlt")).await;
    assert_eq!(dead.len(), 1);
    let failed_at = assert_letter(&dead[0], &messages[0], bad);
    let age = format!("extract(epoch FROM now() - '{failed_at}'::timestamptz)");
    assert!((-5..120).contains(&world.database.number(&age).await));
    let entries = "SELECT event_id FROM processed_events ORDER BY processed_at LIMIT 1";
    assert_eq!(
        world.database.texts(entries).await,
        [Some(good.to_string())]
    );
    assert_eq!(world.database.count("processed_events").await, 2);
}

/// Fails unless the letter has all of the original and of what happened; says when that was.
fn assert_letter(dead: &KafkaRecord, original: &Message, id: Uuid) -> String {
    let body = dead.value.as_deref().unwrap();
    let letter: Value = serde_json::from_slice(body).unwrap();
    let mut fields: Vec<&String> = letter.as_object().unwrap().keys().collect();
    fields.sort_unstable();
    let expected = "consumerService errorMessage eventId failedAt originalEvent";
    assert!(fields.into_iter().eq(expected.split(' ')), "{letter}");
    assert_eq!(letter["eventId"], id.to_string());
    assert_eq!(letter["errorMessage"], "order 1 is impossible");
    assert_eq!(letter["consumerService"], "payment-service");
    let sent = original.payload.as_deref().unwrap();
    let envelope: Value = serde_json::from_slice(sent).unwrap();
    assert_eq!(letter["originalEvent"], envelope);
    let verbatim = body.windows(sent.len()).any(|window| window == sent);
    assert!(verbatim, "the original was written anew");
    assert_eq!(dead.key.as_deref(), Some(&b"order-7"[..]));
    for kept in &original.headers {
        let kept = (kept.name.to_string(), Some(kept.value.to_vec()));
        assert!(dead.headers.contains(&kept), "{:?}", dead.headers);
    }
    let failed_at = letter["failedAt"].as_str().unwrap();
    let iso = failed_at.contains('T') && failed_at.ends_with('Z');
    assert!(iso, "{failed_at}");
    failed_at.to_owned()
}
