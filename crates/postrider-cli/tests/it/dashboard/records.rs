use serde_json::json;

use super::Stage;

/// Published an odd number of half minutes ago, so that no age is a whole minute.
const PUBLISHED: &str = "
    INSERT INTO outbox_events (id, event_type, aggregate_id, payload, version, created_at, processed, processed_at)
    SELECT gen_random_uuid(), 'order.' || (array['placed', 'paid'])[n % 2 + 1], 'key ' || n % 10, '{}', 1,
      now() - n * interval '1 minute' - interval '30 seconds', true, now()
    FROM generate_series(1, 120) n";

/// As many as SQL counts, by every field of the form.
#[tokio::test]
async fn records_are_filtered_counted_and_gone_through_page_by_page() {
    let stage = Stage::with(&[("order.lost", "7")]).await;
    stage.outbox.emit("order.lost", "7").await;
    stage.outbox.database.execute(PUBLISHED).await;
    let id = stage.id_of("order.placed").await;
    let browser = stage.at("records").await;
    browser.press("Count all that match").await;
    browser.shows(".heading", "122 records").await;
    // No column says it, the config does.
    browser.shows("tbody .topic-cell", &stage.topic).await;

    // Every record is on one page.
    let mut seen = std::collections::BTreeSet::new();
    for (rows, way) in [(50, "Next page"), (50, "Next page"), (22, "First page")] {
        browser.holds("tbody tr", rows).await;
        let ids = "return [...document.querySelectorAll('tbody .id')].map(one => one.title)";
        let ids = browser.js(ids, json!([])).await;
        let ids = ids.as_array().unwrap().iter();
        let new = ids.filter(|id| seen.insert(id.to_string())).count();
        assert_eq!(new as u64, rows);
        let before = browser.text("tbody").await;
        browser.press(way).await;
        browser
            .until(&format!(
                "(document.querySelector('tbody')?.innerText ?? {0}) !== {0}",
                json!(before)
            ))
            .await;
    }
    browser.holds("tbody tr", 50).await;
    browser.is_content().await;
    let id_is = format!("id = '{id}'");
    for (field, text, condition) in [
        ("[name=id]", &*id, &*id_is),
        ("[name=type]", "order.paid", "event_type = 'order.paid'"),
        ("[name=key]", "key 3", "aggregate_id = 'key 3'"),
        ("[name=topic]", "nowhere", "false"),
        (
            "[name=error]",
            "no route",
            "error_message LIKE '%no route%'",
        ),
        (
            "[name=since]",
            "45m",
            "created_at > now() - interval '45 minutes'",
        ),
        (
            "[name=until]",
            "45m",
            "created_at < now() - interval '45 minutes'",
        ),
    ] {
        browser.fill(field, text).await;
        let before = browser.js("return location.hash", json!([])).await;
        browser.press("Filter").await;
        browser.until(&format!("location.hash !== {before}")).await;
        let found = stage.rows(condition).await;
        browser.holds("tbody tr", found.min(50) as u64).await;
        browser.press("Count all that match").await;
        let words = if found == 1 { "record" } else { "records" };
        browser.shows(".heading", &format!("{found} {words}")).await;
        browser.press("Clear").await;
        browser.until("location.hash === '#/orders/records'").await;
        browser.holds("tbody tr", 50).await;
    }
    browser.is_content().await;
}

#[tokio::test]
async fn lists_that_do_not_follow_are_read_again() {
    let stage = Stage::with(&[("order.lost", "7"), ("order.lost", "8")]).await;
    let browser = stage.at("records").await;
    for state in ["pending", "waiting", "published", "dead"] {
        browser.choose("[name=state]", state).await;
        browser.press("Filter").await;
        browser
            .until(&format!("location.hash.endsWith('state={state}')"))
            .await;
        let shown = if state == "dead" {
            "order.lost"
        } else {
            "No record matches."
        };
        browser.shows(".list", shown).await;
    }
    browser.holds("tbody tr", 2).await;
    stage.project.run(&["dead", "resend", "--key", "7"]).ok();
    stage.published(1).await;
    assert_eq!(browser.count("tbody tr").await, 2);
    browser.press("Read again").await;
    browser.holds("tbody tr", 1).await;

    browser.visit("#/orders/audit").await;
    browser.holds("tbody tr", 1).await;
    browser.shows("tbody", "resend").await;
    stage.project.run(&["dead", "discard", "--key", "8"]).ok();
    browser.press("Read again").await;
    browser.shows("tbody", "discard").await;
    browser.holds("tbody tr", 2).await;
    browser.click("tbody tr:last-child .event").await;
    browser.shows(".event-page h2", "order.lost").await;
    browser.is_content().await;
}
