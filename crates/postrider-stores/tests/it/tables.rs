//! Tables that cannot work are refused, with what would mend them.

use postrider_core::layout::PRESETS;
use postrider_core::{
    Diagnosis as _, Fate, Finding, Level, Limits, OutboxStore as _, Share, StoreError, Want,
};
use postrider_stores::postgres::{InitOptions, Options, PostgresStore, init};

use crate::check::{about, refuses};
use crate::world::{World, world, world_with};

const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// A table of one's own, with these columns beside its payload and its flag.
async fn own(ordering: &str, order: &str, columns: &str, more: &str) -> World {
    let layout = format!(
        "table = 'own'\nclaim = 'hold'\norder = [{order}]\nordering = '{ordering}'\ntopic = 't'\n\
         [columns]\nid = 'id'\nkey = 'k'\npayload = 'p'\ncreated_at = 'at'\n[state]\nkind = 'flag'\npublished = 'done'"
    );
    let table = format!(
        "CREATE TABLE own ({columns}, k text, p json NOT NULL DEFAULT '{{}}', \
         done boolean NOT NULL DEFAULT false){more}"
    );
    world_with("custom", &layout, &table).await
}

const AT: &str = "at timestamptz NOT NULL DEFAULT clock_timestamp()";
const BY_TIME: &str = "'at', 'id'";

async fn publishes(world: &World, records: usize) {
    let claim = world.store().claim(ALL).await.unwrap().expect("records");
    assert_eq!(claim.records().len(), records);
    claim.settle(&vec![Fate::Published; records]).await.unwrap();
    assert_eq!(world.database.count("own WHERE NOT done").await, 0);
}

fn errors(findings: &[Finding]) -> Vec<&Finding> {
    let error = |finding: &&Finding| finding.level == Level::Error;
    findings.iter().filter(error).collect()
}

#[tokio::test]
async fn an_id_that_may_come_twice_is_refused_with_the_index_that_mends_it() {
    for (id, more) in [
        ("uuid NOT NULL", ""),
        ("bigint", ""),
        ("uuid NOT NULL", "; CREATE INDEX ON own (id)"),
        ("uuid NOT NULL", "; CREATE UNIQUE INDEX ON own (id, k)"),
        (
            "uuid NOT NULL",
            "; CREATE UNIQUE INDEX ON own (id) WHERE NOT done",
        ),
        ("text NOT NULL", "; CREATE UNIQUE INDEX ON own (lower(id))"),
        ("uuid UNIQUE DEFERRABLE", ""),
        (
            "uuid NOT NULL",
            "; CREATE UNIQUE INDEX i ON own (id); \
             UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'i'::regclass",
        ),
    ] {
        let world = own("key", BY_TIME, &format!("id {id}, {AT}"), more).await;
        let words = [
            "column id",
            "may come twice",
            "CREATE UNIQUE INDEX CONCURRENTLY",
        ];
        let findings = refuses(&world.store(), &words).await;
        let remedy = about(&findings, "id").remedy.clone().unwrap();
        world.database.execute(&remedy).await;
        assert_eq!(
            errors(&world.store().check().await.unwrap()),
            [&findings[0]; 0],
            "{id} {more}"
        );
    }
    for id in [
        "uuid PRIMARY KEY",
        "bigint NOT NULL UNIQUE",
        "uuid UNIQUE NOT NULL",
    ] {
        let world = own("key", BY_TIME, &format!("id {id}, {AT}"), "").await;
        assert_eq!(world.store().check().await.unwrap(), [], "{id}");
    }
    let covering = "; CREATE UNIQUE INDEX ON own (id) INCLUDE (k)";
    let world = own("key", BY_TIME, &format!("id uuid NOT NULL, {AT}"), covering).await;
    assert_eq!(world.store().check().await.unwrap(), []);
}

/// A unique index of a partitioned table must hold what the table is partitioned by.
#[tokio::test]
async fn an_id_that_is_unique_in_each_partition_is_taken_with_a_word() {
    let parts = " PARTITION BY RANGE (at); CREATE TABLE one PARTITION OF own FOR VALUES FROM ('2020-01-01') TO ('2100-01-01')";
    let columns = format!("id uuid NOT NULL, {AT}");
    let world = own("key", BY_TIME, &columns, parts).await;
    let findings = refuses(&world.store(), &["may come twice", "(\"id\", \"at\")"]).await;
    let remedy = about(&findings, "id").remedy.clone().unwrap();
    assert!(!remedy.contains("CONCURRENTLY"), "{remedy}");
    world.database.execute(&remedy).await;
    let findings = world.store().check().await.unwrap();
    let id = about(&findings, "id");
    assert_eq!(id.level, Level::Warning, "{id:?}");
    assert!(id.message.contains("only together with at"), "{id:?}");
    world
        .database
        .execute("INSERT INTO own (id, k) SELECT gen_random_uuid(), 'k' FROM generate_series(1, 3)")
        .await;
    publishes(&world, 3).await;

    // The database draws these, so that they do not come twice.
    let columns = format!("id bigint GENERATED ALWAYS AS IDENTITY, {AT}, PRIMARY KEY (id, at)");
    let world = own("key", BY_TIME, &columns, parts).await;
    let findings = world.store().check().await.unwrap();
    assert_eq!(about(&findings, "id").level, Level::Note, "{findings:?}");

    // No unique index at all can be made on such a table, only on its partitions.
    let listed = " PARTITION BY LIST ((n % 2)); CREATE TABLE one PARTITION OF own FOR VALUES IN (0); \
                  CREATE TABLE two PARTITION OF own FOR VALUES IN (1); CREATE UNIQUE INDEX ON one (id)";
    let columns = format!("id uuid NOT NULL, n bigserial, {AT}");
    let world = own("key", BY_TIME, &columns, listed).await;
    refuses(&world.store(), &["may come twice", "each partition"]).await;
    world
        .database
        .execute("CREATE UNIQUE INDEX ON two (id)")
        .await;
    let findings = world.store().check().await.unwrap();
    let id = about(&findings, "id");
    assert_eq!(id.level, Level::Warning, "{id:?}");
}

#[tokio::test]
async fn ids_that_are_null_are_warned_of_and_counted() {
    let world = own("key", BY_TIME, &format!("id bigint UNIQUE, {AT}"), "").await;
    let findings = world.store().check().await.unwrap();
    let id = about(&findings, "id");
    assert_eq!(id.level, Level::Warning, "{id:?}");
    assert!(id.message.contains("may be NULL"), "{id:?}");
    let limits = Limits {
        relay_runs: true,
        ..Limits::default()
    };
    world
        .database
        .execute("INSERT INTO own (id, k, done) VALUES (1, 'a', false), (NULL, 'a', true)")
        .await;
    let nulls = async |store: &PostgresStore| {
        let findings = store.diagnose(&limits).await.unwrap();
        findings.into_iter().find(|finding| finding.subject == "id")
    };
    assert_eq!(
        nulls(&world.store()).await,
        None,
        "what is published needs no id"
    );
    world
        .database
        .execute("INSERT INTO own (id, k) VALUES (NULL, 'a'), (NULL, 'b')")
        .await;
    let found = nulls(&world.store()).await.expect("two of them");
    assert_eq!(found.level, Level::Error);
    assert!(found.message.starts_with("2 records"), "{}", found.message);
    let remedy = found.remedy.unwrap();
    assert!(
        remedy.contains("UPDATE ") && remedy.contains("SET NOT NULL"),
        "{remedy}"
    );
    world
        .database
        .execute("UPDATE own SET id = 10 + n FROM (SELECT ctid AS c, row_number() OVER () AS n FROM own WHERE id IS NULL) AS x WHERE ctid = c")
        .await;
    world.database.execute(id.remedy.as_ref().unwrap()).await;
    assert_eq!(world.store().check().await.unwrap(), []);
    assert_eq!(nulls(&world.store()).await, None);
}

#[tokio::test]
async fn order_columns_that_cannot_order_a_key_are_refused() {
    let uuid = "id uuid PRIMARY KEY DEFAULT gen_random_uuid()";
    let zoneless = "at timestamp NOT NULL DEFAULT clock_timestamp()";
    let coarse = |kind: &str| format!("{uuid}, at {kind} NOT NULL DEFAULT clock_timestamp()");
    let cases = [
        (BY_TIME, coarse("timestamptz(3)"), "3 digits of a second"),
        (BY_TIME, coarse("timestamp(3)"), "3 digits of a second"),
        (BY_TIME, coarse("timestamptz(0)"), "whole seconds"),
        ("'d', 'id'", format!("{uuid}, {AT}, d date"), "whole days"),
        ("'f', 'id'", format!("{uuid}, {AT}, f real"), "six digits"),
        ("'w', 'id'", format!("{uuid}, {AT}, w time"), "every day"),
        ("'at'", coarse("timestamptz(5)"), "5 digits of a second"),
        ("'id'", format!("{uuid}, {AT}"), "random"),
        (
            "'c', 'at', 'id'",
            format!("{uuid}, {AT}, c boolean"),
            "two values",
        ),
    ];
    for (order, columns, words) in &cases {
        let world = own("key", order, columns, "").await;
        let remedies = ["sequence", "ordering = \"none\"", words];
        refuses(&world.store(), &remedies).await;
        let world = own("none", order, columns, "").await;
        let findings = world.store().check().await.unwrap();
        assert!(
            findings.iter().all(|finding| finding.level == Level::Note),
            "{findings:#?}"
        );
        assert!(
            findings
                .iter()
                .any(|finding| finding.message.contains(words)),
            "{findings:#?}"
        );
        world.store().backlog().await.unwrap();
    }
    let warned = [
        (
            BY_TIME,
            format!("{uuid}, {zoneless}"),
            "without a time zone",
        ),
        (
            "'id'",
            format!("id uuid PRIMARY KEY, {AT}"),
            "whoever writes",
        ),
        (
            "'id'",
            format!("id text PRIMARY KEY, {AT}"),
            "whoever writes",
        ),
    ];
    for (order, columns, words) in warned {
        let world = own("key", order, &columns, "").await;
        let findings = world.store().check().await.unwrap();
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert_eq!(findings[0].level, Level::Warning, "{findings:#?}");
        assert!(findings[0].message.contains(words), "{findings:#?}");
        world.store().backlog().await.unwrap();
    }
}

/// What a coarse time leaves open, a sequence behind it decides.
#[tokio::test]
async fn a_sequence_behind_a_coarse_time_is_enough() {
    let uuid = "id uuid PRIMARY KEY DEFAULT gen_random_uuid()";
    let coarse = "at timestamptz(3) NOT NULL DEFAULT clock_timestamp()";
    for (order, columns) in [
        ("'at', 'n'", format!("{uuid}, {coarse}, n bigserial")),
        (
            "'at', 'id'",
            format!("id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {coarse}"),
        ),
        ("'n'", format!("{uuid}, {coarse}, n bigserial")),
        (
            BY_TIME,
            format!("{uuid}, at timestamptz(6) NOT NULL DEFAULT clock_timestamp()"),
        ),
    ] {
        let world = own("key", order, &columns, "").await;
        assert_eq!(
            world.store().check().await.unwrap(),
            [],
            "{order} {columns}"
        );
    }
    for preset in PRESETS {
        for ordering in ["key", "none"] {
            if preset == "gopipe" && ordering == "key" {
                continue; // It has no key.
            }
            let world = world(preset, &format!("ordering = '{ordering}'")).await;
            let findings = world.store().check().await.unwrap();
            assert_eq!(
                errors(&findings),
                [] as [&Finding; 0],
                "{preset} {ordering}"
            );
        }
    }
}

/// Claims with order per key look at every record that is not published, so an index of some of them is of no use.
#[tokio::test]
async fn an_index_that_claims_cannot_use_is_no_index_for_them() {
    for (ordering, condition, serves) in [
        (
            "key",
            "published_at IS NULL AND status IN ('pending', 'failed')",
            false,
        ),
        (
            "key",
            "published_at IS NULL AND status IN ('pending', 'failed', 'publishing')",
            false,
        ),
        (
            "key",
            "status IN ('pending', 'failed', 'publishing', 'dead_lettered')",
            false,
        ),
        ("key", "published_at IS NULL", true),
        (
            "none",
            "published_at IS NULL AND status IN ('pending', 'failed', 'publishing')",
            true,
        ),
        (
            "none",
            "published_at IS NULL AND status IN ('pending', 'failed')",
            false,
        ),
    ] {
        let world = world("talkie", &format!("ordering = '{ordering}'")).await;
        let index = format!(
            "DROP INDEX outbox_postrider_claim; CREATE INDEX mine ON outbox (created_at, id) WHERE {condition}"
        );
        world.database.execute(&index).await;
        let findings = world.store().check().await.unwrap();
        let missing = findings.iter().find(|finding| {
            finding
                .message
                .contains("holds the pending records in order")
        });
        assert_eq!(
            missing.is_none(),
            serves,
            "{ordering} {condition}: {findings:#?}"
        );
        if let Some(missing) = missing {
            world
                .database
                .execute(missing.remedy.as_ref().unwrap())
                .await;
            let findings = world.store().check().await.unwrap();
            assert!(
                findings.iter().all(|finding| finding.level == Level::Note),
                "{findings:#?}"
            );
        }
    }
}

const DOMAINS: &str = "CREATE DOMAIN short AS varchar(20); CREATE DOMAIN shorter AS short NOT NULL; \
    CREATE TYPE colour AS ENUM ('red', 'green'); CREATE DOMAIN paint AS colour; CREATE DOMAIN coat AS paint; \
    CREATE DOMAIN number AS bigint; CREATE DOMAIN moment AS timestamptz(3); CREATE DOMAIN moments AS moment; ";

#[tokio::test]
async fn a_domain_is_what_it_is_made_of() {
    let layout = "table = 'own'\nclaim = 'hold'\norder = ['id']\nordering = 'key'\ntopic = 't'\n\
                  [columns]\nid = 'id'\nkey = 'k'\nevent_type = 'c'\npayload = 'p'\ncreated_at = 'at'\n\
                  attempts = 'tries'\nlast_error = 'why'\n\
                  [state]\nkind = 'timestamp'\npublished_at = 'sent'";
    let table = format!(
        "{DOMAINS} CREATE DOMAIN instant AS timestamptz; CREATE DOMAIN tries AS number CHECK (VALUE < 1000); \
         CREATE TABLE own (id number PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY, k shorter, c coat, p json, \
         at instant DEFAULT clock_timestamp(), tries tries DEFAULT 0, why short, sent instant)"
    )
    .replace("id number PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY", "id number PRIMARY KEY DEFAULT nextval('ids')")
    .replacen("CREATE TABLE", "CREATE SEQUENCE ids; CREATE TABLE", 1);
    let world = world_with("custom", layout, &table).await;
    let findings = world.store().check().await.unwrap();
    let tries = about(&findings, "tries");
    assert_eq!(tries.level, Level::Note, "{tries:?}");
    assert!(
        tries.message.contains("domain") && tries.message.contains("CHECK"),
        "{tries:?}"
    );
    assert_eq!(findings.len(), 1, "{findings:#?}");
    world
        .database
        .execute("INSERT INTO own (k, c) VALUES ('k', 'red')")
        .await;
    let store = world.store();
    let claim = store.claim(ALL).await.unwrap().unwrap();
    let retry = Fate::Retry {
        attempts: 1,
        after: std::time::Duration::ZERO,
        error: "much longer than twenty characters".into(),
    };
    claim.settle(&[retry]).await.unwrap();
    let why = world
        .database
        .text("SELECT why::text FROM own")
        .await
        .unwrap();
    assert!(why.starts_with("much longer"), "{why}");

    // What an event brings is measured before the insert.
    let event = |key: &str, event_type: &str| postrider_core::Event::raw(event_type, "{}").key(key);
    for (event, column) in [
        (
            event("k that has over twenty characters", "red"),
            "column k",
        ),
        (event("k", "blue"), "column c"),
    ] {
        let mut tx = world.database.pool.begin().await.unwrap();
        let error = world
            .outbox
            .emit(&mut tx, event)
            .await
            .expect_err("is refused");
        assert!(error.to_string().contains(column), "{error}");
        sqlx::query("SELECT 1").execute(&mut *tx).await.unwrap();
    }
}

#[tokio::test]
async fn a_domain_of_a_coarse_time_cannot_order_either() {
    let columns = "id uuid PRIMARY KEY DEFAULT gen_random_uuid(), at moments NOT NULL DEFAULT clock_timestamp()";
    let layout = "table = 'own'\nclaim = 'hold'\norder = ['at', 'id']\nordering = 'key'\ntopic = 't'\n\
                  [columns]\nid = 'id'\nkey = 'k'\npayload = 'p'\ncreated_at = 'at'\n[state]\nkind = 'delete'";
    let table = format!("{DOMAINS} CREATE TABLE own ({columns}, k text, p json)");
    let world = world_with("custom", layout, &table).await;
    match world.store().claim(ALL).await {
        Err(StoreError::Mismatch(text)) => assert!(text.contains("3 digits"), "{text}"),
        other => panic!("{:?}", other.map(drop)),
    }
}

/// A table's own CHECK on what failures are written to may refuse them.
#[tokio::test]
async fn a_check_on_the_error_is_noted() {
    let world = world("polyshop", "").await;
    world
        .database
        .execute(
            "ALTER TABLE outbox_events ADD CONSTRAINT brief CHECK (length(error_message) < 20)",
        )
        .await;
    let findings = world.store().check().await.unwrap();
    let error = about(&findings, "error_message");
    assert_eq!(error.level, Level::Note, "{error:?}");
    assert!(error.message.contains("brief"), "{error:?}");
}

/// A view has no indexes, and a table's do not speak for those that inherit from it.
#[tokio::test]
async fn where_uniqueness_cannot_be_seen_it_is_said_and_records_are_published() {
    let columns = "(id uuid PRIMARY KEY, k text, p json, at timestamptz NOT NULL DEFAULT clock_timestamp(), \
                   done boolean NOT NULL DEFAULT false)";
    let view = format!("CREATE TABLE base {columns}; CREATE VIEW own AS SELECT * FROM base");
    let parent = format!("CREATE TABLE own {columns}; CREATE TABLE base () INHERITS (own)");
    let layout = "table = 'own'\nclaim = 'hold'\norder = ['at', 'id']\nordering = 'key'\ntopic = 't'\n\
                  [columns]\nid = 'id'\nkey = 'k'\npayload = 'p'\ncreated_at = 'at'\n\
                  [state]\nkind = 'flag'\npublished = 'done'";
    for (sql, words) in [(view, "a view"), (parent, "inherit")] {
        let database = postrider_testkit::database::fresh_schema().await;
        database.execute(&sql).await;
        let layout = crate::world::layout("custom", layout);
        let init_options = InitOptions::default();
        init(&database.pool, &layout, &init_options).await.unwrap();
        let store = PostgresStore::new(database.pool.clone(), Options::new(layout));
        let findings = store.check().await.unwrap();
        assert_eq!(errors(&findings), [] as [&Finding; 0]);
        let id = findings
            .iter()
            .find(|finding| finding.subject == "id")
            .unwrap();
        assert_eq!(id.level, Level::Warning, "{id:?}");
        assert!(id.message.contains(words), "{id:?}");
        let insert = "INSERT INTO base (id, k, p) VALUES (gen_random_uuid(), 'k', '{}')";
        database.execute(insert).await;
        let claim = store.claim(ALL).await.unwrap().expect("a record");
        claim.settle(&[Fate::Published]).await.unwrap();
        assert_eq!(database.count("base WHERE done").await, 1);
        assert_eq!(database.count("own WHERE NOT done").await, 0);
    }
}
