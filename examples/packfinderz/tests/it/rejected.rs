//! Rows that Pub/Sub itself rejects.

use std::sync::Arc;
use std::time::Duration;

use example_packfinderz::settings::MAX_ATTEMPTS;
use postrider::Relay;
use postrider::brokers::pubsub::{PubSubConfig, PubSubPublisher};
use postrider::core::{Backoff, Layout, Route, Router, Routes};
use postrider::relay::Config;
use postrider::stores::postgres::{self, Options, PostgresStore};
use postrider_testkit::services::{Kind, PrivateServer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::{PUBLISHER, World};

/// An envelope without actor, as a schema of the topic: what has one is registered in PackFinderz, and refused by Pub/Sub.
fn envelope() -> String {
    let record = |name: &str, fields: serde_json::Value| json!({ "type": "record", "name": name, "fields": fields });
    let text = |name: &str| json!({ "name": name, "type": "string" });
    let data = record("AdPaused", json!([text("adId"), text("storeId")]));
    let fields = json!([
        { "name": "version", "type": "int" }, text("eventId"), text("occurredAt"), { "name": "data", "type": data }
    ]);
    record("Envelope", fields).to_string()
}

/// A world whose topic has that schema.
async fn world_with_schema(server: &PrivateServer) -> World {
    let world = World::without_topics(server.address()).await;
    let schema = json!({ "type": "AVRO", "definition": envelope() });
    let url = world.pubsub_url("schemas?schemaId=pf-envelope");
    let made = reqwest::Client::new()
        .post(url)
        .json(&schema)
        .send()
        .await
        .unwrap();
    made.error_for_status().unwrap();
    let schema = format!("projects/{}/schemas/pf-envelope", world.project);
    let settings = json!({ "schemaSettings": { "schema": schema, "encoding": "JSON" } });
    world.create("topics/pf-domain-events", &settings).await;
    world
}

/// Changes a row in the middle, and gives its id.
async fn spoil(world: &World, set: &str) -> String {
    let sql = format!(
        "UPDATE outbox_events SET {set} WHERE id = \
         (SELECT id FROM outbox_events ORDER BY created_at, id OFFSET 11 LIMIT 1) \
         RETURNING id::text"
    );
    world.database.text(&sql).await.unwrap()
}

/// A0-05: one row in the middle of a batch is rejected by the Pub/Sub server. It is tried, keeps a bounded error, is not
/// marked published, and all others are published. What the server rejects for its content can never succeed, so all
/// attempts are used up at once: 25, or 1 where that is the maximum.
#[tokio::test]
async fn a_row_that_the_server_rejects_keeps_its_error_and_the_others_are_published() {
    let server = PrivateServer::start(Kind::PubSub).await;
    for (set, attempts) in [("", 25), ("1", 1)] {
        let world = world_with_schema(&server).await;
        world.insert(20, 0).await;
        let bad = spoil(
            &world,
            "payload_json = payload_json || '{\"actor\": {\"id\": 7}}'",
        )
        .await;
        let publisher = world.ready(PUBLISHER, &[(MAX_ATTEMPTS, set)]).await;
        world.until_published(19).await;
        world
            .until_count("outbox_events WHERE attempt_count > 0", 1)
            .await;
        let of_bad = format!(
            "outbox_events WHERE id = '{bad}' AND published_at IS NULL AND attempt_count = {attempts} \
             AND octet_length(last_error) BETWEEN 1 AND 1024 AND last_error LIKE '%failed schema validation%'"
        );
        assert_eq!(
            world.database.count(&of_bad).await,
            1,
            "{:#?}",
            publisher.text()
        );
        // Later rows flow.
        world.insert(1, 0).await;
        world.until_published(20).await;
        let well = "outbox_events WHERE published_at IS NOT NULL AND attempt_count = 0 AND last_error IS NULL";
        assert_eq!(world.database.count(well).await, 20);
    }
}

/// A relay of two event types, one of which goes to a topic that the server does not have.
fn relay_with_an_unknown_topic(world: &World, count_outages: bool) -> Relay {
    let layout = Layout::preset("packfinderz").unwrap();
    let routes = Routes::new()
        .with("ad_paused", Route::new().topic("pf-domain-events"))
        .with("ad_expired", Route::new().topic("pf-nowhere"));
    let mut config = Config {
        ordering: layout.ordering,
        ..Config::default()
    };
    config.retry.count_outages = count_outages;
    // No second try while the test looks.
    let hour = Duration::from_secs(3600);
    config.retry.backoff = Backoff::new(hour, hour);
    let mut pubsub = PubSubConfig::new(&world.project);
    pubsub.endpoint = Some(format!("http://{}", world.pubsub));
    let router = Router::new(&layout, routes, None);
    let pool = postgres::connect(&world.database.url, config.claims + 2).unwrap();
    let store = PostgresStore::new(pool, Options::new(layout));
    let publisher = PubSubPublisher::new(pubsub).unwrap();
    Relay::builder(Arc::new(store), Arc::new(publisher), router)
        .config(config)
        .build()
}

/// A0-05 with a topic that the server does not have. By the document's letter, which is
/// `count_outages = true`, the row is at attempt 1 after its first try. As the publisher has it,
/// the topic is a part of the broker that is down, which uses up no attempt. Either way the row
/// keeps a bounded error and all others are published.
#[tokio::test]
async fn a_row_for_an_unknown_topic_is_at_attempt_1_where_outages_count_and_at_0_where_not() {
    for (count_outages, attempts) in [(true, 1), (false, 0)] {
        let world = World::new().await;
        world.insert(20, 0).await;
        let bad = spoil(&world, "event_type = 'ad_expired'").await;
        let shutdown = CancellationToken::new();
        let relay = relay_with_an_unknown_topic(&world, count_outages);
        let running = tokio::spawn(relay.run(shutdown.clone()));
        world.until_published(19).await;
        let of_bad = format!(
            "outbox_events WHERE id = '{bad}' AND published_at IS NULL \
             AND attempt_count = {attempts} AND last_error LIKE '%pf-nowhere%' \
             AND octet_length(last_error) BETWEEN 1 AND 1024"
        );
        world.until_count(&of_bad, 1).await;
        // Later rows flow.
        world.insert(1, 0).await;
        world.until_published(20).await;
        assert_eq!(world.database.count(&of_bad).await, 1);
        shutdown.cancel();
        running.await.unwrap().unwrap();
    }
}
