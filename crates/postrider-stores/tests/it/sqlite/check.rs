//! What `check` finds in SQLite files.

use postrider_core::{
    Diagnosis as _, Finding, Level, Limits, OutboxStore as _, Share, StoreError, Want,
};
use postrider_testkit::eventually;

use super::world::{File, store, world, world_with};
use crate::world::World;

const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

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

/// No savepoint outlives these, so a settle cannot leave out the one record that they refuse.
#[tokio::test]
async fn what_undoes_a_whole_settle_is_named() {
    let trigger = "CREATE TRIGGER seven BEFORE UPDATE ON outbox_events WHEN OLD.version = 7 \
                   BEGIN SELECT RAISE(ROLLBACK, 'seven is refused'); END";
    let found = findings("polyshop", trigger).await;
    assert_eq!(
        (found.len(), found[0].subject.as_str()),
        (1, "seven"),
        "{found:?}"
    );
    assert!(found[0].remedy.as_ref().unwrap().contains("RAISE(ABORT"));
    let abort = trigger.replace("ROLLBACK", "ABORT");
    assert_eq!(findings("polyshop", &abort).await, []);

    let letters = "CREATE TABLE letters (event REFERENCES outbox_events (id) \
                   DEFERRABLE INITIALLY DEFERRED)";
    let found = findings("polyshop", letters).await;
    assert_eq!(
        (found.len(), found[0].subject.as_str()),
        (1, "letters"),
        "{found:?}"
    );
    let immediate = letters.replace("DEFERRABLE INITIALLY DEFERRED", "");
    assert_eq!(findings("polyshop", &immediate).await, []);
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

/// A table of one's own, by its id, its other columns and how it says that a record is published.
async fn own(id: &str, more: &str, overrides: &str) -> World<File> {
    let table = format!(
        "CREATE TABLE own ({id}, k TEXT, p JSON TEXT NOT NULL DEFAULT '{{}}', \
         at INTEGER NOT NULL DEFAULT (unixepoch('subsec') * 1000000), done INTEGER NOT NULL DEFAULT 0{more}"
    );
    let layout = format!(
        "table = 'own'\nclaim = 'hold'\ntopic = 't'\n{}\n[columns]\nid = 'id'\nkey = 'k'\npayload = 'p'\n\
         created_at = 'at'\n{}",
        overrides.split('|').next().unwrap_or_default(),
        overrides.split('|').nth(1).unwrap_or_default(),
    );
    world_with("custom", &layout, &table).await
}

const BY_TIME: &str =
    "order = ['at', 'id']\nordering = 'key'|[state]\nkind = 'flag'\npublished = 'done'";

#[tokio::test]
async fn an_id_that_may_come_twice_is_refused_with_the_index_that_mends_it() {
    for (id, more) in [
        ("id TEXT NOT NULL", ")"),
        ("id INTEGER NOT NULL", ")"),
        ("id TEXT NOT NULL", ", UNIQUE (id, k))"),
        ("id TEXT NOT NULL", "); CREATE INDEX i ON own (id)"),
        (
            "id TEXT NOT NULL",
            "); CREATE UNIQUE INDEX i ON own (id) WHERE done = 0",
        ),
        (
            "id TEXT NOT NULL",
            "); CREATE UNIQUE INDEX i ON own (lower(id))",
        ),
        ("id TEXT NOT NULL", ", PRIMARY KEY (id, k)) WITHOUT ROWID"),
    ] {
        let world = own(id, more, BY_TIME).await;
        let found = store(&world).check().await.unwrap();
        assert_eq!(found[0].level, Level::Error, "{id} {more}: {found:?}");
        assert!(found[0].message.contains("may come twice"), "{found:?}");
        let refused = store(&world).claim(ALL).await.map(drop);
        assert!(
            matches!(refused, Err(StoreError::Mismatch(_))),
            "{refused:?}"
        );
        world
            .database
            .file
            .execute(found[0].remedy.as_ref().unwrap())
            .await;
        assert_eq!(store(&world).check().await.unwrap(), [], "{id} {more}");
    }
    for (id, more) in [
        ("id INTEGER PRIMARY KEY AUTOINCREMENT", ")"),
        ("id TEXT NOT NULL PRIMARY KEY", ")"),
        ("id TEXT PRIMARY KEY", ") WITHOUT ROWID"),
        ("id INTEGER PRIMARY KEY", ") WITHOUT ROWID"),
        ("id TEXT NOT NULL UNIQUE", ")"),
    ] {
        let world = own(id, more, BY_TIME).await;
        assert_eq!(store(&world).check().await.unwrap(), [], "{id} {more}");
    }
}

/// A text as primary key takes NULL in SQLite, by an old mistake of its own.
#[tokio::test]
async fn ids_that_are_null_are_warned_of_and_counted() {
    let world = own("id TEXT PRIMARY KEY", ")", BY_TIME).await;
    let found = store(&world).check().await.unwrap();
    assert_eq!(found[0].level, Level::Warning, "{found:?}");
    assert!(found[0].message.contains("may be NULL"), "{found:?}");
    let rows = "INSERT INTO own (id, k, done) VALUES ('a', 'k', 0), (NULL, 'k', 1)";
    world.database.file.execute(rows).await;
    let limits = Limits {
        relay_runs: true,
        ..Limits::default()
    };
    assert_eq!(store(&world).diagnose(&limits).await.unwrap(), []);
    let rows = "INSERT INTO own (id, k) VALUES (NULL, 'k'), (NULL, 'l')";
    world.database.file.execute(rows).await;
    let found = store(&world).diagnose(&limits).await.unwrap();
    assert_eq!(found[0].level, Level::Error, "{found:?}");
    assert!(found[0].message.starts_with("2 records"), "{found:?}");
}

/// SQLite gives the largest row number there is, plus one: after a purge of the latest, the same again.
#[tokio::test]
async fn ids_that_are_given_again_are_named_where_consumers_would_drop_their_events() {
    let delete = "order = ['id']\nordering = 'key'|[state]\nkind = 'delete'";
    let flag = "order = ['id']\nordering = 'key'|[state]\nkind = 'flag'\npublished = 'done'";
    let own_ids = "order = ['id']\nordering = 'key'|event_id = 'e'\n[state]\nkind = 'delete'";
    for (id, overrides, expected) in [
        ("id INTEGER PRIMARY KEY", delete, Some(Level::Error)),
        (
            "id INTEGER PRIMARY KEY /* no AUTOINCREMENT */",
            delete,
            Some(Level::Error),
        ),
        ("id INTEGER PRIMARY KEY", flag, Some(Level::Warning)),
        ("e TEXT, id INTEGER PRIMARY KEY", own_ids, None),
        ("id INTEGER PRIMARY KEY AUTOINCREMENT", delete, None),
        ("id INTEGER PRIMARY KEY autoincrement", flag, None),
    ] {
        let world = own(id, ")", overrides).await;
        let found = store(&world).check().await.unwrap();
        let level = found.first().map(|finding| finding.level);
        assert_eq!(level, expected, "{id} {overrides}: {found:?}");
        if let Some(first) = found.first() {
            assert!(first.message.contains("given again"), "{found:?}");
            assert!(
                first.remedy.as_ref().unwrap().contains("AUTOINCREMENT"),
                "{found:?}"
            );
        }
        let claimed = store(&world).claim(ALL).await.map(drop);
        assert_eq!(
            claimed.is_err(),
            expected == Some(Level::Error),
            "{claimed:?}"
        );
    }
}

#[tokio::test]
async fn order_columns_that_cannot_order_a_key_are_refused() {
    let flag = "|[state]\nkind = 'flag'\npublished = 'done'";
    for (order, id, expected) in [
        (
            "'d', 'id'",
            "id TEXT NOT NULL PRIMARY KEY, d DATETIME",
            Some(Level::Error),
        ),
        (
            "'id'",
            "id TEXT NOT NULL PRIMARY KEY DEFAULT (hex(randomblob(8)))",
            Some(Level::Error),
        ),
        ("'id'", "id TEXT NOT NULL PRIMARY KEY", Some(Level::Warning)),
        (
            "'d', 'id'",
            "id INTEGER PRIMARY KEY AUTOINCREMENT, d DATETIME",
            None,
        ),
    ] {
        for ordering in ["key", "none"] {
            let overrides = format!("order = [{order}]\nordering = '{ordering}'{flag}");
            let world = own(id, ")", &overrides).await;
            let found = store(&world).check().await.unwrap();
            let level = found.first().map(|finding| finding.level);
            let expected = expected.map(|level| {
                if ordering == "key" {
                    level
                } else {
                    Level::Note
                }
            });
            assert_eq!(level, expected, "{order} {id} {ordering}: {found:?}");
        }
    }
}

#[tokio::test]
async fn a_time_that_has_whole_seconds_by_default_is_warned_of() {
    for (default, warned) in [
        ("unixepoch() * 1000000", true),
        ("strftime('%s') * 1000000", true),
        ("unixepoch('subsec') * 1000000", false),
    ] {
        let id = format!("id TEXT NOT NULL PRIMARY KEY, t INTEGER NOT NULL DEFAULT ({default})");
        let flag =
            "order = ['t', 'id']\nordering = 'key'|[state]\nkind = 'flag'\npublished = 'done'";
        let found = store(&own(&id, ")", flag).await).check().await.unwrap();
        let level = found.first().map(|finding| finding.level);
        assert_eq!(
            level,
            warned.then_some(Level::Warning),
            "{default}: {found:?}"
        );
    }
}
