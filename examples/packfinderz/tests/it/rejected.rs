//! Rows that Pub/Sub itself rejects.

use example_packfinderz::settings::MAX_ATTEMPTS;
use postrider_testkit::services::{Kind, PrivateServer};
use serde_json::json;

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

/// A0-05: one row in the middle of a batch is rejected by the Pub/Sub server. It is tried, keeps a bounded error, is not
/// marked published, and all others are published. What the server rejects for its content can never succeed, so all
/// attempts are used up at once: 25, or 1 where that is the maximum.
#[tokio::test]
async fn a_row_that_the_server_rejects_keeps_its_error_and_the_others_are_published() {
    let server = PrivateServer::start(Kind::PubSub).await;
    for (set, attempts) in [("", 25), ("1", 1)] {
        let world = world_with_schema(&server).await;
        world.insert(20, 0).await;
        let bad = "UPDATE outbox_events SET payload_json = payload_json || '{\"actor\": {\"id\": 7}}' \
             WHERE id = (SELECT id FROM outbox_events ORDER BY created_at, id OFFSET 11 LIMIT 1) RETURNING id::text";
        let bad = world.database.text(bad).await.unwrap();
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
