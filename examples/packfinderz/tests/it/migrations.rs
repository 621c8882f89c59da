//! The tables as `migrate` makes them.

use std::collections::BTreeSet;
use std::process::Command;

use example_packfinderz::catalogue::{AggregateType, EventType};
use example_packfinderz::migrations::{self, CLAIM_INDEX, MIGRATIONS};
use example_packfinderz::model::OutboxEvent;
use example_packfinderz::registry::Registry;
use example_packfinderz::settings::DATABASE_URL;
use postrider::core::Layout;
use postrider::stores::postgres::{self, InitOptions};
use postrider_testkit::database::{Database, fresh_schema};

/// Runs the program and gives what it printed, or its error.
fn migrate(database: &Database, verb: &str) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_migrate"))
        .arg(verb)
        .env_clear()
        .env(DATABASE_URL, &database.url)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

/// Every column, index, constraint and label of these tables (all of them where none are named), a line each.
async fn shape(database: &Database, tables: &[&str]) -> Vec<String> {
    let named: Vec<String> = tables.iter().map(|name| format!("'{name}'")).collect();
    let of = match &named[..] {
        [] => "c.relname <> 'schema_migrations'".to_owned(),
        named => format!("c.relname IN ({})", named.join(", ")),
    };
    let of =
        format!("c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND {of}");
    let sql = format!(
        "SELECT c.relname || '.' || a.attnum || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) \
           || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END \
           || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') AS line \
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
         LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE {of} \
         UNION ALL SELECT c.relname || ' index ' || regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING', '') \
         FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid WHERE {of} \
         UNION ALL SELECT c.relname || ' ' || pg_get_constraintdef(k.oid) \
         FROM pg_class c JOIN pg_constraint k ON k.conrelid = c.oid WHERE {of} \
         UNION ALL SELECT t.typname || ' ' || e.enumsortorder || ' ' || e.enumlabel \
         FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid WHERE t.typnamespace = current_schema()::regnamespace \
         ORDER BY line"
    );
    database.texts(&sql).await.into_iter().flatten().collect()
}

async fn labels(database: &Database, name: &str) -> Vec<String> {
    let sql = format!("SELECT unnest(enum_range(NULL::{name}))::text");
    database.texts(&sql).await.into_iter().flatten().collect()
}

/// A1-01: an empty database, migrated by the program, has the locked columns, types, nullability, defaults and indexes,
/// and enums of exactly 18 and 8 labels.
#[tokio::test]
async fn an_empty_database_gets_the_locked_schema() {
    let database = fresh_schema().await;
    migrate(&database, "up").unwrap();
    let shape = shape(&database, &["outbox_events"]).await;
    let of_table: Vec<&str> = shape
        .iter()
        .filter_map(|line| line.strip_prefix("outbox_events"))
        .collect();
    // As ticket PF-060 has it.
    let locked = [
        " PRIMARY KEY (id)",
        " index  btree (aggregate_type, aggregate_id)",
        " index  btree (event_type)",
        " index  btree (id)",
        " index  btree (published_at)",
        ".1 id uuid NOT NULL",
        ".2 event_type event_type_enum NOT NULL",
        ".3 aggregate_type aggregate_type_enum NOT NULL",
        ".4 aggregate_id uuid NOT NULL",
        ".5 payload_json jsonb NOT NULL",
        ".6 created_at timestamp with time zone NOT NULL DEFAULT now()",
        ".7 published_at timestamp with time zone",
        ".8 attempt_count integer NOT NULL DEFAULT 0",
        ".9 last_error text",
    ];
    let without_not_null: BTreeSet<&str> = of_table
        .into_iter()
        // Newer servers list NOT NULL as constraints too.
        .filter(|line| !line.starts_with(" NOT NULL"))
        .collect();
    assert_eq!(without_not_null, BTreeSet::from(locked));
    let event_types = [
        "order_created",
        "order_state_changed",
        "line_item_state_changed",
        "license_status_changed",
        "media_uploaded",
        "payment_settled",
        "cash_collected",
        "vendor_payout_recorded",
        "notification_requested",
        "order_expired",
        "order_canceled",
        "reservation_released",
        "ad_created",
        "ad_updated",
        "ad_paused",
        "ad_activated",
        "ad_expired",
        "ad_daily_rollup_ready",
    ];
    assert_eq!(labels(&database, "event_type_enum").await, event_types);
    let aggregate_types = [
        "vendor_order",
        "checkout_group",
        "license",
        "store",
        "media",
        "ledger_event",
        "notification",
        "ad",
    ];
    assert_eq!(
        labels(&database, "aggregate_type_enum").await,
        aggregate_types
    );
}

/// S0-24, S1-04: the labels of the enums are the catalogue's, in its order, and the registry has each event type.
#[tokio::test]
async fn the_registry_has_the_event_types_of_the_table() {
    let database = fresh_schema().await;
    migrations::up(&database.pool).await.unwrap();
    let event_types: Vec<&str> = EventType::ALL.iter().map(|of| of.label()).collect();
    assert_eq!(labels(&database, "event_type_enum").await, event_types);
    let aggregate_types: Vec<&str> = AggregateType::ALL.iter().map(|of| of.label()).collect();
    assert_eq!(
        labels(&database, "aggregate_type_enum").await,
        aggregate_types
    );
    let registry = Registry::load().unwrap();
    let registered: BTreeSet<&str> = registry.entries().map(|(name, _)| name).collect();
    assert_eq!(registered, event_types.into_iter().collect());
}

/// S1-07: the locked table is the one that Postrider's layout knows.
#[tokio::test]
async fn the_migrated_outbox_is_the_layouts() {
    let (migrated, initialised) = (fresh_schema().await, fresh_schema().await);
    migrations::up(&migrated.pool).await.unwrap();
    let layout = Layout::preset("packfinderz").unwrap();
    let options = InitOptions {
        claim_index: false,
        notify: false,
    };
    postgres::init(&initialised.pool, &layout, &options)
        .await
        .unwrap();
    let both = ["outbox_events", "postrider_audit"];
    assert_eq!(
        shape(&migrated, &both).await,
        shape(&initialised, &both).await
    );
}

/// S1-02: up, all the way down, and up again gives the same; each step down takes back what its step up made.
#[tokio::test]
async fn migrations_go_up_down_and_up_again() {
    let database = fresh_schema().await;
    let applied = migrate(&database, "up").unwrap();
    assert_eq!(applied.lines().count(), MIGRATIONS.len(), "{applied}");
    let whole = shape(&database, &[]).await;
    assert_eq!(migrate(&database, "up").unwrap(), "", "nothing is missing");

    let mut left = whole.len();
    for migration in MIGRATIONS.iter().rev() {
        let told = migrate(&database, "down").unwrap();
        assert!(told.contains(migration.name), "{told}");
        let now = shape(&database, &[]).await.len();
        assert!(now < left, "{told} took nothing back");
        left = now;
    }
    assert_eq!(left, 0);
    assert_eq!(migrate(&database, "down").unwrap(), "nothing is applied\n");
    let none = migrate(&database, "status").unwrap();
    assert_eq!(
        none.matches("not applied").count(),
        MIGRATIONS.len() + 1,
        "{none}"
    );

    // Two at once: one of them finds nothing to do.
    let (one, other) = tokio::join!(
        migrations::up(&database.pool),
        migrations::up(&database.pool)
    );
    assert_eq!(one.unwrap().len() + other.unwrap().len(), MIGRATIONS.len());
    assert_eq!(shape(&database, &[]).await, whole);
    let recorded = "SELECT version::text FROM schema_migrations ORDER BY version";
    let recorded: Vec<_> = database
        .texts(recorded)
        .await
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(recorded, ["1", "2", "3", "4"]);
}

/// S1-83: the claim index comes only when it is asked for, and goes first.
#[tokio::test]
async fn the_claim_index_is_a_migration_of_its_own() {
    let database = fresh_schema().await;
    migrate(&database, "up").unwrap();
    let locked = shape(&database, &[]).await;
    migrate(&database, "claim-index").unwrap();
    let with = shape(&database, &[]).await;
    let more: Vec<_> = with.iter().filter(|line| !locked.contains(line)).collect();
    assert_eq!(
        more,
        ["outbox_events index  btree (created_at, id) WHERE (published_at IS NULL)"]
    );
    let status = migrate(&database, "status").unwrap();
    assert!(!status.contains("not applied"), "{status}");
    assert!(
        migrate(&database, "down")
            .unwrap()
            .contains(CLAIM_INDEX.name)
    );
    assert_eq!(shape(&database, &[]).await, locked);
}

/// S0-03: a step that would break a promise, or that fails in the middle, leaves everything as it was.
#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_behind() {
    let database = fresh_schema().await;
    database
        .execute("CREATE TABLE notifications (id int)")
        .await;
    let error = migrate(&database, "up").unwrap_err();
    assert!(error.contains("migration notifications"), "{error}");
    assert_eq!(database.count("schema_migrations").await, 2);
    database.execute("DROP TABLE notifications").await;
    migrate(&database, "up").unwrap();
    for _ in 0..3 {
        migrate(&database, "down").unwrap();
    }
    let unpublished = "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
         VALUES (gen_random_uuid(), 'ad_paused', 'ad', gen_random_uuid(), '{}')";
    database.execute(unpublished).await;
    let error = migrate(&database, "down").unwrap_err();
    assert!(error.contains("not published"), "{error}");
    assert_eq!(database.count("outbox_events").await, 1);
    assert_eq!(database.count("schema_migrations").await, 1);
    assert!(
        migrate(&database, "sideways")
            .unwrap_err()
            .contains("usage")
    );
}

/// S1-03: the model has the table's columns in their order, reads their types, and may be without a value exactly where
/// they may.
#[tokio::test]
async fn the_row_model_is_the_table() {
    let database = fresh_schema().await;
    migrations::up(&database.pool).await.unwrap();
    database
        .execute(
            "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
             VALUES (gen_random_uuid(), 'ad_paused', 'ad', gen_random_uuid(), '{}')",
        )
        .await;
    let row = sqlx::query_as("SELECT * FROM outbox_events");
    let row: OutboxEvent = row.fetch_one(&database.pool).await.unwrap();
    let fields = serde_json::to_string(&row).unwrap();
    let columns = "SELECT attname || CASE WHEN attnotnull THEN '' ELSE '?' END FROM pg_attribute \
         WHERE attrelid = 'outbox_events'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    let columns: Vec<_> = database
        .texts(columns)
        .await
        .into_iter()
        .flatten()
        .collect();
    let places: Vec<Option<usize>> = columns
        .iter()
        .map(|column| fields.find(&format!("\"{}\":", column.trim_end_matches('?'))))
        .collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{columns:?} {fields}"
    );
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&fields).unwrap();
    assert_eq!(fields.len(), columns.len());
    // This row has no value wherever it may.
    let optional: BTreeSet<String> = fields
        .iter()
        .filter(|(_, value)| value.is_null())
        .map(|(name, _)| format!("{name}?"))
        .collect();
    let nullable: BTreeSet<String> = columns
        .into_iter()
        .filter(|column| column.ends_with('?'))
        .collect();
    assert_eq!(optional, nullable);
}
