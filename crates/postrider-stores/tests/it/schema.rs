//! What `init` creates, and what it leaves alone.

use futures::future::join_all;
use postrider_core::Diagnosis as _;
use postrider_core::layout::PRESETS;
use postrider_stores::postgres::{
    InboxLayout, InitOptions, PostgresStore, connect, ddl, inbox, init,
};
use postrider_testkit::database::{Database, fresh_schema};

use crate::world::{layout, world};

const PLAIN: InitOptions = InitOptions {
    claim_index: false,
    notify: false,
};
const FULL: InitOptions = InitOptions {
    claim_index: true,
    notify: true,
};

/// `name type NOT NULL DEFAULT …`, in the table's order.
pub(crate) async fn columns(database: &Database, table: &str) -> Vec<String> {
    let sql = format!(
        "SELECT a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END \
         || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') \
         FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = '{table}'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    database.texts(&sql).await.into_iter().flatten().collect()
}

async fn indexes(database: &Database, table: &str) -> Vec<String> {
    let sql = format!(
        "SELECT regexp_replace(pg_get_indexdef(indexrelid), '^.* USING btree ', '') FROM pg_index \
         WHERE indrelid = '{table}'::regclass ORDER BY 1"
    );
    database.texts(&sql).await.into_iter().flatten().collect()
}

#[tokio::test]
async fn the_packfinderz_table_is_the_locked_one() {
    // A1-01
    let database = fresh_schema().await;
    init(&database.pool, &layout("packfinderz", ""), &PLAIN)
        .await
        .unwrap();
    assert_eq!(
        columns(&database, "outbox_events").await,
        [
            "id uuid NOT NULL",
            "event_type event_type_enum NOT NULL",
            "aggregate_type aggregate_type_enum NOT NULL",
            "aggregate_id uuid NOT NULL",
            "payload_json jsonb NOT NULL",
            "created_at timestamp with time zone NOT NULL DEFAULT now()",
            "published_at timestamp with time zone",
            "attempt_count integer NOT NULL DEFAULT 0",
            "last_error text",
        ]
    );
    let expected = [
        "(aggregate_type, aggregate_id)",
        "(event_type)",
        "(id)",
        "(published_at)",
    ];
    assert_eq!(indexes(&database, "outbox_events").await, expected);
    for (name, labels) in [("event_type_enum", 18), ("aggregate_type_enum", 8)] {
        let from = format!("pg_enum WHERE enumtypid = '{name}'::regtype");
        assert_eq!(database.count(&from).await, labels, "{name}");
    }
    // The outbox and, beside it, the audit of what operators do.
    assert_eq!(
        database
            .number("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()")
            .await,
        2
    );
}

#[tokio::test]
async fn an_unknown_event_type_is_refused_by_the_database_itself() {
    // A1-02
    let database = fresh_schema().await;
    init(&database.pool, &layout("packfinderz", ""), &PLAIN)
        .await
        .unwrap();
    let insert = "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
                  VALUES (gen_random_uuid(), 'license_lost', 'license', gen_random_uuid(), '{}')";
    let error = sqlx::query(insert)
        .execute(&database.pool)
        .await
        .unwrap_err();
    assert_eq!(
        error
            .as_database_error()
            .and_then(|error| error.code())
            .as_deref(),
        Some("22P02")
    );
}

#[tokio::test]
async fn the_gopipe_tables_are_the_stated_ones() {
    // A4-02
    let database = fresh_schema().await;
    init(&database.pool, &layout("gopipe", ""), &PLAIN)
        .await
        .unwrap();
    inbox::init(&database.pool, &InboxLayout::gopipe())
        .await
        .unwrap();
    assert_eq!(
        columns(&database, "outbox").await,
        [
            "id bigint NOT NULL DEFAULT nextval('outbox_id_seq'::regclass)",
            "created_at timestamp with time zone NOT NULL DEFAULT now()",
            "topic text NOT NULL",
            "event_type text NOT NULL",
            "data jsonb NOT NULL",
            "attributes jsonb NOT NULL",
            "published boolean NOT NULL DEFAULT false",
        ]
    );
    assert_eq!(
        columns(&database, "processed_messages").await,
        [
            "subscriber text NOT NULL",
            "message_id text NOT NULL",
            "created_at timestamp with time zone NOT NULL DEFAULT now()",
        ]
    );
    let keys = indexes(&database, "processed_messages").await;
    assert!(
        keys.contains(&"(subscriber, message_id)".into()),
        "{keys:?}"
    );
    let claim = "(id) WHERE (published = false)".to_owned();
    assert!(indexes(&database, "outbox").await.contains(&claim));
}

#[tokio::test]
async fn every_preset_has_the_columns_of_its_source() {
    let database = fresh_schema().await;
    for (preset, table, expected) in [
        (
            "talkie",
            "talkie",
            "id topic key idempotency_key payload_json status next_attempt_at last_attempt_at published_at retry_count last_error created_at",
        ),
        (
            "polyshop",
            "polyshop",
            "id aggregate_id event_type version payload created_at processed processed_at error_message metadata",
        ),
        (
            "debezium",
            "debezium",
            "id aggregatetype aggregateid type payload created_at",
        ),
    ] {
        init(
            &database.pool,
            &layout(preset, &format!("table = '{table}'")),
            &PLAIN,
        )
        .await
        .unwrap();
        let columns = columns(&database, table).await;
        let names: Vec<&str> = columns
            .iter()
            .filter_map(|column| column.split(' ').next())
            .collect();
        assert_eq!(names.join(" "), expected);
    }
    let unique = indexes(&database, "talkie").await;
    assert!(
        unique.contains(&"(topic, idempotency_key)".into()),
        "{unique:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_exists_until_init_and_sixteen_at_once_succeed() {
    // A4-01
    for preset in PRESETS {
        let database = fresh_schema().await;
        let layout = layout(preset, "table = 'my_events'");
        drop(PostgresStore::new(
            database.pool.clone(),
            postrider_stores::postgres::Options::new(layout.clone()),
        ));
        assert_eq!(database.text("SELECT to_regclass('my_events')").await, None);
        let pools: Vec<_> = (0..16)
            .map(|_| connect(&database.url, 1).unwrap())
            .collect();
        for pool in &pools {
            pool.acquire().await.unwrap(); // Connected already, so that they really start together.
        }
        for result in join_all(pools.iter().map(|pool| init(pool, &layout, &FULL))).await {
            result.unwrap();
        }
        init(&database.pool, &layout, &FULL).await.unwrap();
        assert_eq!(database.count("my_events").await, 0);
        let triggers = "pg_trigger WHERE tgrelid = 'my_events'::regclass AND NOT tgisinternal";
        assert_eq!(database.count(triggers).await, 1);
    }
}

#[tokio::test]
async fn printed_statements_may_be_run_one_by_one_and_again() {
    for preset in PRESETS {
        let database = fresh_schema().await;
        let statements = ddl(&layout(preset, ""), &FULL);
        for statement in statements.iter().chain(&statements) {
            database.execute(statement).await;
        }
        let world = layout(preset, "");
        let store = PostgresStore::new(
            database.pool.clone(),
            postrider_stores::postgres::Options::new(world),
        );
        assert_eq!(
            postrider_core::OutboxStore::backlog(&store)
                .await
                .unwrap()
                .pending,
            0
        );
    }
}

#[tokio::test]
async fn a_table_that_is_there_is_not_altered() {
    let database = fresh_schema().await;
    database.execute("CREATE TABLE outbox (id int)").await;
    for preset in ["talkie", "gopipe", "debezium"] {
        init(&database.pool, &layout(preset, ""), &PLAIN)
            .await
            .unwrap();
    }
    assert_eq!(columns(&database, "outbox").await, ["id integer"]);
    assert!(indexes(&database, "outbox").await.is_empty());
}

#[tokio::test]
async fn an_existing_table_gets_its_indexes_when_asked() {
    let database = fresh_schema().await;
    init(&database.pool, &layout("packfinderz", ""), &PLAIN)
        .await
        .unwrap();
    let ordered = layout("packfinderz", "ordering = 'key'");
    init(
        &database.pool,
        &ordered,
        &InitOptions {
            claim_index: true,
            notify: false,
        },
    )
    .await
    .unwrap();
    let indexes = indexes(&database, "outbox_events").await;
    assert!(
        indexes.contains(&"(created_at, id) WHERE (published_at IS NULL)".into()),
        "{indexes:?}"
    );
    let troubled = "(created_at, id) WHERE ((published_at IS NULL) AND (attempt_count > 0))";
    assert!(indexes.contains(&troubled.into()), "{indexes:?}");
}

#[tokio::test]
async fn names_that_must_be_quoted_are_quoted_everywhere() {
    use postrider_testkit::conformance::store::records;
    let overrides = r#"
        table = '''we"ird; DROP SCHEMA x; --'''
        [columns]
        payload = '''pay'load"; $postrider$'''
        created_at = "Created At"
    "#;
    for preset in PRESETS {
        let order = if ["gopipe", "native"].contains(&preset) {
            ""
        } else {
            "order = ['Created At', 'id']\n"
        };
        let world = world(preset, &format!("{order}{overrides}")).await;
        init(&world.database.pool, &world.layout, &FULL)
            .await
            .unwrap();
        records::every_fate_of_a_claim_is_written(&world).await;
        assert!(world.store().check().await.is_ok());
    }
}

#[tokio::test]
async fn a_schema_that_a_layout_names_is_made_and_used() {
    let database = fresh_schema().await;
    let other = format!("{}_b", database.schema);
    let layout = layout("polyshop", &format!("table = '{other}.events'"));
    init(&database.pool, &layout, &FULL).await.unwrap();
    init(&database.pool, &layout, &FULL).await.unwrap();
    assert_eq!(database.count(&format!("{other}.events")).await, 0);
    assert_eq!(
        database.count(&format!("{other}.postrider_troubles")).await,
        0,
        "beside the outbox"
    );
    database
        .execute(&format!("DROP SCHEMA {other} CASCADE"))
        .await;
}
