//! What every consumer keeps to, in whatever language it is written: the order of a key, one effect for an event that
//! comes twice, a dead letter of one shape for what can never be handled.

use std::collections::BTreeMap;
use std::time::Duration;

use example_polyshop::events::ORDER_PLACED;
use example_polyshop::{INVENTORY_SERVICE, NOTIFICATION_SERVICE, PAYMENT_SERVICE};
use postrider_testkit::kafka::KafkaRecord;
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::languages::{inventory_in_java, notification_in_python, payment_in_node};
use crate::mailbox::{mails, start_mailbox};
use crate::process::Process;
use crate::shop::{Shop, dead_orders};

/// Events of one key, all of which are sent twice.
const EVENTS: usize = 10;

/// Where a service enters an order that it has handled.
const PAID: &str = "payments WHERE status = 'SUCCESS'";
const RESERVED: &str = "movements WHERE status = 'RESERVED'";
const NOTIFIED: &str = "notifications WHERE status = 'SENT'";

async fn shop() -> Shop {
    let shop = Shop::open().await;
    shop.stock("book", 1000).await;
    shop
}

/// A3-09, A3-12
#[tokio::test]
async fn a_consumer_in_rust_conforms() {
    let shop = shop().await;
    let process = shop.start(PAYMENT_SERVICE);
    conforms(shop, process, PAYMENT_SERVICE, PAID).await;
}

/// A3-09, A3-12
#[tokio::test]
async fn a_consumer_in_java_conforms() {
    let shop = shop().await;
    let process = inventory_in_java(&shop).await;
    conforms(shop, process, INVENTORY_SERVICE, RESERVED).await;
}

/// A3-09, A3-12
#[tokio::test]
async fn a_consumer_in_node_conforms() {
    let mut shop = shop().await;
    let process = payment_in_node(&mut shop).await;
    conforms(shop, process, PAYMENT_SERVICE, PAID).await;
}

/// A3-09, A3-12
#[tokio::test]
async fn a_consumer_in_python_conforms() {
    let mut shop = shop().await;
    let mailbox = start_mailbox(&mut shop).await;
    let process = notification_in_python(&mut shop).await;
    conforms(shop, process, NOTIFICATION_SERVICE, NOTIFIED).await;
    let mails = mails(&mailbox.address().await).await;
    assert_eq!(mails.len(), EVENTS + 1, "one mail for each order");
    mailbox.stop().await;
}

/// Orders that are sound, and messages that never will be.
async fn conforms(shop: Shop, process: Process, service: &str, effects: &str) {
    let sound: Vec<Value> = (0..EVENTS).map(|_| placed()).collect();
    let broken = broken();
    let producer = producer(&shop);
    let topic = shop.topic(ORDER_PLACED);
    let send = async |key: &str, value: &str| {
        let record = FutureRecord::to(&topic).key(key).payload(value);
        let sent = producer.send(record, Duration::from_secs(10)).await;
        sent.unwrap();
    };
    for event in &sound {
        send("one key", &event.to_string()).await;
    }
    for (what, message) in &broken {
        send(what, message).await;
    }
    for event in &sound {
        send("one key", &event.to_string()).await;
    }
    let last = placed();
    send("another key", &last.to_string()).await;
    shop.until_consumed(service, ORDER_PLACED).await;
    let letters = shop.records(&dead_orders()).await;
    process.stop().await;

    let schema = shop.schema(service);
    let orders = format!("SELECT DISTINCT order_id FROM {effects}");
    assert_eq!(schema.texts(&orders).await.len(), EVENTS + 1);
    let effects = schema.count(effects).await;
    assert_eq!(effects, (EVENTS + 1) as i64, "an event has one effect");
    let handled = "SELECT event_id FROM processed_events ORDER BY processed_at";
    let mut handled = schema.texts(handled).await;
    handled.retain(|id| *id != last["eventId"]);
    let sent: Vec<&str> = sound.iter().map(|it| text(&it["eventId"])).collect();
    assert_eq!(handled, sent, "in the order of the key");
    assert_letters(&letters, &broken, service, &topic);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn placed() -> Value {
    let order = Uuid::now_v7();
    json!({
        "eventId": Uuid::now_v7(), "timestamp": "2026-11-18T09:30:00Z", "eventType": ORDER_PLACED, "version": 1,
        "source": "order-service", "metadata": { "correlationId": order },
        "data": {
            "orderId": order, "userId": "u-1", "totalAmount": 750,
            "items": [{ "productId": "book", "quantity": 1, "price": 750 }],
        },
    })
}

/// What will never be handled, by what is wrong with it.
fn broken() -> BTreeMap<&'static str, String> {
    let change = |change: fn(&mut Value)| {
        let mut event = placed();
        change(&mut event);
        event.to_string()
    };
    BTreeMap::from([
        ("no JSON", "{ this is no JSON".into()),
        ("no object", "[1, 2]".into()),
        ("no event id", change(|it| it["eventId"] = Value::Null)),
        ("no UUID", change(|it| it["eventId"] = "e-1".into())),
        ("no data", change(|it| it["data"] = Value::Null)),
        ("no order", change(|it| it["data"]["orderId"] = Value::Null)),
        (
            "no UUID of an order",
            change(|it| it["data"]["orderId"] = "o-1".into()),
        ),
        (
            "no amount",
            change(|it| it["data"]["totalAmount"] = "much".into()),
        ),
    ])
}

fn producer(shop: &Shop) -> FutureProducer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", shop.kafka.bootstrap());
    config.set("enable.idempotence", "true").create().unwrap()
}

/// One letter for each, under its key, with the same fields in the same places.
fn assert_letters(
    letters: &[KafkaRecord],
    broken: &BTreeMap<&'static str, String>,
    service: &str,
    topic: &str,
) {
    let keys = letters.iter().map(|letter| letter.key.clone().unwrap());
    let mut keys: Vec<String> = keys.map(|key| String::from_utf8(key).unwrap()).collect();
    keys.sort();
    assert_eq!(keys, broken.keys().copied().collect::<Vec<_>>());
    for letter in letters {
        let key = String::from_utf8(letter.key.clone().unwrap()).unwrap();
        let (original, value) = (&broken[&*key], letter.value.clone().unwrap());
        let header = |name: &str| {
            let found = letter.headers.iter().rev().find(|(known, _)| known == name);
            let value = found.and_then(|(_, value)| value.clone());
            value.map(|value| String::from_utf8(value).unwrap())
        };
        assert_eq!(header("dlt_consumer_service").as_deref(), Some(service));
        assert_eq!(header("dlt_original_topic").as_deref(), Some(topic));
        assert!(header("dlt_error_message").is_some_and(|it| !it.is_empty()));
        assert!(header("dlt_failed_at").is_some_and(|it| is_time(&it)));
        let Ok(original) = serde_json::from_str::<Value>(original) else {
            assert_eq!(value, original.as_bytes(), "its own bytes");
            continue;
        };
        let value: Value = serde_json::from_slice(&value).unwrap();
        let expected = json!({
            "eventId": original["eventId"].as_str(),
            "originalEvent": original,
            "errorMessage": value["errorMessage"],
            "failedAt": value["failedAt"],
            "consumerService": service,
        });
        assert_eq!(value, expected);
        assert!(is_time(text(&value["failedAt"])), "{value}");
        assert!(!text(&value["errorMessage"]).is_empty(), "{value}");
    }
}

/// RFC 3339, in UTC.
fn is_time(text: &str) -> bool {
    let date = text.split_once('T').map(|(date, _)| date.len());
    date == Some(10) && text.ends_with('Z')
}
