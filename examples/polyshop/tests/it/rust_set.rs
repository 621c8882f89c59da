//! The four services in Rust.

use example_polyshop::events::{ORDER_PLACED, PAYMENT_SUCCEEDED};
use example_polyshop::{ANALYTICS_SERVICE, NOTIFICATION_SERVICE, ORDER_SERVICE, PAYMENT_SERVICE};
use serde_json::json;

use crate::process::stop_all;
use crate::shop::{Shop, order};

/// A3-13: a payment goes from INITIATED to SUCCESS with one event, and one confirmation and one receipt are sent.
#[tokio::test]
async fn an_order_is_paid_once_confirmed_once_and_receipted_once() {
    let shop = Shop::open().await;
    let services = [
        ORDER_SERVICE,
        PAYMENT_SERVICE,
        NOTIFICATION_SERVICE,
        ANALYTICS_SERVICE,
    ];
    let processes = services.map(|service| shop.start(service));
    let headers = [("x-correlation-id", "c-1"), ("idempotency-key", "i-1")];
    let placed = order(&processes[0], 750, &headers).await;
    let both = ["confirmation", "receipt"];
    assert_eq!(shop.until_notified(&placed, 2).await, both);

    let [order_event] = &shop.until_published(ORDER_PLACED, 1).await[..] else {
        panic!("one order")
    };
    assert_eq!(order_event["eventId"], placed.event);
    assert_eq!(order_event["source"], ORDER_SERVICE);
    assert_eq!(order_event["data"]["totalAmount"], 1500);
    assert_eq!(order_event["metadata"]["correlationId"], "c-1");
    assert_eq!(order_event["metadata"]["idempotencyKey"], "i-1");
    let [payment_event] = &shop.until_published(PAYMENT_SUCCEEDED, 1).await[..] else {
        panic!("one payment")
    };
    assert_eq!(payment_event["source"], PAYMENT_SERVICE);
    assert_eq!(payment_event["data"]["orderId"], placed.order);
    let (trace, metadata) = (
        &order_event["metadata"]["traceId"],
        &payment_event["metadata"],
    );
    assert_eq!(metadata["causationId"], placed.event);
    assert_eq!(metadata["correlationId"], "c-1");
    assert!(
        trace.is_string() && metadata["traceId"] == *trace,
        "{payment_event}"
    );

    // Every event comes again, and nothing happens again.
    shop.send_all_again().await;
    shop.until_published(ORDER_PLACED, 2).await;
    shop.until_published(PAYMENT_SUCCEEDED, 2).await;
    shop.until_all_consumed().await;
    stop_all(processes).await;
    assert_eq!(shop.until_notified(&placed, 2).await, both);
    let paid = shop.payments().texts("SELECT status FROM payments").await;
    assert_eq!(paid, [Some("SUCCESS".into())]);
    assert_eq!(shop.payments().count("outbox_events").await, 1);
    let sold = "SELECT json_build_array(product_id, quantity, revenue) FROM product_sales";
    let sold = shop.analytics().text(sold).await.unwrap();
    let sold: serde_json::Value = serde_json::from_str(&sold).unwrap();
    assert_eq!(sold, json!(["book", 2, 1500]));
}
