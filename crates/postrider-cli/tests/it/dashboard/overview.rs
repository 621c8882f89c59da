use postrider_testkit::eventually;
use rustix::process::Signal;
use serde_json::json;

use super::Stage;
use crate::binary::Project;

fn tile(label: &str) -> String {
    format!(
        "[...document.querySelectorAll('.tile')].find(tile => tile.innerText.startsWith('{label}')).querySelector('dd').innerText"
    )
}

#[tokio::test]
async fn figures_follow_the_table_without_a_reload_and_without_moving_the_page() {
    let stage = Stage::with(&[("order.placed", "7")]).await;
    let browser = stage.browser().await;
    browser.shows(".card", "orders").await;
    browser
        .until(&format!("{} === '1'", tile("Dead letters")))
        .await;
    browser
        .until(&format!("{} === '1'", tile("Parked keys")))
        .await;
    browser.until(&format!("{} === '0'", tile("Backlog"))).await;
    browser.shows(".card .chip", "Ready").await;
    browser.shows(".findings", "key").await;
    browser
        .js(
            "window.moved = 0; new PerformanceObserver(list => { for (const entry of list.getEntries()) window.moved += entry.value; }) \
             .observe({ type: 'layout-shift' })",
            json!([]),
        )
        .await;

    // One waits behind the dead one, the others flow.
    stage.outbox.emit("order.paid", "7").await;
    browser.until(&format!("{} === '1'", tile("Backlog"))).await;
    for key in 10..60 {
        stage.outbox.emit("order.placed", &key.to_string()).await;
    }
    stage.published(50).await;
    browser
        .until(&format!("{}.endsWith('ms')", tile("Latency p99")))
        .await;
    browser
        .until("document.querySelector('.line-0').getAttribute('d').split('L').length > 3")
        .await;
    let label = "document.querySelector('.chart svg').getAttribute('aria-label')";
    browser
        .until(&format!("/Highest: [1-9]/.test({label})"))
        .await;
    stage.project.run(&["dead", "resend", "--all"]).ok();
    browser
        .until(&format!("{} === '0'", tile("Dead letters")))
        .await;
    browser.until(&format!("{} === '0'", tile("Backlog"))).await;
    let moved = browser.js("return window.moved", json!([])).await;
    assert!(moved.as_f64().unwrap() < 0.02, "the page moved: {moved}");
    browser.is_content().await;
}

/// The page says that it is cut off, and is live again by itself when the relay is back.
#[tokio::test]
async fn a_cut_stream_is_said_and_mended() {
    let stage = Stage::with(&[]).await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    let address = stage.relay.address().await;
    stage.relay.signal(Signal::KILL);
    stage.relay.exit().await;
    browser.shows("#stream", "Cut off").await;
    browser.shows("#cut", "Live updates are cut off").await;
    browser.shows("#cut", "Figures are from").await;

    let config = stage.outbox.config("").replace("127.0.0.1:0", &address);
    let project = Project::new(&config);
    let _relay = project.relay().await;
    stage.outbox.emit("order.placed", "7").await;
    browser.shows("#stream", "Live").await;
    browser.holds("#cut > *", 0).await;
    eventually("published", async || {
        match stage.rows("NOT processed").await {
            0 => Ok(()),
            waiting => Err(waiting),
        }
    })
    .await;
}

/// An address that means nothing, or an outbox that is not there, is said in words.
#[tokio::test]
async fn an_unknown_address_is_not_an_empty_page() {
    let stage = Stage::with(&[]).await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    browser.visit("#/orders/nonsense").await;
    browser.shows("main", "There is no such page.").await;
    browser.visit("#/%E0%A4%A").await;
    browser.shows("main", "There is no such page.").await;
    browser.visit("#/nobody/dead").await;
    browser.shows(".notice.bad", "no such outbox").await;
    browser
        .visit("#/orders/records/0190a0a0-0000-7000-8000-000000000000")
        .await;
    browser.holds(".notice.bad", 1).await;
    assert!(!browser.text(".notice.bad").await.is_empty());
}
