use super::Stage;

#[tokio::test]
async fn a_replay_is_counted_first_watched_and_stopped() {
    let stage = Stage::with(&[]).await;
    for key in 0..12 {
        stage.outbox.emit("order.placed", &key.to_string()).await;
    }
    stage.outbox.emit("order.paid", "1").await;
    stage.published(13).await;
    let browser = stage.at("replay").await;

    // Nothing matches: nothing is sent.
    browser.fill("[name=type]", "order.lost").await;
    browser.press("Count and replay…").await;
    browser.shows("main", "Nothing was sent").await;

    browser.fill("[name=type]", "order.placed").await;
    browser.press("Count and replay…").await;
    browser
        .shows("dialog h2", "Replay 12 published records of orders?")
        .await;
    browser.press("Cancel").await;
    browser.holds("dialog", 0).await;

    browser.press("Count and replay…").await;
    browser.press("Replay 12 records").await;
    browser.shows("main", "12 of 12 records sent").await;
    browser.shows("main .chip", "done").await;
    stage.published(25).await;

    // One a second would take twelve: long enough to be stopped.
    browser.fill("[name=rate]", "1").await;
    browser.press("Count and replay…").await;
    browser.shows("dialog", "at most 1 a second").await;
    browser.press("Replay 12 records").await;
    browser.press("Stop the replay").await;
    browser.shows("main .chip", "stopped").await;
    assert!(stage.kafka.records(&stage.topic).await.len() < 37);
    browser.visit("#/orders/audit").await;
    browser.shows("tbody", "replay").await;
    browser.is_content().await;
}

/// The form's other fields: which records, and where to.
#[tokio::test]
async fn a_replay_takes_what_was_asked_for_and_goes_where_it_was_told() {
    let stage = Stage::with(&[]).await;
    for (event_type, key) in [
        ("order.placed", "1"),
        ("order.paid", "1"),
        ("order.sent", "2"),
    ] {
        stage.outbox.emit(event_type, key).await;
    }
    stage.published(3).await;
    let elsewhere = stage.kafka.fresh_topic(1).await;
    let browser = stage.at("replay").await;
    browser.fill("[name=key]", "1").await;
    browser.fill("[name=since]", "1h").await;
    browser.press("Count and replay…").await;
    browser
        .shows("dialog h2", "Replay 2 published records of orders?")
        .await;
    browser.press("Cancel").await;
    browser.fill("[name=until]", "1h").await;
    browser.press("Count and replay…").await;
    browser.shows("main", "Nothing was sent").await;

    browser.visit("#/orders/audit").await;
    browser.visit("#/orders/replay").await;
    let ids = [
        stage.id_of("order.placed").await,
        stage.id_of("order.sent").await,
    ];
    browser.fill("[name=ids]", &ids.join("\n")).await;
    browser.fill("[name=to_topic]", &elsewhere).await;
    browser.press("Count and replay…").await;
    browser
        .shows("dialog", &format!("once more, to {elsewhere}"))
        .await;
    browser.press("Replay 2 records").await;
    browser.shows("main", "2 of 2 records sent").await;
    assert_eq!(stage.kafka.records(&elsewhere).await.len(), 2);
    stage.published(3).await;
    browser.is_content().await;
}
