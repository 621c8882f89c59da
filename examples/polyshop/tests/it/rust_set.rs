//! The services that are in Rust, and the shipped relay.

use std::collections::BTreeMap;

use example_polyshop::events::{
    EVENTS, ORDER_CANCELLED, ORDER_COMPLETED, ORDER_PLACED, PAYMENT_SUCCEEDED, PRODUCT_CREATED,
    PRODUCT_UPDATED, STOCK_REJECTED, STOCK_RESERVED,
};
use example_polyshop::{
    ANALYTICS_SERVICE, INVENTORY_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE,
    SEARCH_SERVICE,
};
use postrider_testkit::eventually;
use serde_json::{Value, json};

use crate::process::stop_all;
use crate::shop::{Shop, dead_orders, free_ports, order_items, place};

const SAGA: [&str; 5] = [
    ORDER_SERVICE,
    PAYMENT_SERVICE,
    INVENTORY_SERVICE,
    NOTIFICATION_SERVICE,
    ANALYTICS_SERVICE,
];

/// S3-67, S3-26: paid and reserved, an order is completed, and everybody does once what is theirs, although every
/// event comes twice.
#[tokio::test]
async fn an_order_is_paid_reserved_confirmed_and_completed_once() {
    let shop = Shop::open().await;
    shop.stock("book", 10).await;
    shop.stock("pen", 10).await;
    let mut processes: Vec<_> = SAGA.map(|service| shop.start(service)).into();
    processes.push(shop.start_relay());
    let headers = [("x-correlation-id", "c-1"), ("idempotency-key", "i-1")];
    let items = [("book", 2, 750), ("pen", 3, 100)];
    let placed = order_items(&processes[0], &items, &headers).await;
    shop.until_ended(&placed, "COMPLETED").await;
    let both = ["confirmation", "receipt"];
    assert_eq!(shop.until_notified(&placed, 2).await, both);

    let [order_event] = &shop.until_published(ORDER_PLACED, 1).await[..] else {
        panic!("one order")
    };
    assert_eq!(order_event["eventId"], placed.event);
    assert_eq!(order_event["source"], ORDER_SERVICE);
    assert_eq!(order_event["data"]["totalAmount"], 1800);
    let metadata = &order_event["metadata"];
    assert_eq!(metadata["correlationId"], "c-1");
    assert_eq!(metadata["idempotencyKey"], "i-1");
    let [completed] = &shop.until_published(ORDER_COMPLETED, 1).await[..] else {
        panic!("one completion")
    };
    let data = json!({ "orderId": placed.order, "userId": "u-1", "totalAmount": 1800 });
    assert_eq!(completed["data"], data);
    assert_eq!(completed["metadata"]["correlationId"], "c-1");
    let trace = &metadata["traceId"];
    assert_eq!(completed["metadata"]["traceId"], *trace);

    shop.send_all_again().await;
    shop.until_published(ORDER_PLACED, 2).await;
    shop.until_published(PAYMENT_SUCCEEDED, 2).await;
    shop.until_published(STOCK_RESERVED, 4).await;
    shop.until_published(ORDER_COMPLETED, 2).await;
    shop.until_all_consumed(&SAGA[1..], ORDER_PLACED).await;
    shop.until_consumed(ORDER_SERVICE, STOCK_RESERVED).await;
    shop.until_all_consumed(&[ORDER_SERVICE, NOTIFICATION_SERVICE], PAYMENT_SUCCEEDED)
        .await;
    stop_all(processes).await;
    assert_eq!(shop.in_stock("book").await, "8");
    assert_eq!(shop.in_stock("pen").await, "7");
    let paid = "payments WHERE status = 'SUCCESS' AND amount = 1800";
    assert_eq!(shop.payments().count(paid).await, 1);
    assert_eq!(shop.notifications().count("notifications").await, 2);
    let sold = "SELECT sum(revenue) FROM product_sales";
    assert_eq!(shop.analytics().text(sold).await, "1800");
    // One order, one payment, two reservations, one completion: nothing was emitted a second time.
    assert_eq!(shop.orders().count("outbox_events").await, 2);
    assert_eq!(shop.payments().count("outbox_events").await, 1);
    assert_eq!(shop.inventory().count("outbox_events").await, 2);
    assert_eq!(shop.records(STOCK_REJECTED).await, []);
    assert_eq!(shop.records(ORDER_CANCELLED).await, []);
}

/// S3-66, S3-67: too little of one item cancels the order once; what was reserved and paid is given back once.
#[tokio::test]
async fn an_order_that_cannot_be_served_is_cancelled_and_undone_once() {
    let shop = Shop::open().await;
    shop.stock("book", 10).await;
    shop.stock("pen", 2).await;
    shop.stock("ink", 0).await;
    let services = [ORDER_SERVICE, PAYMENT_SERVICE, INVENTORY_SERVICE];
    let mut processes: Vec<_> = services.map(|service| shop.start(service)).into();
    processes.push(shop.start_relay());
    let items = [("book", 2, 750), ("pen", 3, 100), ("ink", 1, 100)];
    let placed = order_items(&processes[0], &items, &[]).await;
    shop.until_ended(&placed, "CANCELLED").await;

    let [cancelled] = &shop.until_published(ORDER_CANCELLED, 1).await[..] else {
        panic!("one cancellation")
    };
    assert_eq!(cancelled["data"]["orderId"], placed.order);
    assert_eq!(cancelled["data"]["userId"], "u-1");
    shop.until_published(STOCK_REJECTED, 2).await;
    shop.until_published(STOCK_RESERVED, 1).await;
    shop.until_published(PAYMENT_SUCCEEDED, 1).await;
    shop.send_all_again().await;
    shop.until_published(ORDER_CANCELLED, 2).await;
    shop.until_published(STOCK_REJECTED, 4).await;
    shop.until_published(STOCK_RESERVED, 2).await;
    shop.until_published(PAYMENT_SUCCEEDED, 2).await;
    shop.until_all_consumed(&services[1..], ORDER_CANCELLED)
        .await;
    for event_type in [STOCK_REJECTED, STOCK_RESERVED, PAYMENT_SUCCEEDED] {
        shop.until_consumed(ORDER_SERVICE, event_type).await;
    }
    stop_all(processes).await;
    assert_eq!(shop.in_stock("book").await, "10");
    assert_eq!(shop.in_stock("pen").await, "2");
    let status = "SELECT status FROM payments";
    assert_eq!(shop.payments().texts(status).await, ["REFUNDED"]);
    let ended = "SELECT status FROM orders";
    assert_eq!(shop.orders().texts(ended).await, ["CANCELLED"]);
    assert_eq!(shop.orders().count("outbox_events").await, 2);
    let movements = "SELECT product_id || ' ' || status FROM movements ORDER BY 1";
    let movements = shop.inventory().texts(movements).await;
    assert_eq!(movements, ["book RELEASED", "ink REJECTED", "pen REJECTED"]);
}

/// S3-53, S3-57: an unknown product is a dead letter of the inventory service, and nothing of the order is reserved.
#[tokio::test]
async fn an_order_for_an_unknown_product_reserves_nothing() {
    let shop = Shop::open().await;
    shop.stock("book", 10).await;
    let orders = shop.start(ORDER_SERVICE);
    let processes = [shop.start(INVENTORY_SERVICE), shop.start_relay()];
    let items = [("book", 2, 750), ("unicorn", 1, 100)];
    let placed = order_items(&orders, &items, &[]).await;
    let [letter] = &shop.until_published(&dead_orders(), 1).await[..] else {
        panic!("one letter")
    };
    assert_eq!(letter["eventId"], placed.event);
    assert_eq!(
        letter["errorMessage"],
        "Validation failed: product not found"
    );
    assert_eq!(letter["consumerService"], INVENTORY_SERVICE);
    assert_eq!(shop.in_stock("book").await, "10");
    assert_eq!(shop.inventory().count("movements").await, 0);
    assert_eq!(shop.inventory().count("processed_events").await, 0);
    stop_all(processes.into_iter().chain([orders])).await;
}

/// A row as product-service writes it, by plain SQL.
async fn product_event(shop: &Shop, event_type: &str, name: &str, revision: i64) {
    let data = json!({
        "productId": "book", "name": name, "description": "about nothing at all", "price": 750, "revision": revision,
    });
    let products = shop.schema(example_polyshop::PRODUCT_SERVICE);
    let insert = format!(
        "INSERT INTO outbox_events (aggregate_id, event_type, payload) VALUES ('book', '{event_type}', '{data}')"
    );
    products.execute(&insert).await;
}

/// A3-15, S3-48: search-service only consumes. It keeps the highest revision, whatever order they come in.
#[tokio::test]
async fn search_finds_the_latest_revision_of_a_product() {
    let shop = Shop::open().await;
    product_event(&shop, PRODUCT_UPDATED, "The third title", 3).await;
    let (search, relay) = (shop.start(SEARCH_SERVICE), shop.start_relay());
    shop.until_published(PRODUCT_UPDATED, 1).await;
    shop.until_consumed(SEARCH_SERVICE, PRODUCT_UPDATED).await;
    product_event(&shop, PRODUCT_CREATED, "The first title", 1).await;
    product_event(&shop, PRODUCT_UPDATED, "The second title", 2).await;
    shop.until_published(PRODUCT_CREATED, 1).await;
    shop.until_published(PRODUCT_UPDATED, 2).await;
    shop.until_consumed(SEARCH_SERVICE, PRODUCT_CREATED).await;
    shop.until_consumed(SEARCH_SERVICE, PRODUCT_UPDATED).await;

    let address = search.address().await;
    let found = async |words: &str| {
        let found = reqwest::get(format!("{address}/search?q={words}")).await;
        let found: Value = found.unwrap().json().await.unwrap();
        let products = found["products"].as_array().unwrap().clone();
        let name = |product: &Value| product["name"].as_str().unwrap().to_owned();
        products.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(found("nothing%20title").await, ["The third title"]);
    assert_eq!(found("second").await, [""; 0]);
    let outboxes = "pg_tables WHERE tablename = 'outbox_events' AND schemaname = 'search_service'";
    assert_eq!(shop.search().count(outboxes).await, 0);
    stop_all([search, relay]).await;
    assert_eq!(shop.search().count("processed_events").await, 3);
}

/// The shop as its README starts it, with every service in Rust: each says that it lives and is ready, and counts what
/// it does, and Ctrl-C stops it all.
#[tokio::test]
async fn the_shop_in_rust_does_what_its_readme_says() {
    let shop = Shop::closed().await;
    let port = free_ports();
    let mut running = shop.run_all(&[], port);
    running.said("the shop is open").await;
    shop.stock("book", 10).await;
    let gateway = format!("http://127.0.0.1:{port}");
    let placed = place(&gateway, "u-1", &[("book", 2, 750)], &[]).await;
    shop.until_ended(&placed, "COMPLETED").await;
    shop.until_notified(&placed, 2).await;
    shop.until_consumed(ANALYTICS_SERVICE, ORDER_PLACED).await;
    shop.until_published(ORDER_COMPLETED, 1).await;
    let requests = "polyshop_gateway_requests_total{service=\"orders\",status=\"201\"} 1";
    for (offset, counted) in [
        (0, requests.to_owned()),
        (3, handled(INVENTORY_SERVICE, 1)),
        // A payment and a reservation.
        (4, handled(ORDER_SERVICE, 2)),
        (5, handled(PAYMENT_SERVICE, 1)),
        // An order and a payment.
        (6, handled(NOTIFICATION_SERVICE, 2)),
        (7, handled(SEARCH_SERVICE, 0)),
        (8, handled(ANALYTICS_SERVICE, 1)),
        (
            9,
            "postrider_published_total{outbox=\"order-service\"} 2".to_owned(),
        ),
    ] {
        let get = async |path: &str| {
            let answer = reqwest::get(format!("http://127.0.0.1:{}{path}", port + offset));
            let answer = answer.await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        assert_eq!(get("/livez").await.0, 200, "{offset}");
        assert_eq!(get("/readyz").await.0, 200, "{offset}");
        eventually("it has counted", async || {
            let metrics = get("/metrics").await.1;
            match metrics.contains(&counted) {
                true => Ok(()),
                false => Err((counted.clone(), metrics)),
            }
        })
        .await;
    }
    running.interrupt().await;
}

fn handled(consumer: &str, count: u32) -> String {
    format!("postrider_consumer_handled_total{{consumer=\"{consumer}\"}} {count}")
}

/// S3-90: what the contract says of each type of event is what the code has.
#[test]
fn the_contract_names_every_event_and_its_fields() {
    let contract = include_str!("../../polyshop-events.md");
    let (topics, data) = contract.split_once("\n## Data\n").unwrap();
    // Each row of a table whose first cell is a type of event, with its last cell.
    let rows = |text: &'static str| -> BTreeMap<&str, &str> {
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| row.split_once("` | "))
            .filter(|(name, _)| name.ends_with(".v1"))
            .collect()
    };
    let known: BTreeMap<&str, &[&str]> = EVENTS.into();
    assert!(rows(topics).keys().eq(known.keys()), "{:?}", rows(topics));
    assert!(rows(data).keys().eq(known.keys()), "{:?}", rows(data));
    for (event_type, row) in rows(data) {
        let fields = row.split(", ").filter_map(|field| field.strip_prefix('`'));
        let fields = fields.map(|field| field.split('`').next().unwrap());
        let fields: Vec<String> = fields.map(snake_case).collect();
        assert_eq!(fields, known[event_type], "{event_type}");
    }
}

fn snake_case(name: &str) -> String {
    let letters = name.chars().flat_map(|letter| {
        let joint = letter.is_ascii_uppercase().then_some('_');
        joint.into_iter().chain([letter.to_ascii_lowercase()])
    });
    letters.collect()
}
