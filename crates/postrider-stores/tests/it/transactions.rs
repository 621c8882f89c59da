//! Handlers' transactions: how they end, and the events that are captured in them.

use std::time::Duration;

use postrider_core::{Emitted, Event, HandlerError, OutboxWriter as _, StoreError, Transactions};
use postrider_stores::postgres::{Outbox, PgTransactions, Tx, connect};
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::{eventually, eventually_within};
use sqlx::postgres::PgPoolOptions;

use crate::world::{layout, world};

async fn effects() -> (Database, PgTransactions) {
    let database = fresh_schema().await;
    database
        .execute("CREATE TABLE effects (n int PRIMARY KEY); INSERT INTO effects VALUES (0)")
        .await;
    let pool = connect(&database.url, 4).unwrap();
    (database, PgTransactions::new(pool))
}

async fn execute(tx: &mut Tx, sql: &'static str) {
    sqlx::query(sql).execute(&mut **tx).await.unwrap();
}

const LOCK: &str = "SELECT FROM effects WHERE n = 0 FOR UPDATE";

/// Long before any timeout of the server's could have helped.
async fn is_soon_free(database: &Database) {
    let patience = Duration::from_secs(10);
    eventually_within(patience, "the row is free", async || {
        let lock = sqlx::query("SELECT FROM effects WHERE n = 0 FOR UPDATE NOWAIT");
        lock.execute(&database.pool).await
    })
    .await;
}

/// Ends the sessions that are in a transaction and have touched the table.
async fn cut(database: &Database, table: &str) {
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = '{table}'::regclass AND pid <> pg_backend_pid()"
    );
    assert!(!database.texts(&cut).await.is_empty());
    let gone = format!("pg_locks WHERE relation = '{table}'::regclass AND pid <> pg_backend_pid()");
    eventually("the session ends", async || {
        match database.count(&gone).await {
            0 => Ok(()),
            count => Err(count),
        }
    })
    .await;
}

#[tokio::test]
async fn a_dropped_transaction_is_rolled_back_and_frees_its_locks_at_once() {
    let (database, transactions) = effects().await;
    let mut tx = transactions.begin().await.unwrap();
    execute(&mut tx, "INSERT INTO effects VALUES (1)").await;
    execute(&mut tx, LOCK).await;
    drop(tx);
    is_soon_free(&database).await;
    assert_eq!(database.count("effects").await, 1);
}

#[tokio::test]
async fn a_transaction_that_is_dropped_in_mid_statement_frees_its_locks_too() {
    let (database, transactions) = effects().await;
    let mut tx = transactions.begin().await.unwrap();
    execute(&mut tx, LOCK).await;
    let sleeping = tokio::spawn(async move {
        execute(&mut tx, "SELECT pg_sleep(60)").await;
    });
    let asleep = "pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'";
    eventually("it sleeps", async || match database.count(asleep).await {
        0 => Err("not yet"),
        _ => Ok(()),
    })
    .await;
    sleeping.abort();
    is_soon_free(&database).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_before_commit_is_unavailable() {
    let (database, transactions) = effects().await;
    let mut tx = transactions.begin().await.unwrap();
    execute(&mut tx, "INSERT INTO effects VALUES (1)").await;
    cut(&database, "effects").await;
    let committed = transactions.commit(tx).await;
    assert!(
        matches!(committed, Err(StoreError::Unavailable { .. })),
        "{committed:?}"
    );
    assert_eq!(database.count("effects").await, 1);
    let tx = transactions.begin().await.unwrap();
    transactions.commit(tx).await.unwrap();
}

#[tokio::test]
async fn a_database_that_is_down_is_unavailable() {
    let pool = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(200))
        .connect_lazy("postgres://postgres@127.0.0.1:1/x")
        .unwrap();
    let begun = PgTransactions::new(pool).begin().await;
    assert!(
        matches!(begun, Err(StoreError::Unavailable { .. })),
        "{begun:?}"
    );
}

#[tokio::test]
async fn a_conflict_that_the_database_finds_at_commit_is_unavailable() {
    let (database, transactions) = effects().await;
    for code in ["40001", "40P01"] {
        database
            .execute(&format!(
                "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN RAISE SQLSTATE ''{code}''; END'; \
                 DROP TRIGGER IF EXISTS fail ON effects; \
                 CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED \
                 FOR EACH ROW EXECUTE FUNCTION fail()"
            ))
            .await;
        let mut tx = transactions.begin().await.unwrap();
        execute(&mut tx, "INSERT INTO effects VALUES (1)").await;
        let committed = transactions.commit(tx).await;
        assert!(
            matches!(committed, Err(StoreError::Unavailable { .. })),
            "{committed:?}"
        );
    }
}

#[tokio::test]
async fn a_commit_that_would_keep_nothing_is_refused() {
    // Where a statement has failed, and where the handler ended the transaction itself.
    let (database, transactions) = effects().await;
    for sql in ["INSERT INTO effects VALUES (0)", "ROLLBACK"] {
        let mut tx = transactions.begin().await.unwrap();
        execute(&mut tx, "INSERT INTO effects VALUES (1)").await;
        drop(sqlx::raw_sql(sql).execute(&mut *tx).await);
        let committed = transactions.commit(tx).await;
        assert!(
            matches!(committed, Err(StoreError::Refused { .. })),
            "{sql}: {committed:?}"
        );
    }
    assert_eq!(database.count("effects").await, 1);
}

#[tokio::test]
async fn captured_events_stand_in_the_handlers_transaction() {
    let world = world("gopipe", "").await;
    let transactions = PgTransactions::new(world.database.pool.clone());
    let events: Vec<Event> = (0..3).map(|n| world.event(None, n)).collect();
    for kept in [false, true] {
        let mut tx = transactions.begin().await.unwrap();
        let emitted = world.outbox.enqueue(&mut tx, &events).await.unwrap();
        assert_eq!(emitted, vec![Emitted::Recorded; 3]);
        match kept {
            true => transactions.commit(tx).await.unwrap(),
            false => transactions.rollback(tx).await.unwrap(),
        }
        let expected = if kept { 3 } else { 0 };
        assert_eq!(world.database.count("outbox").await, expected);
    }
}

#[tokio::test]
async fn an_event_that_no_outbox_takes_is_permanent_and_an_outbox_that_is_not_there_is_not() {
    let world = world("gopipe", "").await;
    let transactions = PgTransactions::new(world.database.pool.clone());
    let mut tx = transactions.begin().await.unwrap();
    let without_topic = Event::raw("order_created", "{}");
    let refused = world.outbox.enqueue(&mut tx, &[without_topic]).await;
    assert!(
        matches!(refused, Err(HandlerError::Permanent(_))),
        "{refused:?}"
    );
    let absent = Outbox::new(layout("gopipe", "table = 'absent'"));
    let event = world.event(None, 1);
    let refused = absent.enqueue(&mut tx, std::slice::from_ref(&event)).await;
    assert!(
        matches!(refused, Err(HandlerError::Temporary(_))),
        "{refused:?}"
    );
    world
        .outbox
        .enqueue(&mut tx, std::slice::from_ref(&event))
        .await
        .unwrap();
    cut(&world.database, "outbox").await;
    let lost = world.outbox.enqueue(&mut tx, &[event]).await;
    assert!(
        matches!(lost, Err(HandlerError::Unavailable(_))),
        "{lost:?}"
    );
}

#[tokio::test]
async fn an_outbox_without_a_metadata_column_says_so_once_it_has_been_seen() {
    let table = "CREATE TABLE outbox_events (id uuid PRIMARY KEY, aggregate_id text NOT NULL, event_type text NOT NULL, \
                 version int NOT NULL, payload text NOT NULL, created_at timestamptz NOT NULL, \
                 processed boolean NOT NULL DEFAULT false, processed_at timestamptz, error_message text)";
    let world = crate::world::world_with("polyshop", "", table).await;
    let transactions = PgTransactions::new(world.database.pool.clone());
    assert!(world.outbox.room().metadata, "the layout has one");
    let mut event = world.event(Some("k"), 1);
    event.metadata.insert("correlationId".into(), "c".into());
    let mut tx = transactions.begin().await.unwrap();
    let events = [event];
    let first = world.outbox.enqueue(&mut tx, &events).await;
    assert!(
        matches!(first, Err(HandlerError::Temporary(_))),
        "{first:?}"
    );
    assert!(!world.outbox.room().metadata);
    let again = world.outbox.enqueue(&mut tx, &events).await;
    assert!(
        matches!(again, Err(HandlerError::Permanent(_))),
        "{again:?}"
    );
}
