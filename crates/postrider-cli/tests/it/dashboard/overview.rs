use postrider_testkit::eventually;
use rustix::process::Signal;
use serde_json::json;

use super::browser::ENTER;
use super::{Stage, with_mails};
use crate::binary::Project;
use crate::outbox::TestOutbox;

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
    let relay = project.relay().await;
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

    // Where the next try by itself is an hour away, a reader need not wait for it.
    let patient = "const later = setTimeout; window.setTimeout = (act, ms) => later(act, ms < 400 ? ms : 3_600_000)";
    browser.js(patient, json!([])).await;
    relay.signal(Signal::KILL);
    relay.exit().await;
    browser.shows("#cut", "Live updates are cut off").await;
    browser.requests().await;
    browser.press("Try now").await;
    eventually("another try", async || {
        let requests = browser.requests().await;
        let tried = requests.iter().any(|url| url.ends_with("/api/events"));
        if tried { Ok(()) } else { Err(requests) }
    })
    .await;
    browser.shows("#stream", "Cut off").await;
    assert!(browser.focused("#cut button").await);
    let _relay = project.relay().await;
    assert_eq!(browser.text("#stream").await, "Cut off");
    browser.press("Try now").await;
    browser.shows("#stream", "Live").await;

    // The first question of all can fail too.
    browser.cut_off(&["*/api/me"]).await;
    browser.goto("/").await;
    browser.shows("h1", "No answer").await;
    browser.shows(".notice.bad", "does not answer").await;
    browser.press("Try again").await;
    browser.shows("h1", "No answer").await;
    browser.cut_off(&[]).await;
    browser.press("Try again").await;
    browser.shows(".card", "orders").await;
}

/// What was read off under the pointer is what the chart drew there; without a pointer it is the last value.
#[tokio::test]
async fn a_pointer_on_a_chart_reads_its_values() {
    // Where the line is highest, as a share of the chart's width, and what the chart says is its highest value.
    const PEAK: &str = "const chart = document.querySelector('.chart');
        const points = chart.querySelector('.line-0').getAttribute('d').split(/[ML]/).filter(Boolean).map(point => point.split(',').map(Number));
        const peak = points.reduce((best, point) => point[1] < best[1] ? point : best);
        return [peak[0] / 300, chart.querySelector('svg').getAttribute('aria-label').match(/Highest: (.*)\\.$/)[1]]";
    const READ: &str = "const chart = document.querySelector('.chart');
        return [chart.querySelector('.key b').innerText, chart.querySelector('.when').innerText !== '', chart.querySelector('.cursor.shown') !== null]";
    let stage = Stage::with(&[]).await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    for key in 0..40 {
        stage.outbox.emit("order.placed", &key.to_string()).await;
    }
    stage.published(40).await;
    let calm = "/Now: published 0\\. Highest: [1-9]/.test(document.querySelector('.chart svg').getAttribute('aria-label'))";
    browser.until(calm).await;
    eventually("the peak is read", async || {
        let peak = browser.js(PEAK, json!([])).await;
        let share = peak[0].as_f64().unwrap();
        browser.point_at(".chart svg", share).await;
        let read = browser.js(READ, json!([])).await;
        // A second later it has moved to the left, away from the pointer.
        if read == json!([peak[1], true, true]) {
            Ok(())
        } else {
            Err((peak, read))
        }
    })
    .await;
    browser.point_at("h1", 0.5).await;
    assert_eq!(
        browser.js(READ, json!([])).await,
        json!(["0", false, false])
    );
    browser.is_content().await;
}

/// Every link of the frame and of a card leads to its page, of the outbox that was chosen.
#[tokio::test]
async fn the_chosen_outbox_is_the_one_that_the_pages_show() {
    let mails = TestOutbox::create("polyshop").await;
    let stage = Stage::with_config(&[("order.placed", "7")], |config| {
        with_mails(&config, &mails)
    })
    .await;
    mails.emit("mail.sent", "8").await;
    stage.published(1).await;
    let browser = stage.browser().await;
    browser.holds("section.card", 2).await;
    browser.choose("#outbox", "mails").await;
    browser.until("location.hash === '#/mails/dead'").await;
    browser.shows(".list", "No dead letters.").await;
    for (link, page) in [
        ("Parked keys", "parked"),
        ("Replay", "replay"),
        ("Audit", "audit"),
        ("Dead letters", "dead"),
        ("Records", "records"),
    ] {
        browser.press(link).await;
        browser
            .until(&format!("location.hash === '#/mails/{page}'"))
            .await;
        browser.shows("h1", link).await;
        browser.shows("h1", "mails").await;
    }
    browser.shows("tbody", "mail.sent").await;
    browser.choose("#outbox", "orders").await;
    browser.until("location.hash === '#/orders/records'").await;
    browser.shows("tbody", "order.placed").await;
    browser.click("tbody .event").await;
    browser.shows(".fields", "7").await;
    // A record of another outbox is none of this one: its list is shown.
    browser.choose("#outbox", "mails").await;
    browser.until("location.hash === '#/mails/records'").await;
    let id = mails.database.text("SELECT id FROM outbox_events").await;
    browser.fill("#find-id", &id.unwrap()).await;
    browser.keys(&[ENTER]).await;
    browser.shows(".event-page h2", "mail.sent").await;
    browser.click(".fields a").await;
    browser
        .until("location.hash === '#/mails/records?key=8'")
        .await;
    browser.holds("tbody tr", 1).await;

    browser.press("Overview").await;
    browser.shows("h1", "Overview").await;
    for (tile, address) in [
        ("Backlog", "#/orders/records?state=pending"),
        ("Dead letters", "#/orders/dead"),
        ("Parked keys", "#/orders/parked"),
    ] {
        browser.click(".brand").await;
        let link = format!("[aria-label='Outbox orders'] [href='{address}']");
        browser.shows(&link, tile).await;
        browser.click(&link).await;
        browser
            .until(&format!("location.hash === '{address}'"))
            .await;
        browser.shows("h1", "orders").await;
    }
    browser.is_content().await;
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
    browser.press("To the overview").await;
    browser.shows(".card", "orders").await;
    browser.visit("#/nobody/dead").await;
    browser.shows(".notice.bad", "no such outbox").await;
    browser
        .visit("#/orders/records/0190a0a0-0000-7000-8000-000000000000")
        .await;
    browser.holds(".notice.bad", 1).await;
    assert!(!browser.text(".notice.bad").await.is_empty());
}
