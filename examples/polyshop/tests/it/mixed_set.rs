//! The shop as its README starts it: auth, product, inventory and order in Java, payment in Node.js, notification in Python,
//! the gateway, search and analytics in Rust, the shipped relay, and Jaeger.

use example_polyshop::events::{
    EMAIL_SENT, ORDER_CANCELLED, ORDER_COMPLETED, ORDER_PLACED, PAYMENT_SUCCEEDED, STOCK_RESERVED,
    USER_REGISTERED,
};
use example_polyshop::{
    ANALYTICS_SERVICE, INVENTORY_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE,
};
use postrider_testkit::eventually_within;
use serde_json::{Value, json};

use crate::jaeger::until_traced;
use crate::languages::prepared;
use crate::mailbox::mails;
use crate::shop::{PATIENCE, Placed, Shop, dead_orders, free_ports, place};

const CONSUMERS: [&str; 4] = [
    INVENTORY_SERVICE,
    PAYMENT_SERVICE,
    NOTIFICATION_SERVICE,
    ANALYTICS_SERVICE,
];

/// A client of the gateway.
struct Client {
    gateway: String,
}

impl Client {
    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let method = method.parse().unwrap();
        let url = format!("{}{path}", self.gateway);
        let answer = reqwest::Client::new()
            .request(method, url)
            .json(body)
            .send()
            .await;
        let answer = answer.unwrap();
        let (status, body) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Waits until a product is found.
    async fn until_found(&self, words: &str) -> Value {
        let url = format!("{}/search?q={words}", self.gateway);
        eventually_within(PATIENCE, "the product is found", async || {
            let found: Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
            match found["products"].as_array().and_then(|found| found.first()) {
                Some(product) => Ok(product.clone()),
                None => Err(found),
            }
        })
        .await
    }

    async fn order(&self, user: &str, items: &[(&str, i32, i64)]) -> Placed {
        place(&self.gateway, user, items, &[("x-correlation-id", "c-1")]).await
    }
}

/// Notes every status that a payment has had: those within a transaction are seen by nobody else.
async fn note_statuses(shop: &Shop) {
    let sql = "CREATE TABLE statuses (position bigserial, order_id uuid, status text); \
               CREATE FUNCTION note_status() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 INSERT INTO payment_service.statuses (order_id, status) \
                 VALUES (NEW.order_id, NEW.status); RETURN NEW; END $$; \
               CREATE TRIGGER note_status AFTER INSERT OR UPDATE OF status ON payments \
                 FOR EACH ROW EXECUTE FUNCTION note_status();";
    shop.payments().execute(sql).await;
}

/// A3-13, A3-14, A3-15: an order is one trace over four languages and the relay; a payment goes from INITIATED to SUCCESS with
/// one event; one confirmation and one receipt are sent, by mail; events that come twice change nothing; Ctrl-C stops it all.
#[tokio::test]
async fn services_in_four_languages_share_nothing_but_tables_and_topics() {
    prepared().await;
    let mut shop = Shop::closed().await;
    let port = free_ports();
    for (name, offset) in [
        ("JAEGER_QUERY_PORT", 12),
        ("JAEGER_QUERY_GRPC_PORT", 13),
        ("JAEGER_OTLP_GRPC_PORT", 14),
        ("JAEGER_OTLP_HTTP_PORT", 15),
        ("JAEGER_HEALTH_PORT", 16),
    ] {
        shop.set(name, &(port + offset).to_string());
    }
    let mut running = shop.run_all(&["mixed", "--jaeger"], port);
    running.said("the shop is open").await;
    note_statuses(&shop).await;
    let client = Client {
        gateway: format!("http://127.0.0.1:{port}"),
    };

    let user = json!({ "email": "ada@example.com", "name": "Ada" });
    let user = client.send("POST", "/users", &user).await;
    let user = user["userId"].as_str().unwrap();
    let product = json!({ "name": "A book", "description": "about nothing at all", "price": 750 });
    let product = client.send("POST", "/products", &product).await;
    let book = product["productId"].as_str().unwrap();
    assert_eq!(client.until_found("nothing").await["productId"], book);
    client
        .send("PUT", &format!("/stock/{book}"), &json!({ "quantity": 3 }))
        .await;

    shop.until_published(USER_REGISTERED, 1).await;
    shop.until_consumed(NOTIFICATION_SERVICE, USER_REGISTERED)
        .await;

    let placed = client.order(user, &[(book, 2, 750)]).await;
    shop.until_ended(&placed, "COMPLETED").await;
    let both = ["confirmation", "receipt"];
    assert_eq!(shop.until_notified(&placed, 2).await, both);
    let trace = assert_events(&shop, &placed, user, book).await;
    let statuses = format!(
        "SELECT string_agg(status, ' ' ORDER BY position) FROM statuses WHERE order_id = '{}'",
        placed.order
    );
    let statuses = shop.payments().texts(&statuses).await;
    assert_eq!(statuses, ["INITIATED SUCCESS"]);
    let services = ["gateway", "relay", ORDER_SERVICE].iter().chain(&CONSUMERS);
    let services: Vec<&str> = services.copied().collect();
    let spans = until_traced(port + 12, &trace, &services).await;
    for span in [
        "gateway: POST /orders",
        "order-service: POST /orders",
        "relay: publish",
    ] {
        assert!(spans.iter().any(|found| found == span), "{span}: {spans:?}");
    }

    // One that cannot be served, one that cannot be paid, and then every event once more.
    let cancelled = client.order(user, &[(book, 2, 750)]).await;
    shop.until_ended(&cancelled, "CANCELLED").await;
    let dead = client.order(user, &[(book, 1, 2_000_000)]).await;
    let [letter] = &shop.until_published(&dead_orders(), 1).await[..] else {
        panic!("one letter")
    };
    assert_eq!(letter["eventId"], dead.event);
    assert_eq!(letter["consumerService"], PAYMENT_SERVICE);
    assert_nothing_twice(&shop, &placed, &cancelled).await;
    assert_watched(port).await;
    assert_mailed(&shop, &placed, port + 10).await;

    let said = running.interrupt().await;
    assert_named(&said, &placed, &trace);
}

/// What the Java and Node.js services wrote as rows has become what Rust would have published. Gives the trace.
async fn assert_events(shop: &Shop, placed: &Placed, user: &str, book: &str) -> String {
    let [order_event] = &shop.until_published(ORDER_PLACED, 1).await[..] else {
        panic!("one order")
    };
    let metadata = &order_event["metadata"];
    let trace = metadata["traceId"].as_str().unwrap().to_owned();
    let expected = json!({
        "eventId": placed.event, "timestamp": order_event["timestamp"], "eventType": ORDER_PLACED, "version": 1,
        "source": ORDER_SERVICE,
        "metadata": {
            "correlationId": "c-1", "traceId": trace, "traceparent": metadata["traceparent"], "userId": user,
        },
        "data": {
            "orderId": placed.order, "userId": user, "totalAmount": 1500,
            "items": [{ "productId": book, "quantity": 2, "price": 750 }],
        },
    });
    assert_eq!(*order_event, expected);
    let [payment_event] = &shop.until_published(PAYMENT_SUCCEEDED, 1).await[..] else {
        panic!("one payment")
    };
    assert_eq!(payment_event["source"], PAYMENT_SERVICE);
    for event in [
        payment_event,
        &shop.until_published(STOCK_RESERVED, 1).await[0],
        &shop.until_published(ORDER_COMPLETED, 1).await[0],
        &shop.until_published(EMAIL_SENT, 2).await[0],
    ] {
        assert_eq!(event["metadata"]["traceId"], *trace, "{event}");
        assert_eq!(event["metadata"]["correlationId"], "c-1", "{event}");
        assert_eq!(event["version"], 1, "{event}");
    }
    assert_eq!(payment_event["metadata"]["causationId"], placed.event);
    trace
}

/// Every event comes again, and nothing happens again.
async fn assert_nothing_twice(shop: &Shop, placed: &Placed, cancelled: &Placed) {
    let of_cancelled = format!(
        "SELECT status FROM payments WHERE order_id = '{}'",
        cancelled.order
    );
    // The cancellation may, if hardly ever, come to the payment service before the order.
    let taken = eventually_within(PATIENCE, "the payment ends", async || {
        match shop.payments().text(&of_cancelled).await.as_str() {
            "REFUNDED" => Ok(2),
            "CANCELLED" => Ok(1),
            other => Err(other.to_owned()),
        }
    })
    .await;
    let published = [
        (ORDER_PLACED, 3),
        (PAYMENT_SUCCEEDED, taken),
        (ORDER_CANCELLED, 1),
        (ORDER_COMPLETED, 1),
        (STOCK_RESERVED, 2),
        (EMAIL_SENT, 3 + taken),
    ];
    for (event_type, count) in published {
        shop.until_published(event_type, count).await;
    }
    shop.send_all_again().await;
    for (event_type, count) in published {
        shop.until_published(event_type, 2 * count).await;
    }
    shop.until_all_consumed(&CONSUMERS, ORDER_PLACED).await;
    shop.until_all_consumed(&[ORDER_SERVICE, NOTIFICATION_SERVICE], PAYMENT_SUCCEEDED)
        .await;
    shop.until_all_consumed(&[INVENTORY_SERVICE, PAYMENT_SERVICE], ORDER_CANCELLED)
        .await;
    shop.until_consumed(ORDER_SERVICE, STOCK_RESERVED).await;
    assert_eq!(shop.until_notified(placed, 2).await.len(), 2);
    assert_eq!(shop.notifications().count("notifications").await, 5);
    let paid = format!(
        "SELECT status FROM payments WHERE order_id = '{}'",
        cancelled.order
    );
    assert_eq!(shop.payments().text(&paid).await, "REFUNDED");
    assert_eq!(shop.payments().count("outbox_events").await, 2);
    // Three there were; two are sold, and one is reserved for the order that cannot be paid.
    assert_eq!(
        shop.inventory().text("SELECT quantity FROM stock").await,
        "0"
    );
    assert_eq!(shop.inventory().count("outbox_events").await, 3);
    assert_eq!(shop.orders().count("outbox_events").await, 5);
    let sold = "SELECT quantity FROM product_sales";
    assert_eq!(shop.analytics().text(sold).await, "5");
    let outboxes =
        "pg_tables WHERE tablename = 'outbox_events' AND schemaname = 'analytics_service'";
    assert_eq!(shop.analytics().count(outboxes).await, 0);
}

/// Each order is confirmed, and each payment receipted, once.
async fn assert_mailed(shop: &Shop, placed: &Placed, mailbox: u16) {
    let mails = mails(&format!("http://127.0.0.1:{mailbox}")).await;
    let sent = shop.notifications().count("notifications").await;
    assert_eq!(mails.len() as i64, sent, "{mails:#?}");
    for kind in ["confirmation", "receipt"] {
        let id = format!("<{kind}.{}@", placed.order);
        let about = mails.iter().filter(|mail| mail.contains(&id));
        assert_eq!(about.count(), 1, "{id}: {mails:#?}");
    }
    let to_ada = |mail: &String| mail.contains("To: ada@example.com");
    assert!(mails.iter().all(to_ada), "{mails:#?}");
}

/// A service in any language is watched in the same way.
async fn assert_watched(port: u16) {
    for service in port..port + 10 {
        for path in ["/livez", "/readyz", "/metrics"] {
            let answer = reqwest::get(format!("http://127.0.0.1:{service}{path}")).await;
            assert_eq!(answer.unwrap().status().as_u16(), 200, "{service}{path}");
        }
    }
    let payment = reqwest::get(format!("http://127.0.0.1:{}/metrics", port + 5)).await;
    let payment = payment.unwrap().text().await.unwrap();
    let letters = "postrider_consumer_dead_lettered_total{consumer=\"payment-service\"} ";
    assert!(payment.contains(letters), "{payment}");
}

/// In whatever language a service is written, its lines about an event have the event's id and its trace.
fn assert_named(said: &[String], placed: &Placed, trace: &str) {
    let lines = said
        .iter()
        .filter(|line| line.contains(&placed.event) || line.contains(&placed.order))
        .filter_map(|line| serde_json::from_str(line).ok());
    let lines: Vec<Value> = lines.collect();
    for line in &lines {
        // The relay's names are those of its other fields.
        let has = |name: &str, other: &str| line.get(name).or(line.get(other)).is_some();
        assert!(has("eventId", "event_id"), "{line}");
        let named = line.get("traceId").or(line.get("trace_id"));
        assert_eq!(named, Some(&Value::from(trace)), "{line}");
    }
    let of_event = lines.iter().filter(|line| line["eventId"] == placed.event);
    let services: Vec<&str> = of_event
        .filter_map(|line| line["service"].as_str())
        .collect();
    for service in CONSUMERS.iter().chain(&[ORDER_SERVICE]) {
        assert!(services.contains(service), "{service} says nothing");
    }
}
