use super::Stage;

const VIEW: &str = "a-token-that-may-only-look";
const OPERATE: &str = "a-token-that-may-also-change";

async fn guarded() -> Stage {
    let tokens = format!(
        "listen = \"127.0.0.1:0\"\n[admin.tokens.screen]\nrole = \"view\"\ntoken = \"{VIEW}\"\n\
         [admin.tokens.night-shift]\nrole = \"operate\"\ntoken = \"{OPERATE}\"\n"
    );
    Stage::with_config(&[("order.placed", "7")], |config| {
        config.replace("listen = \"127.0.0.1:0\"\n", &tokens)
    })
    .await
}

#[tokio::test]
async fn a_token_opens_the_dashboard_and_a_wrong_one_tells_nothing() {
    let stage = guarded().await;
    let browser = stage.browser().await;
    browser.shows("h1", "Sign in").await;
    assert!(browser.focused("#token").await);
    assert!(!browser.text("body").await.contains("orders"));
    browser.fill("#token", "wrong").await;
    browser.press("Sign in").await;
    browser.shows("main", "That token is not accepted.").await;
    assert!(!browser.text("body").await.contains("orders"));

    browser.fill("#token", OPERATE).await;
    browser.press("Sign in").await;
    browser.shows(".card", "orders").await;
    browser.shows("#who", "night-shift (operate)").await;
    browser.visit("#/orders/dead").await;
    browser.click("thead input").await;
    browser.press("Resend…").await;
    browser.press("Resend 1 record").await;
    browser.shows(".result", "1 record of orders resent.").await;
    stage.published(1).await;
    browser.visit("#/orders/audit").await;
    browser.shows("tbody", "night-shift").await;

    // It is in no address, survives a reload, and is gone after signing out.
    browser.goto("/#/orders/dead").await;
    browser.shows("#stream", "Live").await;
    browser.press("Sign out").await;
    browser.shows("h1", "Sign in").await;
    browser.until("sessionStorage.length === 0").await;
    for url in browser.requests().await {
        assert!(!url.contains(OPERATE), "{url}");
    }
    assert!(!stage.relay.text().join("\n").contains(OPERATE));
}

#[tokio::test]
async fn who_may_only_look_sees_why_there_are_no_buttons() {
    let stage = guarded().await;
    let id = stage.id_of("order.placed").await;
    let browser = stage.browser().await;
    browser.fill("#token", VIEW).await;
    browser.press("Sign in").await;
    browser.shows("#who", "screen (view)").await;
    for page in [
        "dead".to_owned(),
        "parked".to_owned(),
        "replay".to_owned(),
        format!("records/{id}"),
    ] {
        browser.visit(&format!("#/orders/{page}")).await;
        browser.shows(".view-only", "role operate").await;
        browser
            .until("!document.querySelector('main').innerText.includes('Reading…')")
            .await;
        let text = browser.text("main").await;
        for word in [
            "Resend…",
            "Discard…",
            "Show payload",
            "Replay this one",
            "Count and replay",
        ] {
            assert!(!text.contains(word), "{page}: {text}");
        }
    }
    browser.visit("#/orders/dead").await;
    browser.holds("tbody tr", 1).await;
    assert_eq!(browser.count("main input[type=checkbox]").await, 0);
}
