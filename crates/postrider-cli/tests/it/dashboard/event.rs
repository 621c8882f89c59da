use serde_json::json;

use super::Stage;

#[tokio::test]
async fn a_payload_is_shown_only_when_asked_for_and_that_is_audited() {
    let stage = Stage::with(&[("order.placed", "7")]).await;
    let browser = stage.at("dead").await;
    browser.click("tbody .event").await;
    browser.shows(".event-page h2", "order.placed").await;
    browser.shows(".timeline", "emitted").await;
    browser.shows(".timeline", "dead").await;
    browser.shows(".last-error", "no route").await;
    assert!(!browser.text("body").await.contains("orderId"));
    let requests = browser.requests().await;
    assert!(!requests.iter().any(|url| url.ends_with("/payload")));

    browser.press("Show payload").await;
    browser
        .shows("pre.payload", "{\n  \"orderId\": \"7\"\n}")
        .await;
    browser.shows(".timeline", "payload read").await;
    browser.visit("#/orders/audit").await;
    browser.shows("tbody", "payload").await;
    browser.is_content().await;
}

#[tokio::test]
async fn a_dead_record_is_resent_from_its_page_which_then_shows_it_published() {
    let stage = Stage::with(&[("order.placed", "7")]).await;
    let browser = stage.at("dead").await;
    browser.click("tbody .event").await;
    browser.press("Resend…").await;
    browser
        .shows("dialog h2", "Resend 1 dead record of orders?")
        .await;
    browser.press("Resend 1 record").await;
    browser.shows(".result", "1 record of orders resent.").await;
    stage.published(1).await;
    browser.shows(".event-page h2 .chip", "published").await;
    browser.shows(".timeline", "resent").await;

    // What is published can be replayed, marked as such, and stays as it is.
    browser.press("Replay this one…").await;
    browser
        .shows("dialog h2", "Replay 1 published record of orders?")
        .await;
    browser.press("Replay 1 record").await;
    browser.shows("main", "1 of 1 record sent").await;
    browser.shows("main .chip", "done").await;
    let records = stage.published(2).await;
    assert_eq!(records[0].value, records[1].value);
    assert!(records[1].headers.len() > records[0].headers.len());
    assert_eq!(stage.rows("processed").await, 1);
    browser.is_content().await;
}

#[tokio::test]
async fn a_dead_record_is_discarded_from_its_page() {
    let stage = Stage::with(&[("order.placed", "7"), ("order.paid", "8")]).await;
    let id = stage.id_of("order.placed").await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    // By the search in the frame.
    browser.keys(&['/']).await;
    let typed: Vec<char> = id.chars().chain([super::browser::ENTER]).collect();
    browser.keys(&typed).await;
    browser.shows(".event-page h2", "order.placed").await;
    browser.press("Discard…").await;
    browser.press("Discard 1 record").await;
    browser
        .shows(".result", "1 record of orders discarded.")
        .await;
    assert_eq!(stage.rows("true").await, 1);
    browser.visit("#/orders/audit").await;
    browser.shows("tbody", "discard").await;
    browser.shows("tbody", &id).await;
}

/// Long numbers and doubled members reach the reader as they are stored.
#[tokio::test]
async fn a_payload_is_broken_into_lines_and_otherwise_left_alone() {
    let stage = Stage::with(&[]).await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    let script = "return import('/ui/pretty.js').then(({ pretty }) => pretty(arguments[0]))";
    for (stored, shown) in [
        (
            r#"{"n":12345678901234567890.10,"n":"a \" { b","e":[],"o":{}}"#,
            "{\n  \"n\": 12345678901234567890.10,\n  \"n\": \"a \\\" { b\",\n  \"e\": [],\n  \"o\": {}\n}",
        ),
        ("not json {", "not json {"),
        ("[1,[2]]", "[\n  1,\n  [\n    2\n  ]\n]"),
    ] {
        assert_eq!(browser.js(script, json!([stored])).await, shown);
    }
}
