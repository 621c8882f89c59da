use super::Stage;
use super::browser::{ENTER, ESCAPE, TAB};

/// No mouse: from the first Tab to the record on its topic.
#[tokio::test]
async fn a_record_is_resent_by_keyboard_alone() {
    let stage = Stage::with(&[("order.placed", "7"), ("order.paid", "8")]).await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    browser
        .until("document.querySelector('#badge-dead').innerText === '2'")
        .await;

    // The first stop jumps over the frame.
    browser.keys(&[TAB]).await;
    assert!(browser.focused(".skip").await);
    browser.keys(&[ENTER]).await;
    assert!(browser.focused("main").await);
    browser.keys(&['/']).await;
    assert!(browser.focused("#find-id").await);

    browser.tab_to("nav a[href$='/dead']").await;
    browser.keys(&[ENTER]).await;
    browser.holds("tbody tr", 2).await;
    assert!(browser.focused("h1").await);
    browser
        .tab_to("tbody [aria-label^='Select order.paid']")
        .await;
    let seen = "getComputedStyle(document.activeElement).outlineStyle !== 'none'";
    browser.until(seen).await;
    browser.keys(&[' ']).await;
    browser.shows(".selection", "1 record selected").await;

    // Backwards to the buttons above the list, as Shift+Tab is.
    browser
        .js(
            "document.querySelector('.selection .buttons button').focus()",
            serde_json::json!([]),
        )
        .await;
    browser.tab_to(".selection .primary").await;
    browser.keys(&[ENTER]).await;
    browser.shows("dialog h2", "Resend 1 dead record").await;
    browser.keys(&[ESCAPE]).await;
    browser.holds("dialog", 0).await;
    assert!(browser.focused(".selection .primary").await);
    assert_eq!(stage.rows("error_message IS NOT NULL").await, 2);

    browser.keys(&[ENTER]).await;
    browser.holds("dialog[open]", 1).await;
    assert!(browser.focused("dialog .primary").await);
    browser.keys(&[ENTER]).await;
    browser.shows(".result", "1 record of orders resent.").await;
    assert!(browser.focused(".result").await);
    browser.shows("#spoken", "1 record of orders resent.").await;
    stage.published(1).await;

    // Enter must not delete by accident.
    browser.holds("tbody tr", 1).await;
    browser.tab_to("thead input").await;
    browser.keys(&[' ']).await;
    browser
        .js(
            "document.querySelector('.selection .buttons button').focus()",
            serde_json::json!([]),
        )
        .await;
    browser.tab_to(".selection .danger").await;
    browser.keys(&[ENTER]).await;
    browser.holds("dialog[open]", 1).await;
    browser.keys(&[ENTER]).await;
    browser.holds("dialog", 0).await;
    assert_eq!(stage.rows("event_type = 'order.placed'").await, 1);
    browser.is_content().await;
}

/// Every control says what it is to someone who cannot see it.
#[tokio::test]
async fn every_control_has_a_name() {
    let stage = Stage::with(&[("order.placed", "7")]).await;
    let id = stage.id_of("order.placed").await;
    let browser = stage.browser().await;
    browser.shows("#stream", "Live").await;
    let nameless = "[...document.querySelectorAll('input, select, textarea, button, a, progress, [role=img]')].filter(one => one.checkVisibility() \
        && !one.innerText?.trim() && !one.getAttribute('aria-label') && !(one.labels?.length)).map(one => one.outerHTML)";
    for page in [
        "",
        "orders/dead",
        "orders/parked",
        "orders/records",
        "orders/replay",
        "orders/audit",
        &format!("orders/records/{id}"),
    ] {
        browser.visit(&format!("#/{page}")).await;
        browser
            .until("!document.querySelector('main').innerText.includes('Reading…')")
            .await;
        let found = browser
            .js(&format!("return {nameless}"), serde_json::json!([]))
            .await;
        assert_eq!(found, serde_json::json!([]), "{page}");
        let headings = browser.count("h1").await;
        assert_eq!(headings, 1, "{page}");
    }
}
