use super::Stage;

#[tokio::test]
async fn resending_a_keys_head_lets_the_key_go_on() {
    let stage = Stage::with(&[("order.placed", "7"), ("order.placed", "8")]).await;
    stage.outbox.emit("order.paid", "7").await;
    stage.outbox.emit("order.sent", "7").await;
    let browser = stage.at("parked").await;
    browser.holds("tbody tr", 2).await;
    browser.shows("tbody", "no route").await;
    let behind = "[...document.querySelectorAll('tbody tr')].some(row => row.innerText.match(/^7\\b/) && row.innerText.match(/\\b2\\b/))";
    browser.until(behind).await;
    browser.click("tbody .event").await;
    browser.shows(".event-page h2", "order.placed").await;
    browser.visit("#/orders/parked").await;
    browser
        .click("[aria-label='Resend the head of key 7']")
        .await;
    browser
        .shows("dialog h2", "Resend 1 dead record of orders?")
        .await;
    browser.shows("dialog", "The head of key 7").await;
    browser.press("Resend 1 record").await;
    browser.shows(".result", "1 record of orders resent.").await;
    stage.published(3).await;
    browser.holds("tbody tr", 1).await;

    browser
        .click("[aria-label='Discard the head of key 8']")
        .await;
    browser.press("Discard 1 record").await;
    browser.shows(".list", "No key is parked.").await;
    assert_eq!(stage.rows("aggregate_id = '8'").await, 0);
    browser.is_content().await;
}
