//! Inboxes of every shape, their creation and their upkeep.

use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use postrider_core::Admission::{Duplicate, First};
use postrider_core::{
    Admission, Arrival, EventId, InboxStore as _, Purge as _, StoreError, Transactions as _,
};
use postrider_stores::postgres::inbox::{IdType, InboxColumns, ddl, init};
use postrider_stores::postgres::{InboxLayout, PgInbox, PgPool, PgTransactions, Tx, connect};
use postrider_testkit::conformance::inbox::InboxWorld;
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::inbox_conformance;

use crate::check::role;
use crate::schema::columns;

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

struct World {
    database: Database,
    pool: PgPool,
    transactions: PgTransactions,
    inbox: PgInbox,
}

/// An inbox in the table that `sql` makes, else in the one that `init` makes.
async fn world(layout: InboxLayout, sql: &str) -> World {
    let database = fresh_schema().await;
    database.execute(sql).await;
    init(&database.pool, &layout).await.unwrap();
    let pool = connect(&database.url, 16).unwrap();
    World {
        database,
        transactions: PgTransactions::new(pool.clone()),
        pool,
        inbox: PgInbox::new(layout),
    }
}

impl World {
    async fn begin(&self) -> Tx {
        self.transactions.begin().await.unwrap()
    }

    async fn admit(&self, tx: &mut Tx, id: &str) -> Result<Vec<Admission>, StoreError> {
        let arrival = Arrival {
            event_id: &id.into(),
            event_type: Some("order_created"),
            source: None,
        };
        self.inbox.admit(tx, "billing", &[arrival]).await
    }

    fn table(&self) -> String {
        self.inbox.layout().table.quoted()
    }

    /// Whether the transaction is as good as new.
    async fn still_commits(&self, mut tx: Tx) {
        let id = EventId::generate();
        assert_eq!(self.admit(&mut tx, id.as_str()).await.unwrap(), [First]);
        self.transactions.commit(tx).await.unwrap();
    }
}

#[async_trait]
impl InboxWorld for World {
    type Transactions = PgTransactions;
    type Inbox = PgInbox;

    fn transactions(&self) -> &PgTransactions {
        &self.transactions
    }

    fn inbox(&self) -> &PgInbox {
        &self.inbox
    }

    fn tells_consumers_apart(&self) -> bool {
        self.inbox.layout().columns.subscriber.is_some()
    }

    async fn entries(&self) -> u64 {
        self.database.count(&self.table()).await as u64
    }

    async fn waiting(&self) -> u64 {
        let table = self.table().replace('\'', "''");
        let waiting = format!(
            "pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_locks WHERE relation = '{table}'::regclass)"
        );
        self.database.count(&waiting).await as u64
    }
}

mod gopipe {
    use super::*;
    inbox_conformance!(world(InboxLayout::gopipe(), ""));
}

mod polyshop {
    use super::*;
    inbox_conformance!(world(InboxLayout::polyshop(), ""));
}

/// Names that must be quoted, a word as the subscriber, a key beside the primary key, and columns of its own.
mod custom {
    use super::*;

    const TABLE: &str = r#"
        CREATE TYPE who AS ENUM ('billing', 'shipping');
        CREATE TABLE "odd 'inbox'; --" (
            n bigserial PRIMARY KEY, "the ""id""" varchar(64) NOT NULL, "for" who NOT NULL, at timestamp NOT NULL,
            note text NOT NULL DEFAULT 'none', UNIQUE ("the ""id""", "for"))"#;

    fn layout() -> InboxLayout {
        InboxLayout {
            table: "odd 'inbox'; --".to_owned().try_into().unwrap(),
            columns: InboxColumns {
                id: r#"the "id""#.to_owned().try_into().unwrap(),
                subscriber: Some("for".to_owned().try_into().unwrap()),
                event_type: None,
                source: None,
                time: "at".to_owned().try_into().unwrap(),
            },
            id_type: IdType::Text,
        }
    }

    inbox_conformance!(world(layout(), TABLE));
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_that_create_an_inbox_at_once_all_succeed() {
    // S4-14, S3-50, S4-89
    let expected = [
        (
            InboxLayout::gopipe(),
            vec![
                "subscriber text NOT NULL",
                "message_id text NOT NULL",
                "created_at timestamp with time zone NOT NULL DEFAULT now()",
            ],
        ),
        (
            InboxLayout::polyshop(),
            vec![
                "event_id uuid NOT NULL",
                "processed_at timestamp with time zone NOT NULL DEFAULT now()",
                "event_type text",
                "source text",
            ],
        ),
    ];
    for (layout, expected) in expected {
        let database = fresh_schema().await;
        let pools: Vec<_> = (0..16)
            .map(|_| connect(&database.url, 1).unwrap())
            .collect();
        for pool in &pools {
            pool.acquire().await.unwrap(); // Connected already, so that they really start together.
        }
        for result in join_all(pools.iter().map(|pool| init(pool, &layout))).await {
            result.unwrap();
        }
        init(&database.pool, &layout).await.unwrap();
        for statement in ddl(&layout) {
            database.execute(&statement).await;
        }
        assert_eq!(columns(&database, &layout.table.quoted()).await, expected);
    }
}

#[tokio::test]
async fn a_schema_that_a_layout_names_is_made_and_a_table_that_is_there_is_left_alone() {
    let database = fresh_schema().await;
    let other = format!("{}_b", database.schema);
    let layout = InboxLayout {
        table: format!("{other}.seen").try_into().unwrap(),
        ..InboxLayout::gopipe()
    };
    init(&database.pool, &layout).await.unwrap();
    assert_eq!(database.count(&format!("{other}.seen")).await, 0);
    database
        .execute(&format!(
            "DROP SCHEMA {other} CASCADE; CREATE TABLE processed_messages (id int)"
        ))
        .await;
    let layout = InboxLayout::gopipe();
    init(&database.pool, &layout).await.unwrap();
    assert_eq!(
        columns(&database, "processed_messages").await,
        ["id integer"]
    );
}

#[tokio::test]
async fn a_value_that_does_not_fit_is_refused_by_name_and_the_transaction_goes_on() {
    let world = world(InboxLayout::polyshop(), "").await;
    let mut tx = world.begin().await;
    let long = format!("order-{}", "7".repeat(10_000));
    for id in ["order-7", "", "a\0b", &long] {
        let Err(StoreError::Unfit { reason, .. }) = world.admit(&mut tx, id).await else {
            panic!("{id} was not refused")
        };
        assert!(
            reason.contains("does not fit column event_id: "),
            "{reason}"
        );
        assert!(
            id != "order-7" || reason.contains("\"order-7\""),
            "{reason}"
        );
        assert!(reason.len() < 300, "{reason}");
    }
    world.still_commits(tx).await;
}

#[tokio::test]
async fn what_an_index_or_a_role_would_refuse_is_refused_before_it_is_sent() {
    let world = world(InboxLayout::gopipe(), "").await;
    let mut tx = world.begin().await;
    // Random, so that Postgres cannot press it into its index.
    let long: String = (0..100).map(|_| EventId::generate().to_string()).collect();
    let refused = world.admit(&mut tx, &long).await;
    assert!(
        matches!(refused, Err(StoreError::Unfit { .. })),
        "{refused:?}"
    );
    world.still_commits(tx).await;
    for (missing, granted) in [
        ("SELECT", "INSERT"),
        ("INSERT", "SELECT, INSERT (message_id)"),
    ] {
        let grant = format!("GRANT {granted} ON processed_messages TO ROLE");
        let role = role(&world.database, &grant).await;
        let inbox = PgInbox::new(InboxLayout::gopipe());
        let error = inbox.check(&role.pool).await.unwrap_err();
        let expected = format!("lacks {missing} on column subscriber; GRANT {missing}");
        assert!(error.to_string().contains(&expected), "{error}");
        role.end().await;
    }
}

#[tokio::test]
async fn ids_of_one_value_are_one_event_however_they_are_written() {
    let world = world(InboxLayout::polyshop(), "").await;
    let mut tx = world.begin().await;
    let id = EventId::generate();
    let admit = async |tx: &mut Tx, id: &str| world.admit(tx, id).await.unwrap();
    assert_eq!(admit(&mut tx, &id.as_str().to_uppercase()).await, [First]);
    assert_eq!(admit(&mut tx, id.as_str()).await, [Duplicate]);
}

#[tokio::test]
async fn a_table_that_cannot_serve_is_refused_with_what_to_do_and_the_transaction_goes_on() {
    let world = world(InboxLayout::gopipe(), "").await;
    for (sql, hint) in [
        ("", "processed_messages does not exist; run `inbox::init`"),
        (
            "CREATE TABLE processed_messages (message_id text, created_at timestamptz)",
            "needs column subscriber in table",
        ),
        (
            "CREATE TABLE processed_messages (subscriber text, message_id text, created_at timestamptz)",
            "needs a primary key or unique index on (subscriber, message_id)",
        ),
        (
            "CREATE TABLE processed_messages (subscriber text, message_id text UNIQUE, created_at timestamptz)",
            "needs a primary key or unique index on (subscriber, message_id)",
        ),
        (
            "CREATE TABLE processed_messages (subscriber text, message_id int, created_at timestamptz)",
            "is of type integer; ids are text or uuid",
        ),
        (
            "CREATE TABLE processed_messages (subscriber text, message_id text, created_at timestamptz, x int NOT NULL)",
            "column x of inbox table",
        ),
    ] {
        world
            .database
            .execute(&format!("DROP TABLE IF EXISTS processed_messages; {sql}"))
            .await;
        let inbox = PgInbox::new(InboxLayout::gopipe());
        let mut tx = world.begin().await;
        let arrival = Arrival {
            event_id: &EventId::generate(),
            event_type: None,
            source: None,
        };
        for error in [
            inbox.check(&world.pool).await.unwrap_err(),
            inbox.admit(&mut tx, "c", &[arrival]).await.unwrap_err(),
        ] {
            let StoreError::Mismatch(text) = error else {
                panic!("{error:?}")
            };
            assert!(text.contains(hint), "{text}");
        }
        sqlx::query("SELECT 1").execute(&mut *tx).await.unwrap();
        world.transactions.commit(tx).await.unwrap();
    }
}

#[tokio::test]
async fn a_table_that_changes_under_a_running_consumer_is_read_anew() {
    let world = world(InboxLayout::polyshop(), "").await;
    let mut tx = world.begin().await;
    world
        .admit(&mut tx, EventId::generate().as_str())
        .await
        .unwrap();
    world.transactions.commit(tx).await.unwrap();
    world
        .database
        .execute("ALTER TABLE processed_events ALTER event_id TYPE text")
        .await;
    let mut tx = world.begin().await;
    assert_eq!(world.admit(&mut tx, "order-7").await.unwrap(), [First]);
    world.transactions.commit(tx).await.unwrap();
}

#[tokio::test]
async fn type_and_source_are_kept_where_the_table_has_them() {
    // S3-50, S3-51
    let full = world(InboxLayout::polyshop(), "").await;
    let plain = "CREATE TABLE processed_events (event_id uuid PRIMARY KEY, processed_at timestamp NOT NULL)";
    let plain = world(InboxLayout::polyshop(), plain).await;
    let id = EventId::generate();
    for world in [&full, &plain] {
        let arrival = Arrival {
            event_id: &id,
            event_type: Some("order_created"),
            source: Some("shop"),
        };
        let mut tx = world.begin().await;
        let admitted = world.inbox.admit(&mut tx, "billing", &[arrival]).await;
        assert_eq!(admitted.unwrap(), [First]);
        world.transactions.commit(tx).await.unwrap();
        world.inbox.check(&world.pool).await.unwrap();
    }
    let row = "SELECT concat_ws(' ', event_id, event_type, source, processed_at IS NOT NULL) FROM processed_events";
    assert_eq!(
        full.database.text(row).await,
        Some(format!("{id} order_created shop t"))
    );
    assert_eq!(plain.entries().await, 1);
}

/// Entries of eight days ago, under ids that count from 1.
async fn insert_old(world: &World, count: u32) {
    world
        .database
        .execute(&format!(
            "INSERT INTO processed_messages SELECT 'billing', n::text, now() - interval '8 days' FROM generate_series(1, {count}) AS n"
        ))
        .await;
}

#[tokio::test]
async fn old_entries_go_in_bounded_batches_and_young_ones_stay() {
    // A4-14, S4-58
    let world = world(InboxLayout::gopipe(), "").await;
    insert_old(&world, 250).await;
    let mut tx = world.begin().await;
    world.admit(&mut tx, "young").await.unwrap();
    world.transactions.commit(tx).await.unwrap();
    let mut locked = world.begin().await;
    sqlx::query("SELECT FROM processed_messages WHERE message_id = '7' FOR UPDATE")
        .execute(&mut *locked)
        .await
        .unwrap();
    let upkeep = world.inbox.upkeep(world.pool.clone());
    assert_eq!(upkeep.purge(Duration::MAX, 100).await.unwrap(), 0);
    let mut purged = Vec::new();
    for _ in 0..4 {
        purged.push(upkeep.purge(WEEK, 100).await.unwrap());
    }
    assert_eq!(purged, [100, 100, 49, 0], "all but what is locked");
    world.transactions.rollback(locked).await.unwrap();
    assert_eq!(upkeep.purge(WEEK, 100).await.unwrap(), 1);
    assert_eq!(world.entries().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_admitted_while_old_entries_are_deleted() {
    // A4-14
    let world = world(InboxLayout::gopipe(), "").await;
    insert_old(&world, 20_000).await;
    let mut open = world.begin().await;
    world.admit(&mut open, "open").await.unwrap();
    let purging = async { while world.inbox.purge(&world.pool, WEEK, 500).await.unwrap() > 0 {} };
    let admitting = async {
        for n in 0..200 {
            let mut tx = world.begin().await;
            // Would be an error, and not a wait, if it met the purge's locks for long.
            sqlx::query("SET LOCAL lock_timeout = '500ms'")
                .execute(&mut *tx)
                .await
                .unwrap();
            assert_eq!(
                world.admit(&mut tx, &format!("new-{n}")).await.unwrap(),
                [First]
            );
            world.transactions.commit(tx).await.unwrap();
        }
    };
    tokio::join!(purging, admitting);
    world.transactions.commit(open).await.unwrap();
    assert_eq!(world.entries().await, 201);
}
