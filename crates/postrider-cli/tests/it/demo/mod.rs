//! `postrider demo`, tried as a new user would: the real binary, what it prints, and the commands that it prints.

mod process;
mod refused;
mod servers;
mod tables;

use std::time::{Duration, Instant};

use postrider_testkit::eventually;
use serde_json::{Value, json};

use process::{Demo, Place, argument};
use tables::Tables;

const DEAD: &str = "/api/outboxes/orders/records?state=dead";
const PARKED: &str = "/api/outboxes/orders/parked";

#[tokio::test(flavor = "multi_thread")]
async fn what_the_demo_says_to_try_works_and_nothing_is_left_behind() {
    let place = Place::new();
    let demo = place.start(&[]).await;
    assert_eq!(demo.get("/api/me").await["demo"], true);

    let placed = demo.answer("\"tea\",\"quantity\":2");
    let (event_id, order) = (placed["event_id"].as_str().unwrap(), &placed["order"]);
    let message = eventually("the event is on its topic", async || {
        let shown = demo.answer("/demo/topics/orders?");
        let all = demo.get("/demo/topics/orders?last=100").await;
        assert!(shown["messages"].as_array().unwrap().len() <= 3);
        let messages = all["messages"].as_array().unwrap();
        let mine = |message: &&Value| message["headers"]["event_id"] == event_id;
        messages.iter().find(mine).cloned().ok_or(all.clone())
    })
    .await;
    assert_eq!(message["key"], "you");
    let event = &message["payload"];
    assert_eq!(event["data"]["number"], *order, "{event}");
    assert_eq!(event["source"], "order-service");

    demo.answer("\"piano\"");
    eventually("a piano is a dead letter", async || {
        let shown = demo.answer("/demo/topics/orders.dlt?");
        let letters = shown["messages"].as_array().unwrap();
        let text = letters
            .iter()
            .any(|letter| letter["payload"]["errorMessage"] == "the carrier takes no pianos");
        text.then_some(()).ok_or(shown.clone())
    })
    .await;
    demo.answer("\"quantity\":0");
    eventually("an order of 0 pieces is dead", async || {
        let list = demo.does(" dead list ");
        list.contains("you").then_some(()).ok_or(list)
    })
    .await;
    assert!(demo.does(" status ").contains("orders"));
    let page = reqwest::get(demo.address()).await.unwrap();
    assert!(page.text().await.unwrap().contains("<title>"));

    assert_eq!(demo.complaints(), [""; 0], "the terminal stays calm");
    let text = demo.stop().await;
    assert!(text.ends_with("was removed."), "{text}");
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_record_parks_its_key_until_it_is_discarded() {
    let (place, started) = (Place::new(), Instant::now());
    let folder = place.path("data");
    let demo = place.start(&["--dir", argument(&folder)]).await;
    let tables = Tables::in_folder(&folder);

    let parked = eventually("a key is parked with records behind it", async || {
        let parked = demo.get(PARKED).await;
        let key = parked["keys"][0].clone();
        (key["behind"].as_u64() >= Some(2))
            .then_some(key)
            .ok_or(parked)
    })
    .await;
    assert!(started.elapsed() < Duration::from_secs(15));
    let (key, id) = (parked["key"].as_str().unwrap(), &parked["first"]["id"]);
    let billed = format!("invoices WHERE customer = '{key}'");
    assert_eq!(tables.count(&billed).await, 0);
    let others = tables.count("invoices").await;
    eventually("others flow", async || {
        match tables.count("invoices").await {
            now if now > others + 5 => Ok(()),
            now => Err(now),
        }
    })
    .await;

    let one = json!({ "ids": [id], "expect": 1 });
    let changed = (200, json!({ "changed": 1 }));
    assert_eq!(
        demo.post("/api/outboxes/orders/dead/resend", &one).await,
        changed
    );
    let history = format!("/api/outboxes/orders/records/{}", id.as_str().unwrap());
    eventually("resent, it is dead again", async || {
        let shown = demo.get(&history).await;
        let steps: Vec<&str> = shown["history"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["what"].as_str().unwrap())
            .collect();
        let resent = steps.contains(&"resent");
        let dead = shown["record"]["state"] == "dead"
            && shown["record"]["error"]
                .as_str()
                .unwrap()
                .contains("quantity");
        (resent && dead).then_some(()).ok_or(shown.clone())
    })
    .await;
    assert_eq!(tables.count(&billed).await, 0);

    assert_eq!(
        demo.post("/api/outboxes/orders/dead/discard", &one).await,
        changed
    );
    eventually("what waited is applied", async || {
        let good = format!("orders WHERE quantity > 0 AND customer = '{key}'");
        let (good, billed) = (tables.count(&good).await, tables.count(&billed).await);
        (billed == good && good >= 2)
            .then_some(())
            .ok_or((good, billed))
    })
    .await;
    assert!(demo.stop().await.contains("Start again with the same data"));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_and_started_again_it_loses_nothing_and_applies_each_order_once() {
    let place = Place::new();
    let folder = place.path("data");
    let dir = argument(&folder);
    let tables = Tables::in_folder(&folder);
    for round in 1..=3 {
        let demo = place.start(&["--dir", dir, "--rate", "100"]).await;
        let goes_on = demo.text().contains("goes on with its data");
        assert_eq!(goes_on, round > 1, "{}", demo.text());
        eventually("orders are applied", async || {
            match tables.count("invoices").await {
                applied if applied >= round * 100 => Ok(()),
                applied => Err(applied),
            }
        })
        .await;
        demo.kill().await;
    }
    let demo = place.start(&["--dir", dir, "--rate", "0"]).await;
    settled(&demo, &tables).await;
    let placed = tables.count("orders").await;
    assert!(placed > 300, "{placed}");
    demo.stop().await;

    // And after a clean stop: whatever is sent again is known.
    let demo = place.start(&["--dir", dir, "--rate", "0"]).await;
    eventually("the topic holds it again", async || {
        let shown = demo.get("/demo/topics/orders").await;
        let good = tables.count("orders WHERE quantity > 0").await;
        (shown["read"].as_i64() >= Some(good))
            .then_some(())
            .ok_or(shown)
    })
    .await;
    demo.answer("\"tea\",\"quantity\":2");
    settled(&demo, &tables).await;
    demo.stop().await;
}

/// Discards what can never be published, and waits until all else is applied.
pub(crate) async fn settled(demo: &Demo, tables: &Tables) {
    eventually("everything is applied once", async || {
        let dead = demo.get(DEAD).await;
        let ids: Vec<&Value> = dead["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["id"])
            .collect();
        if !ids.is_empty() {
            let all = json!({ "ids": ids, "expect": ids.len() });
            demo.post("/api/outboxes/orders/dead/discard", &all).await;
        }
        tables
            .applied_once()
            .await
            .map_err(|missing| (missing, demo.complaints()))
    })
    .await;
}
