//! The registry beside the table's own enums.

use std::collections::BTreeSet;

use example_packfinderz::registry::Registry;

use crate::world::{PUBLISHER, World};

async fn labels(world: &World, name: &str) -> BTreeSet<String> {
    let sql = format!("SELECT unnest(enum_range(NULL::{name}))::text");
    world
        .database
        .texts(&sql)
        .await
        .into_iter()
        .flatten()
        .collect()
}

/// A1-01: the registry has each of the 18 event types that the table takes, and no aggregate type that it does not.
#[tokio::test]
async fn the_registry_has_the_event_types_of_the_table() {
    let world = World::new().await;
    let registry = Registry::load().unwrap();
    let names: BTreeSet<String> = registry
        .event_types()
        .map(|(name, _)| name.into())
        .collect();
    assert_eq!(names.len(), 18);
    assert_eq!(names, labels(&world, "event_type_enum").await);
    let aggregates = labels(&world, "aggregate_type_enum").await;
    assert_eq!(aggregates.len(), 8);
    for (name, event_type) in registry.event_types() {
        assert!(aggregates.contains(&event_type.aggregate_type), "{name}");
        assert_eq!(event_type.topic, "{domain}", "{name}");
    }
}

/// A0-08: what another program has written past the registry is dead at once with its reason, and the rest leaves.
#[tokio::test]
async fn what_the_registry_refuses_never_leaves() {
    let world = World::new().await;
    world.insert(3, 0).await;
    for (event_type, data) in [
        ("order_created", r#"{}"#),
        (
            "license_status_changed",
            r#"{"status": "approved-in-secret"}"#,
        ),
        ("ad_paused", "null"),
    ] {
        let sql = "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
             SELECT id, '{type}', CASE '{type}' WHEN 'license_status_changed' THEN 'license' ELSE 'ad' END::aggregate_type_enum, \
             gen_random_uuid(), jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', now(), 'data', '{data}'::jsonb) \
             FROM gen_random_uuid() AS id";
        let sql = sql.replace("{type}", event_type).replace("{data}", data);
        world.database.execute(&sql).await;
    }
    let publisher = world.ready(PUBLISHER, &[]).await;
    world.until_published(3).await;
    world
        .until_count(
            "outbox_events WHERE attempt_count >= 25 AND published_at IS NULL",
            3,
        )
        .await;
    let errors =
        "SELECT last_error FROM outbox_events WHERE last_error IS NOT NULL ORDER BY event_type";
    let errors: Vec<_> = world
        .database
        .texts(errors)
        .await
        .into_iter()
        .flatten()
        .collect();
    let words = ["aggregate type vendor_order, not ad", "schema", "null"];
    for (error, word) in std::iter::zip(&errors, words) {
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(errors.len(), 3);
    assert!(!publisher.text().join("").contains("approved-in-secret"));
}
