//! Reading: what is found, how soon, and what it leaves behind.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use postrider_core::{Event, Fate, Layout, OutboxStore as _, Purge as _, Share, Want};
use postrider_stores::postgres::{Options, Outbox, PostgresStore, connect};
use postrider_testkit::conformance::store::StoreWorld as _;
use postrider_testkit::database::Database;
use postrider_testkit::eventually;
use postrider_testkit::services::{Kind, PrivateServer};
use sqlx::Row as _;

use super::{ALL, drain, numbers, publish};
use crate::world::world;

#[tokio::test]
async fn a_lower_position_that_commits_later_is_not_lost() {
    let world = world("native", "").await;
    let store = world.store();
    let mut slow = world.database.pool.begin().await.unwrap();
    let first = world.event(Some("a"), 1);
    world.outbox.emit(&mut slow, first).await.unwrap();
    world.emit(world.event(Some("b"), 2)).await;
    assert_eq!(numbers(&drain(&store).await), [2]);
    world.emit(world.event(Some("c"), 3)).await;
    assert_eq!(numbers(&drain(&store).await), [3]);
    slow.commit().await.unwrap();
    assert_eq!(numbers(&drain(&store).await), [1]);
    assert!(drain(&store).await.is_empty());
}

#[tokio::test]
async fn what_is_rolled_back_is_never_read() {
    let world = world("native", "").await;
    let mut tx = world.database.pool.begin().await.unwrap();
    let event = world.event(Some("a"), 1);
    world.outbox.emit(&mut tx, event).await.unwrap();
    sqlx::query("SAVEPOINT s").execute(&mut *tx).await.unwrap();
    let event = world.event(Some("a"), 2);
    world.outbox.emit(&mut tx, event).await.unwrap();
    sqlx::query("ROLLBACK TO s")
        .execute(&mut *tx)
        .await
        .unwrap();
    let event = world.event(Some("a"), 3);
    world.outbox.emit(&mut tx, event).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = world.database.pool.begin().await.unwrap();
    let event = world.event(Some("a"), 4);
    world.outbox.emit(&mut tx, event).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(numbers(&drain(&world.store()).await), [1, 3]);
}

/// The youngest transaction runs while a snapshot is taken, and nobody that came after it has ended: the snapshot does not
/// name it, and its position was drawn before. Needs a server where nothing else happens.
#[tokio::test]
async fn a_transaction_that_no_snapshot_names_is_not_lost() {
    let server = PrivateServer::start(Kind::Postgres).await;
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let pool = connect(&url, 4).unwrap();
    let layout = Layout::preset("native").unwrap();
    postrider_stores::postgres::init(&pool, &layout, &Default::default())
        .await
        .unwrap();
    let outbox = Outbox::new(layout.clone());
    let store = PostgresStore::new(pool.clone(), Options::new(layout));
    let event = |number: i64| {
        let payload = format!("{{\"n\":{number}}}");
        Event::raw("t", payload).topic("orders").key("k")
    };
    for round in 0..5 {
        let mut tx = pool.begin().await.unwrap();
        outbox.emit(&mut tx, event(round * 2)).await.unwrap();
        tx.commit().await.unwrap();
        let mut open = pool.begin().await.unwrap();
        outbox.emit(&mut open, event(round * 2 + 1)).await.unwrap();
        assert_eq!(numbers(&drain(&store).await), [round * 2]);
        open.commit().await.unwrap();
        assert_eq!(numbers(&drain(&store).await), [round * 2 + 1]);
    }
}

/// A transaction of many records that ran when the last snapshot was taken is read in parts, each record once.
#[tokio::test]
async fn a_long_transaction_is_read_in_parts() {
    let world = world("native", "state = { groups = 1 }").await;
    let store = world.store();
    let mut long = world.database.pool.begin().await.unwrap();
    for number in 0..25 {
        let event = world.event(Some("long"), number);
        world.outbox.emit(&mut long, event).await.unwrap();
        // Others come and go between, so that its positions are spread.
        world.emit(world.event(Some("short"), 100 + number)).await;
    }
    assert_eq!(
        numbers(&drain(&store).await),
        (100..125).collect::<Vec<_>>()
    );
    long.commit().await.unwrap();
    let mut read = Vec::new();
    loop {
        let few = Want {
            limit: 4,
            bytes: usize::MAX,
            share: Share::ALL,
        };
        let Some(claim) = store.claim(few).await.unwrap() else {
            break;
        };
        read.extend(claim.records().iter().map(super::seen));
        let fates = vec![Fate::Published; claim.records().len()];
        claim.settle(&fates).await.unwrap();
    }
    assert_eq!(numbers(&read), (0..25).collect::<Vec<_>>());
}

/// Several transactions that ran when the last snapshot was taken, and later ones, all of large records.
#[tokio::test]
async fn a_claim_holds_no_more_bytes_than_are_wanted() {
    const BYTES: usize = 50_000;
    let world = world("native", "").await;
    let store = world.store();
    let event = |key: &str, number: u32| {
        let payload = format!("{{\"n\":{number},\"pad\":\"{}\"}}", "x".repeat(9_000));
        Event::raw("t", payload).topic("orders").key(key.to_owned())
    };
    let mut open = Vec::new();
    for key in ["a", "b", "c"] {
        let mut tx = world.database.pool.begin().await.unwrap();
        world.outbox.emit(&mut tx, event(key, 0)).await.unwrap();
        open.push((key, tx));
    }
    world.emit(event("d", 0)).await;
    assert_eq!(drain(&store).await.len(), 1);
    for (key, mut tx) in open {
        for number in 1..10 {
            world
                .outbox
                .emit(&mut tx, event(key, number))
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
    }
    for number in 1..10 {
        world.emit(event("d", number)).await;
    }
    let want = Want {
        limit: 100,
        bytes: BYTES,
        share: Share::ALL,
    };
    let mut by_key: HashMap<String, Vec<i64>> = HashMap::new();
    while let Some(claim) = store.claim(want).await.unwrap() {
        let bytes: usize = claim.records().iter().map(|record| record.size()).sum();
        assert!(bytes <= BYTES, "{bytes} bytes");
        for record in claim.records() {
            let key = record.key.as_ref().unwrap().to_string();
            by_key
                .entry(key)
                .or_default()
                .extend(numbers(&[super::seen(record)]));
        }
        let fates = vec![Fate::Published; claim.records().len()];
        claim.settle(&fates).await.unwrap();
    }
    for (key, first) in [("a", 0), ("b", 0), ("c", 0), ("d", 1)] {
        assert_eq!(by_key[key], (first..10).collect::<Vec<_>>(), "{key}");
    }
}

/// Issue 7, item 3: somebody's transaction stays open, and nobody's events wait but its own. No row of the outbox dies.
#[tokio::test]
async fn an_open_transaction_delays_nobody_and_no_row_dies() {
    let world = world("native", "").await;
    let store = world.store();
    world
        .database
        .execute("CREATE TABLE elsewhere (n int)")
        .await;
    let mut open = world.database.pool.begin().await.unwrap();
    sqlx::query("INSERT INTO elsewhere VALUES (1)")
        .execute(&mut *open)
        .await
        .unwrap();
    let mut slowest = Duration::ZERO;
    for number in 0..300 {
        world.emit(world.event(Some("k"), number)).await;
        let committed = Instant::now();
        assert_eq!(numbers(&publish(&store).await), [i64::from(number)]);
        slowest = slowest.max(committed.elapsed());
    }
    println!("slowest from commit to settled: {slowest:?}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    open.rollback().await.unwrap();
    assert_eq!(dead_rows(&world.database).await, 0);
}

/// As the server counts them, once it has.
async fn dead_rows(database: &Database) -> i64 {
    eventually("the server has counted", async || {
        // Statistics of a session are sent when it has been idle for a moment, or on the next transaction.
        database.number("SELECT 1").await;
        let inserted = "SELECT sum(n_tup_ins) FROM pg_stat_user_tables WHERE schemaname = current_schema() \
                        AND relname ~ '^postrider_outbox_[0-7]$'";
        match database.number(inserted).await {
            0 => Err("nothing yet"),
            _ => Ok(()),
        }
    })
    .await;
    database
        .number(
            "SELECT sum(n_dead_tup + n_tup_upd + n_tup_del) FROM pg_stat_user_tables \
             WHERE schemaname = current_schema() AND relname ~ '^postrider_outbox_[0-7]$'",
        )
        .await
}

#[tokio::test]
async fn an_empty_poll_writes_nothing_and_takes_no_transaction_number() {
    let world = world("native", "").await;
    let store = world.store();
    world.emit(world.event(Some("k"), 1)).await;
    drain(&store).await;
    let version = "SELECT sum(version) FROM postrider_outbox_stream";
    let before = world.database.number(version).await;
    for _ in 0..5 {
        assert!(store.claim(ALL).await.unwrap().is_none());
    }
    assert_eq!(world.database.number(version).await, before);
}

/// A relay that ends while it publishes frees its group with its connection.
#[tokio::test]
async fn another_relay_takes_over_at_once() {
    let world = world("native", "").await;
    world.emit(world.event(Some("k"), 1)).await;
    let (first, second) = (world.store(), world.store());
    let claim = first.claim(ALL).await.unwrap().unwrap();
    assert!(second.claim(ALL).await.unwrap().is_none());
    let killed = Instant::now();
    world
        .database
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid() \
             AND classid = (hashtext('postrider ' || 'postrider_outbox'::regclass::oid::text)::int8 & 4294967295)::oid",
        )
        .await;
    let taken = eventually("the group is free", async || match publish(&second).await {
        none if none.is_empty() => Err("held"),
        published => Ok(published),
    })
    .await;
    println!("taken over after {:?}", killed.elapsed());
    assert_eq!(numbers(&taken), [1]);
    assert!(killed.elapsed() < Duration::from_secs(5));
    assert!(
        claim.settle(&[Fate::Published]).await.is_err(),
        "it is fenced off"
    );
}

/// A relay and a writer that own these tables and nothing else.
#[tokio::test]
async fn a_role_that_owns_these_tables_needs_nothing_more() {
    let world = world("native", "").await;
    let (schema, role) = (
        &world.database.schema,
        format!("r_{}", world.database.schema),
    );
    world
        .database
        .execute(&format!(
            "DROP SCHEMA {schema} CASCADE; CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {role}"
        ))
        .await;
    let url = world
        .database
        .url
        .replacen("postgres@", &format!("{role}@"), 1);
    let pool = connect(&url, 4).unwrap();
    postrider_stores::postgres::init(&pool, &world.layout, &Default::default())
        .await
        .unwrap();
    let store = PostgresStore::new(pool.clone(), Options::new(world.layout.clone()));
    let mut tx = pool.begin().await.unwrap();
    let event = world.event(Some("k"), 1);
    world.outbox.emit(&mut tx, event).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(numbers(&drain(&store).await), [1]);
    assert_eq!(store.purge(Duration::ZERO, 10).await.unwrap(), 1);
    pool.close().await;
    drop(store);
    eventually("the role can go", async || {
        let pool = &world.database.pool;
        let text = format!("DROP OWNED BY {role}; DROP ROLE {role}; CREATE SCHEMA {schema}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(text))
            .execute(pool)
            .await
            .map(drop)
    })
    .await;
}

#[tokio::test]
async fn other_languages_emit_by_a_function() {
    let world = world("native", "").await;
    let id = world
        .database
        .text(
            "SELECT postrider_emit('orders', 'k', 'order_created', '{\"n\": 1}', '{\"a\": \"b\"}')",
        )
        .await
        .unwrap();
    world
        .database
        .execute("SELECT postrider_emit('orders', NULL, NULL, '\\x7b226e223a327d'::bytea)")
        .await;
    let claim = world.store().claim(ALL).await.unwrap().unwrap();
    let [first, second] = claim.records() else {
        panic!("two were emitted")
    };
    assert_eq!(first.event_id.as_str(), id);
    assert_eq!(first.topic.as_deref(), Some("orders"));
    assert_eq!(first.event_type.as_deref(), Some("order_created"));
    assert_eq!(first.payload.as_deref(), Some(&b"{\"n\": 1}"[..]));
    assert_eq!(&*first.headers[0].name, "a");
    assert_eq!(second.payload.as_deref(), Some(&b"{\"n\":2}"[..]));
    assert!(second.key.is_none());
}

#[tokio::test]
async fn bytes_of_any_kind_come_back_as_they_were_given() {
    let world = world("native", "").await;
    let bytes: Vec<u8> = (0..=255).collect();
    world
        .emit(postrider_core::Event::raw("t", bytes.clone()).topic("orders"))
        .await;
    let claim = world.store().claim(ALL).await.unwrap().unwrap();
    assert_eq!(claim.records()[0].payload.as_deref(), Some(&bytes[..]));
    let json = crate::world::world("native", "state = { payload = 'json' }").await;
    let text = "{ \"b\" : 1,\"a\":  [1.0] }";
    json.emit(postrider_core::Event::raw("t", text).topic("orders"))
        .await;
    let claim = json.store().claim(ALL).await.unwrap().unwrap();
    assert_eq!(claim.records()[0].payload.as_deref(), Some(text.as_bytes()));
    assert!(json.keeps_published());
}

/// What a look takes as drawn has been drawn: a position that comes later is above it. The sequence's own row is ahead for
/// a moment while others draw, and records that came to lie below would never be read.
#[tokio::test]
async fn what_is_drawn_after_a_look_lies_above_it() {
    const LOOKS: usize = 5_000;
    let world = world("native", "").await;
    let pool = connect(&world.database.url, 6).unwrap();
    let draw = "SELECT nextval('postrider_outbox_position')";
    let (looked, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let many = "SELECT count(nextval('postrider_outbox_position')) FROM generate_series(1, 1000)";
    let drawers = (0..2).map(|_| async {
        let mut connection = pool.acquire().await.unwrap();
        while !over.load(Relaxed) {
            let drawn: i64 = sqlx::query_scalar(many)
                .fetch_one(&mut *connection)
                .await
                .unwrap();
            assert_eq!(drawn, 1000);
        }
    });
    let looker = async {
        let mut connection = pool.acquire().await.unwrap();
        let look = include_str!("../../golden/native_key/look.sql");
        while looked.fetch_add(1, Relaxed) < LOOKS {
            let rows = sqlx::raw_sql(look)
                .fetch_all(&mut *connection)
                .await
                .unwrap();
            let drawn: i64 = rows[0].get("drawn");
            let next: i64 = sqlx::query_scalar(draw)
                .fetch_one(&mut *connection)
                .await
                .unwrap();
            assert!(
                drawn < next,
                "{next} was drawn after a look that saw {drawn}"
            );
        }
        over.store(true, Relaxed);
    };
    futures::join!(looker, futures::future::join_all(drawers));
}
