//! What `check` finds, and what makes claims refuse.

use postrider_core::layout::PRESETS;
use postrider_core::{
    Actor, DeadLetters as _, Diagnosis as _, Fate, Finding, Level, OutboxStore, Share, StoreError,
    Want,
};
use postrider_stores::postgres::{InitOptions, Options, PgPool, PostgresStore, init};
use postrider_testkit::database::{Database, fresh_schema};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::world::{World, layout, world, world_with};

const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

fn store(database: &Database, preset: &str, overrides: &str) -> PostgresStore {
    PostgresStore::new(
        database.pool.clone(),
        Options::new(layout(preset, overrides)),
    )
}

/// The one finding about a subject.
pub(crate) fn about<'a>(findings: &'a [Finding], subject: &str) -> &'a Finding {
    let found = findings
        .iter()
        .find(|finding| finding.subject.contains(subject));
    found.unwrap_or_else(|| panic!("nothing about {subject} in {findings:#?}"))
}

/// Claims refuse with the same words.
pub(crate) async fn refuses(store: &PostgresStore, words: &[&str]) -> Vec<Finding> {
    let findings = store.check().await.unwrap();
    let errors: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.level == Level::Error)
        .collect();
    assert!(!errors.is_empty(), "{findings:#?}");
    for result in [
        store.claim(ALL).await.map(drop),
        store.backlog().await.map(drop),
    ] {
        match result {
            Err(StoreError::Mismatch(text)) => {
                assert!(
                    errors.iter().all(|finding| text.contains(&finding.message)),
                    "{text}"
                );
                assert!(words.iter().all(|word| text.contains(word)), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    findings
}

#[tokio::test]
async fn a_fresh_table_has_nothing_wrong() {
    for preset in PRESETS {
        let world = world(preset, "").await;
        let mut findings = world.store().check().await.unwrap();
        // Its index by published_at is its source's own, and is said to cost.
        let own = |finding: &Finding| finding.subject.ends_with("outbox_events_published_at_idx");
        findings.retain(|finding| !(preset == "packfinderz" && own(finding)));
        assert_eq!(findings, [], "{preset}");
    }
}

#[tokio::test]
async fn a_missing_table_or_column_is_named_with_what_was_found() {
    let database = fresh_schema().await;
    refuses(
        &store(&database, "gopipe", ""),
        &["table outbox does not exist", "postrider init"],
    )
    .await;
    init(
        &database.pool,
        &layout("talkie", ""),
        &InitOptions::default(),
    )
    .await
    .unwrap();
    let wrong = store(&database, "gopipe", "");
    let findings = refuses(
        &wrong,
        &["column data (as payload)", "payload_json, status"],
    )
    .await;
    assert!(
        findings
            .iter()
            .any(|finding| finding.subject == "published")
    );
}

#[tokio::test]
async fn a_column_of_the_wrong_type_is_named_with_both_types() {
    let table = "CREATE TABLE outbox_events (id uuid PRIMARY KEY, event_type text, aggregate_type text, \
                 aggregate_id uuid, payload_json json, created_at bigint, published_at boolean, attempt_count text, last_error text)";
    let world = world_with("gopipe", "", table).await;
    let store = store(&world.database, "packfinderz", "");
    let words = [
        "created_at) to be timestamptz or timestamp, but it is bigint",
        "published_at",
        "attempt_count",
    ];
    refuses(&store, &words).await;
}

#[tokio::test]
async fn a_status_type_must_know_every_word() {
    let world = world("talkie", "").await;
    world.database.execute(
        "CREATE TYPE word AS ENUM ('pending', 'publishing', 'published', 'failed'); DROP INDEX outbox_postrider_claim; \
         ALTER TABLE outbox DROP CONSTRAINT outbox_status_check, DROP CONSTRAINT outbox_check, DROP CONSTRAINT outbox_postrider_dead_was_tried, \
         ALTER status DROP DEFAULT, ALTER status TYPE word USING status::word",
    ).await;
    refuses(&world.store(), &["no value `dead_lettered`"]).await;
}

#[tokio::test]
async fn the_side_table_is_asked_for_where_it_is_needed() {
    let world = world("polyshop", "").await;
    world
        .database
        .execute("DROP TABLE postrider_troubles")
        .await;
    refuses(
        &world.store(),
        &["postrider_troubles does not exist", "run `postrider init`"],
    )
    .await;
}

#[tokio::test]
async fn a_missing_index_is_a_warning_whose_remedy_works() {
    for (preset, overrides) in [
        ("packfinderz", ""),
        ("packfinderz", "ordering = 'key'"),
        ("talkie", "ordering = 'key'"),
        ("gopipe", ""),
        ("polyshop", ""),
        ("debezium", ""),
    ] {
        let world = world(preset, overrides).await;
        let ordered = world.layout.ordering == postrider_core::Ordering::Key;
        let drop_indexes = "DO $$ DECLARE i text; BEGIN FOR i IN SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() \
                            AND indexname LIKE '%postrider\\_%' AND tablename NOT IN ('postrider_troubles', 'postrider_audit') LOOP EXECUTE 'DROP INDEX ' || quote_ident(i); END LOOP; END $$";
        world.database.execute(drop_indexes).await;
        let missing = warnings(&world).await;
        let expected = if ordered && preset == "packfinderz" {
            2
        } else {
            1
        };
        assert_eq!(
            missing.len(),
            expected,
            "{preset} {overrides}: {missing:#?}"
        );
        for finding in missing {
            let remedy = finding.remedy.unwrap();
            assert!(remedy.starts_with("CREATE INDEX CONCURRENTLY "), "{remedy}");
            world.database.execute(&remedy).await;
        }
        assert_eq!(warnings(&world).await, [], "{preset} {overrides}");
    }
}

async fn warnings(world: &World) -> Vec<Finding> {
    let findings = world.store().check().await.unwrap();
    findings
        .into_iter()
        .filter(|finding| finding.level == Level::Warning && finding.message.contains("index"))
        .collect()
}

#[tokio::test]
async fn what_reorders_or_loses_events_is_a_warning() {
    let world = world("packfinderz", "ordering = 'key'").await;
    let findings = world.store().check().await.unwrap();
    let now = about(&findings, "created_at");
    assert_eq!(now.level, Level::Warning);
    assert!(now.remedy.as_ref().unwrap().contains("clock_timestamp()"));
    let table = "CREATE SEQUENCE s CACHE 50; CREATE TABLE own (n bigint PRIMARY KEY DEFAULT nextval('s'), k text, p json, \
                 at timestamptz NOT NULL DEFAULT now())";
    let own = "table = 'own'\nclaim = 'hold'\norder = ['n']\nordering = 'key'\ntopic = 't'\n\
               [columns]\nid = 'n'\nkey = 'k'\npayload = 'p'\ncreated_at = 'at'\n[state]\nkind = 'delete'";
    let world = world_with("custom", own, table)
        .await
        .with_session(&[("synchronous_commit", "off")]);
    let findings = world.store().check().await.unwrap();
    assert!(about(&findings, "n").message.contains("CACHE"));
    assert!(
        about(&findings, "synchronous_commit")
            .message
            .contains("lose")
    );
    let identity = "CREATE TABLE own (n bigint GENERATED ALWAYS AS IDENTITY (CACHE 7) PRIMARY KEY, k text, p json, \
                    at timestamptz NOT NULL DEFAULT now())";
    let world = world_with("custom", own, identity).await;
    assert!(
        about(&world.store().check().await.unwrap(), "n")
            .message
            .contains("CACHE")
    );
}

/// A stream takes it that positions are drawn after their transactions have numbers; with a cache they are not.
#[tokio::test]
async fn positions_from_a_cache_are_an_error_in_a_stream() {
    for ordering in ["key", "none"] {
        let world = world("native", &format!("ordering = '{ordering}'")).await;
        world
            .database
            .execute("ALTER SEQUENCE postrider_outbox_position CACHE 20")
            .await;
        let findings = world.store().check().await.unwrap();
        let position = about(&findings, "position");
        assert_eq!(position.level, Level::Error, "{position:?}");
        assert!(position.message.contains("passed over"), "{position:?}");
    }
}

/// A role of the test's own, and a pool that is this role.
pub(crate) struct Role<'a> {
    name: String,
    database: &'a Database,
    pub(crate) pool: PgPool,
}

pub(crate) async fn role<'a>(database: &'a Database, grants: &str) -> Role<'a> {
    let name = format!("{}_role", database.schema);
    database
        .execute(&format!(
            "CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA {} TO {name}",
            database.schema
        ))
        .await;
    database.execute(&grants.replace("ROLE", &name)).await;
    let options: PgConnectOptions = database.url.parse().unwrap();
    let pool = PgPoolOptions::new()
        .max_connections(8)
        .connect_lazy_with(options.username(&name));
    Role {
        name,
        database,
        pool,
    }
}

impl Role<'_> {
    pub(crate) async fn end(self) {
        self.pool.close().await;
        self.database
            .execute(&format!("DROP OWNED BY {0}; DROP ROLE {0}", self.name))
            .await;
    }
}

#[tokio::test]
async fn three_columns_are_all_that_a_packfinderz_relay_needs_to_write() {
    // A1-03
    let world = world("packfinderz", "ordering = 'key'").await;
    let grants = "GRANT SELECT ON outbox_events TO ROLE; GRANT UPDATE (published_at, attempt_count, last_error) ON outbox_events TO ROLE";
    let role = role(&world.database, grants).await;
    let store = PostgresStore::new(role.pool.clone(), Options::new(world.layout.clone()));
    let errors = store
        .check()
        .await
        .unwrap()
        .into_iter()
        .filter(|finding| finding.level == Level::Error);
    assert_eq!(errors.count(), 0);
    let mut ids = Vec::new();
    for (n, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
        ids.push(world.emit(world.event(Some(key), n as u32)).await);
    }
    let claim = store.claim(ALL).await.unwrap().unwrap();
    let fates = [
        Fate::Published,
        Fate::Retry {
            attempts: 1,
            after: std::time::Duration::ZERO,
            error: "no".into(),
        },
        Fate::Dead {
            attempts: 1,
            error: "never".into(),
        },
        Fate::Released,
    ];
    claim.settle(&fates).await.unwrap();
    let backlog = store.backlog().await.unwrap();
    assert_eq!((backlog.pending, backlog.dead), (2, 1));
    // An operator needs a little more than the relay.
    let me = Actor("me".into());
    let refused = |result: Result<u64, StoreError>| match result {
        Err(StoreError::Refused { reason, .. }) => {
            assert!(reason.contains("postrider check"), "{reason}")
        }
        other => panic!("{other:?}"),
    };
    refused(store.resend(&ids, &me).await);
    let findings = store.check().await.unwrap();
    world
        .database
        .execute(about(&findings, "postrider_audit").remedy.as_ref().unwrap())
        .await;
    refused(store.discard(&ids, &me).await);
    assert_eq!(store.resend(&ids, &me).await.unwrap(), 1);
    role.end().await;
}

#[tokio::test]
async fn a_missing_privilege_is_named_with_the_grant_that_gives_it() {
    let world = world("polyshop", "").await;
    let role = role(
        &world.database,
        "GRANT SELECT (id, payload) ON outbox_events TO ROLE",
    )
    .await;
    let store = PostgresStore::new(role.pool.clone(), Options::new(world.layout.clone()));
    let words = [
        "lacks SELECT on",
        "lacks UPDATE on",
        "\"processed\"",
        "may not use table postrider_troubles",
    ];
    let findings = refuses(&store, &words).await;
    for finding in findings {
        world.database.execute(&finding.remedy.unwrap()).await;
    }
    world.emit(world.event(Some("k"), 1)).await;
    let claim = store.claim(ALL).await.unwrap().expect("after the grants");
    claim.settle(&[Fate::Published]).await.unwrap();
    role.end().await;
}
