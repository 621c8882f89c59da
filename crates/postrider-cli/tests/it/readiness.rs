//! A1-06: readiness follows the database and the broker, and recovers by itself.

use postrider::core::Layout;
use postrider::stores::postgres::{self, InitOptions};
use postrider_testkit::services::{Kind, PrivateServer};

use crate::binary::Project;
use crate::outbox::TestOutbox;

#[tokio::test]
async fn a_database_that_stops_makes_the_relay_not_ready_until_it_returns() {
    let mut server = PrivateServer::start(Kind::Postgres).await;
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let layout = Layout::preset("polyshop").unwrap();
    let pool = postgres::connect(&url, 1).unwrap();
    let options = InitOptions {
        claim_index: true,
        notify: false,
    };
    postgres::init(&pool, &layout, &options).await.unwrap();
    let project = Project::new(&format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[broker.main]\nkind = \"memory\"\n\
         [[outbox]]\nname = \"orders\"\ndatabase = \"{url}\"\nlayout = \"polyshop\"\nbroker = \"main\""
    ));
    let relay = project.relay().await;
    relay.becomes(200).await;

    server.kill();
    let body = relay.becomes(503).await;
    assert_eq!(body["outboxes"][0]["database"]["ready"], false);
    assert!(
        body["outboxes"][0]["database"]["reason"].is_string(),
        "{body}"
    );
    assert_eq!(body["outboxes"][0]["broker"]["ready"], true);
    assert_eq!(relay.get("/livez").await.status(), 200);

    server.restart().await;
    relay.becomes(200).await;

    // A relay that starts while the database is away waits for it.
    drop(relay);
    server.kill();
    let relay = project.relay().await;
    relay.becomes(503).await;
    server.restart().await;
    relay.becomes(200).await;

    // And it refuses a table that does not fit as soon as it can look at it.
    drop(relay);
    sqlx::query("DROP TABLE outbox_events")
        .execute(&pool)
        .await
        .unwrap();
    server.kill();
    let relay = project.relay().await;
    relay.becomes(503).await;
    server.restart().await;
    assert_eq!(relay.exit().await.code(), Some(1), "{:#?}", relay.text());
    let last = relay.text().pop().unwrap();
    assert!(
        last.starts_with("error: outbox orders") || last.starts_with("  because"),
        "{last}"
    );
}

async fn broker_stops_and_returns(kind: Kind, config: impl Fn(&str) -> String) {
    let outbox = TestOutbox::create("polyshop").await;
    let mut server = PrivateServer::start(kind).await;
    let project = Project::new(&outbox.config_with(&config(&server.address()), ""));
    let relay = project.relay().await;
    relay.becomes(200).await;

    server.kill();
    let body = relay.becomes(503).await;
    assert_eq!(body["outboxes"][0]["broker"]["ready"], false);
    assert!(
        body["outboxes"][0]["broker"]["reason"].is_string(),
        "{body}"
    );
    assert_eq!(body["outboxes"][0]["database"]["ready"], true);

    server.restart().await;
    relay.becomes(200).await;
}

#[tokio::test]
async fn a_kafka_that_stops_makes_the_relay_not_ready_until_it_returns() {
    broker_stops_and_returns(Kind::Kafka, |address| {
        format!("kind = \"kafka\"\nbootstrap = \"{address}\"")
    })
    .await;
}

#[tokio::test]
async fn a_pubsub_that_stops_makes_the_relay_not_ready_until_it_returns() {
    broker_stops_and_returns(Kind::PubSub, |address| {
        format!("kind = \"pubsub\"\nproject = \"test\"\nendpoint = \"http://{address}\"")
    })
    .await;
}
