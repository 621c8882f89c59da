//! Database, broker or Redis go away and come back: nothing is buried, nothing is lost, and no tries are used up.

use std::time::Duration;

use postrider::consumer::middleware::{Inbox, RedisIdempotency, Retry, Transaction, WhileDown};
use postrider::core::Backoff;
use postrider::stores::postgres::{self, PgTransactions};
use postrider::stores::redis::RedisIdempotency as Store;
use postrider::{Consumer, Dependency};
use postrider_testkit::eventually;
use postrider_testkit::services::{Kind, PrivateServer};
use sqlx::PgPool;

use super::acting::{Act, Acting, apply};
use super::redis::consumer;
use super::world::{Running, World, prepare, until};

async fn effects(pool: &PgPool) -> i64 {
    eventually("an answer", async || {
        sqlx::query_scalar("SELECT count(*) FROM effects")
            .fetch_one(pool)
            .await
    })
    .await
}

/// Unavailable is never dead-lettered, however often it is met, and is met by one delivery or a batch of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_buries_nothing_and_loses_nothing() {
    let mut server = PrivateServer::start(Kind::Postgres).await;
    let pool = postgres::connect(
        &format!("postgres://postgres@{}/postgres", server.address()),
        4,
    )
    .unwrap();
    prepare(&pool).await;
    let mut done = 0;
    for batch in [1, 20] {
        let world = World::new().await;
        let acting = Acting::on(pool.clone(), |_, _| Act::Apply);
        let transaction = Transaction::new(PgTransactions::new(pool.clone())).batch(batch);
        let tries = Retry {
            tries: 1,
            backoff: Backoff::new(Duration::ZERO, Duration::ZERO),
        };
        let chain = world
            .consumer()
            .with(tries)
            .with(world.dead_letter().when_exhausted())
            .with(transaction);
        let consumer: Consumer = chain.with(Inbox::new(world.inbox())).handle(acting.clone());
        let health = consumer.health();
        let running = Running::start(consumer);
        world.place("a", 1..=5).await;
        world.until_all_acknowledged().await;
        server.kill();
        world.place("a", 6..=10).await;
        world.place("b", 11..=15).await;
        world.until_metric("given_back_total", 3.0).await;
        assert!(matches!(
            health.report().database,
            Dependency::NotReady { .. }
        ));
        assert_eq!((world.unacknowledged().await, world.dead().len()), (10, 0));
        server.restart().await;
        world.until_all_acknowledged().await;
        running.stop().await;
        done += 15;
        assert_eq!((effects(&pool).await, world.dead().len()), (done, 0));
        assert_eq!(health.report().database, Dependency::Ready);
    }
}

/// A connection that dies in the middle of a handler is an outage too, and no fault of the event.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_dies_under_a_handler_costs_no_try() {
    let world = World::new().await;
    let gate = super::acting::Gate::new();
    let hold = gate.clone();
    let acting = Acting::new(&world, move |_, call| {
        if call == 1 {
            Act::Wait(hold.clone())
        } else {
            Act::Apply
        }
    });
    let tries = Retry {
        tries: 1,
        backoff: super::settings::quick(),
    };
    let chain = world
        .consumer()
        .with(world.dead_letter().when_exhausted())
        .with(tries);
    let chain = chain
        .with(Transaction::new(world.transactions()))
        .with(Inbox::new(world.inbox()));
    let running = Running::start(chain.handle(acting.clone()));
    world.place("k", [1]).await;
    gate.reached().await;
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid))::text FROM pg_locks \
         WHERE relation = '{}.effects'::regclass AND mode = 'RowExclusiveLock'",
        world.database.schema
    );
    assert_eq!(world.database.text(&kill).await.as_deref(), Some("1"));
    gate.open();
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, world.dead().len()), (1, 0));
}

/// The broker goes away and comes back; the consumer goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_goes_away_is_waited_for() {
    let world = World::new().await;
    let chain = world
        .consumer()
        .with(Transaction::new(world.transactions()));
    let consumer = chain.handle(apply);
    let health = consumer.health();
    let running = Running::start(consumer);
    let ready = async || health.report().broker == Dependency::Ready;
    until("the broker answers", true, ready).await;
    world.broker.stop();
    until("the broker is missed", false, ready).await;
    world.broker.start();
    world.place("k", [1]).await;
    world.until_effects(1).await;
    until("the broker answers again", true, ready).await;
    running.stop().await;
}

/// While Redis is away deliveries are given back, or handled unprotected where that was chosen.
#[tokio::test(flavor = "multi_thread")]
async fn without_redis_deliveries_wait_unless_told_otherwise() {
    let world = World::new().await;
    let mut server = PrivateServer::start(Kind::Redis).await;
    let url = format!("redis://{}", server.address());
    let store = || {
        Store::connect(&url)
            .unwrap()
            .with_timeout(Duration::from_millis(300))
    };
    let acting = Acting::new(&world, |_, _| Act::Apply);
    server.kill();
    let chain = world.consumer().with(world.dead_letter().when_exhausted());
    let running = Running::start(
        chain
            .with(RedisIdempotency::new(store()))
            .handle(acting.clone()),
    );
    world.place("k", [1]).await;
    world.until_metric("given_back_total", 3.0).await;
    assert_eq!(
        (acting.calls(1).len(), world.unacknowledged().await),
        (0, 1)
    );
    server.restart().await;
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, world.dead().len()), (1, 0));

    server.kill();
    let unprotected = RedisIdempotency::new(store()).while_down(WhileDown::Handle);
    let running = Running::start(consumer(&world, unprotected, &acting));
    world.place("k", [2]).await;
    world.until_effects(2).await;
    running.stop().await;
}
