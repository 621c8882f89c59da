//! Each program with the rights of `grants.sql` and no others.

use example_packfinderz::settings::DATABASE_URL;
use rustix::process::Signal;
use uuid::Uuid;

use crate::program::Program;
use crate::world::{API, CLEANUP, CONSUMER, PUBLISHER, World};

const ROLES: [&str; 4] = ["pf_api", "pf_publisher", "pf_consumer", "pf_cleanup"];

/// Roles with `grants.sql`, under names of their own.
struct Roles<'a> {
    world: &'a World,
    suffix: String,
}

impl<'a> Roles<'a> {
    async fn new(world: &'a World) -> Self {
        let suffix = Uuid::now_v7().simple().to_string();
        let (mut grants, schema) = (
            include_str!("../../grants.sql").to_owned(),
            &world.database.schema,
        );
        for role in ROLES {
            grants = grants.replace(&format!("TO {role};"), &format!("TO {role}_{suffix};"));
            let create = format!(
                "CREATE ROLE {role}_{suffix} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}_{suffix}"
            );
            world.database.execute(&create).await;
        }
        world.database.execute(&grants).await;
        Self { world, suffix }
    }

    /// The database's URL for one of them.
    fn url(&self, role: &str) -> String {
        assert!(ROLES.contains(&role));
        let user = format!("{role}_{}@", self.suffix);
        let url = self.world.database.url.replacen("postgres@", &user, 1);
        assert!(url.contains(&user));
        url
    }

    async fn drop(self) {
        for role in ROLES {
            let sql = format!(
                "DROP OWNED BY {role}_{0}; DROP ROLE {role}_{0}",
                self.suffix
            );
            self.world.database.execute(&sql).await;
        }
    }
}

/// Ends a program and gives its warnings and errors.
async fn complaints(program: Program) -> Vec<serde_json::Value> {
    program.signal(Signal::TERM);
    assert_eq!(
        program.ended().await.code(),
        Some(0),
        "{:#?}",
        program.text()
    );
    let log = program.log();
    assert!(log.iter().any(|line| line["level"] == "INFO"), "{log:?}");
    log.into_iter()
        .filter(|line| line["level"] == "WARN" || line["level"] == "ERROR")
        .collect()
}

/// A1-03: the publisher publishes and marks dead with a role that may update only `published_at`,
/// `attempt_count` and `last_error`; the only line of its log that is a warning is the one about the row that is dead.
/// Without such a row there is none.
#[tokio::test]
async fn the_publisher_works_with_three_columns_and_without_a_warning() {
    let world = World::new().await;
    let roles = Roles::new(&world).await;
    let may = |role: &str, column: &str| {
        format!(
            "SELECT has_column_privilege('{role}_{}', 'outbox_events', '{column}', 'UPDATE')::text",
            roles.suffix
        )
    };
    for (column, expected) in [
        ("id", "false"),
        ("event_type", "false"),
        ("aggregate_type", "false"),
        ("aggregate_id", "false"),
        ("payload_json", "false"),
        ("created_at", "false"),
        ("published_at", "true"),
        ("attempt_count", "true"),
        ("last_error", "true"),
    ] {
        let found = world.database.text(&may("pf_publisher", column)).await;
        assert_eq!(found.as_deref(), Some(expected), "{column}");
    }
    let role = [(DATABASE_URL, &*roles.url("pf_publisher"))];
    world.insert(120, 0).await;
    let publisher = world.ready(PUBLISHER, &role).await;
    world.until_published(120).await;
    // A poll that finds nothing, the count of the backlog and readiness are behind it.
    world.publish_one_by_one(3).await;
    publisher.becomes(200).await;
    assert_eq!(complaints(publisher).await, [] as [serde_json::Value; 0]);

    world
        .database
        .execute(
            "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) SELECT id, \
             'ad_paused', 'ad', id, jsonb_build_object('version', 1, 'eventId', id, 'occurredAt', now(), 'data', NULL) \
             FROM gen_random_uuid() id",
        )
        .await;
    let publisher = world.ready(PUBLISHER, &role).await;
    world
        .until_count(
            "outbox_events WHERE attempt_count = 25 AND last_error IS NOT NULL",
            1,
        )
        .await;
    let told = complaints(publisher).await;
    assert!(
        told.iter().all(|line| line["event_type"] == "ad_paused"),
        "{told:?}"
    );
    roles.drop().await;
}

/// A0-15, A0-13: every program does its part with its own rights; the consumer has none on `outbox_events`, and the cleanup none
/// on what it does not delete.
#[tokio::test(flavor = "multi_thread")]
async fn every_program_works_with_the_rights_that_it_is_given() {
    let world = World::new().await;
    let roles = Roles::new(&world).await;
    let consumer_rights = format!(
        "SELECT has_any_column_privilege('pf_consumer_{}', 'outbox_events', 'SELECT, INSERT, UPDATE')::text",
        roles.suffix
    );
    assert_eq!(
        world.database.text(&consumer_rights).await.as_deref(),
        Some("false")
    );
    let start = async |program, role| {
        world
            .ready(program, &[(DATABASE_URL, &*roles.url(role))])
            .await
    };
    let api = start(API, "pf_api").await;
    let publisher = start(PUBLISHER, "pf_publisher").await;
    let consumer = start(CONSUMER, "pf_consumer").await;
    world.upload(&api).await;
    world.until_count("notifications", 1).await;
    world.until_published(1).await;

    let age = "UPDATE outbox_events SET published_at = now() - interval '31 days'";
    world.database.execute(age).await;
    let url = roles.url("pf_cleanup");
    let variables = world.variables(&[(DATABASE_URL, &url)]);
    let cleanup = Program::start(std::process::Command::new(CLEANUP), &variables);
    world.until_count("outbox_events", 0).await;
    for program in [api, publisher, consumer, cleanup] {
        assert_eq!(complaints(program).await, [] as [serde_json::Value; 0]);
    }
    roles.drop().await;
}
