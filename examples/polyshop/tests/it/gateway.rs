//! What the gateway and the order service refuse.

use example_polyshop::{GATEWAY, ORDER_SERVICE};
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::stop_all;
use crate::shop::{Shop, programs};

async fn ask(address: &str, method: Method, path: &str, body: Value) -> (u16, String) {
    let request = reqwest::Client::new().request(method, format!("{address}{path}"));
    let answer = request.json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// S3-23: the order service validates before it writes anything, and the gateway passes on what it answers. What the
/// shop does not have, or cannot reach, the gateway says itself.
#[tokio::test]
async fn what_is_no_order_is_refused_and_leaves_nothing() {
    let mut shop = Shop::open().await;
    let orders = shop.start(ORDER_SERVICE);
    shop.set("ORDER_URL", &orders.address().await);
    shop.set("SEARCH_URL", "http://127.0.0.1:1");
    let gateway = shop.run(GATEWAY, "", &programs().join("polyshop"), &[GATEWAY]);
    let address = gateway.address().await;

    let book = |quantity: i32, price: i64| json!({ "productId": "book", "quantity": quantity, "price": price });
    for (items, why) in [
        (json!([]), "an order has items"),
        (json!([book(0, 750)]), "quantities are positive"),
        (json!([book(1, -1)]), "prices not negative"),
        (json!([book(1, 750), book(1, 750)]), "once"),
        (
            json!([{ "productId": "a\0b", "quantity": 1, "price": 1 }]),
            "NUL",
        ),
    ] {
        let order = json!({ "userId": "u-1", "items": items });
        let (status, answer) = ask(&address, Method::POST, "/orders", order).await;
        assert_eq!(status, 422, "{answer}");
        assert!(answer.contains(why), "{why}: {answer}");
    }
    let (status, answer) = ask(&address, Method::POST, "/orders", json!("no order")).await;
    assert_eq!(status, 422, "{answer}");
    assert_eq!(shop.orders().count("orders").await, 0);
    assert_eq!(shop.orders().count("outbox_events").await, 0);

    // Nobody has told it where users are, and whoever searches is not there.
    for (path, expected) in [("/users", 404), ("/nothing", 404), ("/search?q=book", 502)] {
        let (status, answer) = ask(&address, Method::GET, path, Value::Null).await;
        assert_eq!(status, expected, "{path}: {answer}");
        assert!(answer.contains("error"), "{path}: {answer}");
    }
    stop_all([orders, gateway]).await;
}
