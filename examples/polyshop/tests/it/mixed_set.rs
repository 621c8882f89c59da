//! The order service in Java, payment in Node.js, notification in Python, analytics in Rust, and a relay for each of
//! the outboxes.

use std::path::{Path, PathBuf};
use std::process::Command;

use example_polyshop::events::{ORDER_PLACED, PAYMENT_SUCCEEDED};
use example_polyshop::{ANALYTICS_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE};
use serde_json::{Value, json};

use crate::process::{Process, stop_all};
use crate::shop::{Placed, Shop, dead_orders, order};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The programs in other languages, prepared by `setup`.
struct Languages {
    source: PathBuf,
    prepared: PathBuf,
}

impl Languages {
    fn set_up() -> Self {
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let done = Command::new(source.join("setup")).status().unwrap();
        assert!(done.success(), "setup: {done}");
        let prepared = source.join("../../target/polyshop");
        Self { source, prepared }
    }

    fn java_orders(&self, shop: &Shop) -> Process {
        let java = self.prepared.join("java");
        let classes = format!("{0}/classes:{0}/libs/*", java.display());
        let arguments = ["-XX:TieredStopAtLevel=1", "-cp", &classes, "OrderService"];
        shop.run("order-service in Java", ORDER_SERVICE, "java", &arguments)
    }

    fn node_payments(&self, shop: &mut Shop) -> Process {
        shop.set("NODE_PATH", &text(&self.prepared.join("node/node_modules")));
        let script = text(&self.source.join("node/payment-service.js"));
        shop.run(
            "payment-service in Node.js",
            PAYMENT_SERVICE,
            "node",
            &[&script],
        )
    }

    fn python_notifications(&self, shop: &Shop) -> Process {
        let python = text(&self.prepared.join("python/venv/bin/python"));
        let script = text(&self.source.join("python/notification_service.py"));
        let name = "notification-service in Python";
        shop.run(name, NOTIFICATION_SERVICE, &python, &[&script])
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A row by hand, as any language would write it: no more than the columns that have no default.
async fn insert_order_event(shop: &Shop) -> Value {
    let order = "0197f0a0-0000-7000-8000-000000000001";
    let data = json!({ "orderId": order, "userId": "u-2", "items": [], "totalAmount": 5 });
    let insert = "INSERT INTO outbox_events (aggregate_id, event_type, payload)";
    let values = format!("VALUES ('{order}', '{ORDER_PLACED}', '{data}')");
    shop.orders().execute(&format!("{insert} {values}")).await;
    data
}

/// A3-15: rows that other languages insert are published the same way, ordinary Kafka clients with `processed_events`
/// take part, and a consumer-only service runs with no outbox table.
#[tokio::test]
async fn services_in_four_languages_share_nothing_but_tables_and_topics() {
    let languages = tokio::task::spawn_blocking(Languages::set_up)
        .await
        .unwrap();
    let mut shop = Shop::open().await;
    let orders = languages.java_orders(&shop);
    let mut processes = vec![
        languages.node_payments(&mut shop),
        languages.python_notifications(&shop),
        shop.start(ANALYTICS_SERVICE),
        shop.start_relay(ORDER_SERVICE),
        shop.start_relay(PAYMENT_SERVICE),
    ];
    let placed = order(
        &orders,
        750,
        &[("traceparent", PARENT), ("x-correlation-id", "c-1")],
    )
    .await;
    let both = ["confirmation", "receipt"];
    assert_eq!(shop.until_notified(&placed, 2).await, both);
    assert_events(&shop, &placed).await;

    let by_hand = insert_order_event(&shop).await;
    let dead = order(&orders, 600_000, &[]).await;
    let events = shop.until_published(ORDER_PLACED, 3).await;
    assert!(
        events.iter().any(|event| event["data"] == by_hand),
        "{events:#?}"
    );
    let [letter] = &shop.until_published(&dead_orders(), 1).await[..] else {
        panic!("one letter")
    };
    assert_eq!(letter["eventId"], dead.event);
    assert_eq!(letter["consumerService"], PAYMENT_SERVICE);

    // Every event comes again, and nothing happens again.
    shop.until_published(PAYMENT_SUCCEEDED, 2).await;
    shop.send_all_again().await;
    shop.until_published(ORDER_PLACED, 6).await;
    shop.until_published(PAYMENT_SUCCEEDED, 4).await;
    shop.until_all_consumed().await;
    processes.push(orders);
    let log = stop_all(processes).await;
    assert_named(&log, &placed.event, TRACE);
    assert_eq!(shop.until_notified(&placed, 2).await, both);
    assert_eq!(shop.notifications().count("notifications").await, 5);
    let paid = "payments WHERE status = 'SUCCESS'";
    assert_eq!(shop.payments().count(paid).await, 2);
    assert_eq!(shop.payments().count("outbox_events").await, 2);
    let sold = "SELECT quantity FROM product_sales WHERE product_id = 'book'";
    assert_eq!(shop.analytics().number(sold).await, 4);
    let outboxes = format!(
        "pg_tables WHERE tablename = 'outbox_events' AND schemaname = '{}'",
        shop.analytics().schema
    );
    assert_eq!(shop.analytics().count(&outboxes).await, 0);
}

/// What Java and Node.js wrote as rows has become what Rust would have published.
async fn assert_events(shop: &Shop, placed: &Placed) {
    let [order_event] = &shop.until_published(ORDER_PLACED, 1).await[..] else {
        panic!("one order")
    };
    let metadata =
        json!({ "correlationId": "c-1", "traceId": TRACE, "traceparent": PARENT, "userId": "u-1" });
    let expected = json!({
        "eventId": placed.event, "timestamp": order_event["timestamp"], "eventType": ORDER_PLACED, "version": 1,
        "source": ORDER_SERVICE, "metadata": metadata,
        "data": {
            "orderId": placed.order, "userId": "u-1", "totalAmount": 1500,
            "items": [{ "productId": "book", "quantity": 2, "price": 750 }],
        },
    });
    assert_eq!(*order_event, expected);
    let [payment_event] = &shop.until_published(PAYMENT_SUCCEEDED, 1).await[..] else {
        panic!("one payment")
    };
    assert_eq!(payment_event["source"], PAYMENT_SERVICE);
    assert_eq!(payment_event["metadata"]["traceId"], TRACE);
    assert_eq!(payment_event["metadata"]["causationId"], placed.event);
}

/// In whatever language a service is written, its lines about an event have the event's id and its trace.
fn assert_named(log: &[Value], event: &str, trace: &str) {
    let services: Vec<&str> = log
        .iter()
        .filter(|line| line["eventId"] == event)
        .inspect(|line| assert_eq!(line["traceId"], trace, "{line}"))
        .filter_map(|line| line["service"].as_str())
        .collect();
    for service in [
        ORDER_SERVICE,
        PAYMENT_SERVICE,
        NOTIFICATION_SERVICE,
        ANALYTICS_SERVICE,
    ] {
        assert!(services.contains(&service), "{service} says nothing");
    }
}
