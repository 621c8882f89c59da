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
