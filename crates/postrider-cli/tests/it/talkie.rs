//! The config that opens the dashboard on Talkie's outbox.

use postrider_testkit::eventually;
use postrider_testkit::services::services;
use rustix::process::Signal;
use serde_json::Value;

use crate::binary::Project;
use crate::outbox::TestOutbox;

const CONFIG: &str = include_str!("../../../../examples/talkie/dashboard.toml");

/// S2-31: the config serves the dashboard, which lists Talkie's dead letters and resends them; the relay behind it publishes.
#[tokio::test(flavor = "multi_thread")]
async fn talkies_config_opens_the_dashboard_on_its_outbox() {
    let outbox = TestOutbox::create("talkie").await;
    let die = "INSERT INTO outbox (topic, key, payload_json, status, retry_count, last_error) \
               VALUES ('talkie.messages', 'lobby', '{}', 'dead_lettered', 11, 'refused')";
    sqlx::query(die).execute(outbox.pool()).await.unwrap();
    let project = Project::new(CONFIG)
        .variable("DATABASE_URL", outbox.url())
        .variable("POSTRIDER__BROKER__KAFKA__BOOTSTRAP", &services().kafka)
        .variable("POSTRIDER__ADMIN__LISTEN", "127.0.0.1:0");
    let relay = project.relay().await;
    let page = relay.get("/").await;
    assert_eq!(page.status().as_u16(), 200);
    assert!(page.text().await.unwrap().contains("<title>Postrider"));
    let dead = relay.get("/api/outboxes/talkie/records?state=dead").await;
    let dead: Value = dead.json().await.unwrap();
    assert_eq!(dead["records"][0]["key"], "lobby", "{dead}");
    assert_eq!(dead["records"][0]["error"], "refused", "{dead}");

    let url = format!(
        "http://{}/api/outboxes/talkie/dead/resend",
        relay.address().await
    );
    let resend = reqwest::Client::new().post(url);
    let resend = resend.json(&serde_json::json!({ "filter": {}, "expect": 1 }));
    assert_eq!(resend.send().await.unwrap().status().as_u16(), 200);
    eventually("it is published", async || {
        let states: Vec<String> = sqlx::query_scalar("SELECT status FROM outbox")
            .fetch_all(outbox.pool())
            .await
            .unwrap();
        if states == ["published"] {
            Ok(())
        } else {
            Err(states)
        }
    })
    .await;
    relay.signal(Signal::INT);
    assert!(relay.exit().await.success());
}
