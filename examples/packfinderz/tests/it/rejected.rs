//! Rows that Pub/Sub itself rejects.

use example_packfinderz::settings::MAX_ATTEMPTS;
use postrider_testkit::services::{Kind, PrivateServer};
use rustix::process::Signal;
use serde_json::json;

use crate::world::{ConfigOnDisk, PUBLISHER, World, root};

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

/// Changes the row that this many are older than, and gives its id.
async fn spoil(world: &World, older: u32, set: &str) -> String {
    let sql = format!(
        "UPDATE outbox_events SET {set} WHERE id = \
         (SELECT id FROM outbox_events ORDER BY created_at, id OFFSET {older} LIMIT 1) \
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
            11,
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

/// The example's config with a topic of its own for one event type, which the server does not have.
fn config_with_an_unknown_topic() -> ConfigOnDisk {
    let text = include_str!("../../relay.toml");
    let route = "event_type = \"ad_expired\"\n";
    assert_eq!(text.matches(route).count(), 1);
    ConfigOnDisk::new(&text.replace(route, &format!("{route}topic = \"pf-nowhere\"\n")))
}

/// A0-05 with a topic that the server does not have, by `postrider relay` as it is shipped and with
/// the example's config. By the document's letter, which is `count_outages = true`, the row is at
/// attempt 1 after its first try. As the config has it, the topic is a part of the broker that is
/// down, which uses up no attempt: the row leaves once the topic is there. Either way it keeps a
/// bounded error meanwhile, and all others are published.
#[tokio::test]
async fn a_row_for_an_unknown_topic_is_at_attempt_1_where_outages_count_and_at_0_where_not() {
    // No second try while the test looks.
    let counted = [
        ("POSTRIDER__OUTBOX__PACKFINDERZ__COUNT_OUTAGES", "true"),
        ("POSTRIDER__OUTBOX__PACKFINDERZ__RETRY__BASE", "1h"),
        ("POSTRIDER__OUTBOX__PACKFINDERZ__RETRY__CAP", "1h"),
    ];
    let config = config_with_an_unknown_topic();
    for (settings, attempts) in [(&counted[..], 1), (&[], 0)] {
        let world = World::new().await;
        world.insert(20, 0).await;
        let bad = spoil(&world, 11, "event_type = 'ad_expired'").await;
        let relay = world.relay(config.path(), settings);
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
        assert_eq!(
            world.database.count(&of_bad).await,
            1,
            "{:#?}",
            relay.text()
        );
        let well = "outbox_events WHERE published_at IS NOT NULL AND attempt_count = 0 \
                    AND last_error IS NULL";
        assert_eq!(world.database.count(well).await, 20);
        if attempts == 0 {
            world.subscribe("pf-nowhere", "pf-nowhere-too").await;
            world.until_published(21).await;
            world.messages("pf-nowhere-too", 1).await;
        }
        relay.signal(Signal::TERM);
        assert_eq!(relay.ended().await.code(), Some(0), "{:#?}", relay.text());
    }
}

/// The example's config needs nothing but its variables, publishes by the same registry as
/// `outbox-publisher`, and passes `postrider check`.
#[tokio::test]
async fn the_shipped_relay_publishes_by_the_registry() {
    let world = World::new().await;
    let config = root().join("examples/packfinderz/relay.toml");
    let mut check = world.postrider(&["check", "--config", config.to_str().unwrap()], &[]);
    let checked = check.output().unwrap();
    assert!(checked.status.success(), "{checked:?}");

    world.insert(3, 0).await;
    let bad = spoil(&world, 0, "payload_json = payload_json #- '{data,adId}'").await;
    let _relay = world.relay(&config, &[]);
    world.until_published(2).await;
    let dead = format!(
        "outbox_events WHERE id = '{bad}' AND published_at IS NULL AND attempt_count = 25 \
         AND last_error LIKE '%schema (required)%'"
    );
    world.until_count(&dead, 1).await;
    assert_eq!(world.messages("pf-compliance", 2).await.len(), 2);
}
