//! What `check` finds in SQLite files.

use postrider_core::{Diagnosis as _, Finding, Level};
use postrider_testkit::eventually;

use super::world::{store, world, world_with};

#[tokio::test]
async fn there_is_nothing_to_say_of_what_init_made() {
    for preset in ["packfinderz", "talkie", "polyshop", "gopipe", "debezium"] {
        for ordering in ["ordering = 'key'", "ordering = 'none'"] {
            if preset == "gopipe" && ordering.contains("key") {
                continue; // It has no key.
            }
            let findings = store(&world(preset, ordering).await).check().await.unwrap();
            assert_eq!(findings, [], "{preset}, {ordering}");
        }
    }
}

async fn findings(preset: &str, sql: &str) -> Vec<Finding> {
    let world = world(preset, "").await;
    world.database.file.execute(sql).await;
    store(&world).check().await.unwrap()
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_remedy() {
    let found = findings("polyshop", "DROP TABLE postrider_claims").await;
    assert_eq!(found[0].level, Level::Error);
    assert_eq!(found[0].subject, "postrider_claims");
    assert!(found[0].remedy.as_ref().unwrap().contains("postrider init"));

    let found = findings("polyshop", "ALTER TABLE outbox_events DROP COLUMN version").await;
    assert_eq!(found[0].level, Level::Error);
    assert!(found[0].message.contains("version"), "{found:?}");

    let found = findings("polyshop", "DROP INDEX outbox_events_postrider_claim").await;
    assert_eq!(found[0].level, Level::Warning, "{found:?}");
    assert!(found[0].remedy.as_ref().unwrap().contains("CREATE INDEX"));
}

#[tokio::test]
async fn settings_that_harm_are_named() {
    let world = world("polyshop", "").await;
    // Refused as long as a connection that made the tables is not quite closed.
    eventually("the journal is another", async || {
        let change = sqlx::raw_sql("PRAGMA journal_mode = DELETE");
        let changed = change.execute(&world.database.file.pool).await;
        changed.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let found = store(&world).check().await.unwrap();
    assert_eq!(found[0].subject, "journal_mode", "{found:?}");
}

#[tokio::test]
async fn times_that_are_text_are_refused() {
    let table = "CREATE TABLE outbox (id INTEGER PRIMARY KEY, created_at DATETIME, topic TEXT NOT NULL, \
                 event_type TEXT NOT NULL, data TEXT NOT NULL, attributes TEXT NOT NULL, published BOOLEAN NOT NULL DEFAULT 0)";
    let world = world_with("gopipe", "", table).await;
    let found = store(&world).check().await.unwrap();
    assert_eq!(found[0].subject, "created_at", "{found:?}");
    assert!(found[0].message.contains("microseconds"), "{found:?}");
}
