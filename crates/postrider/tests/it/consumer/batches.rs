//! Deliveries that share a transaction: how many there are, in which order, and with how few connections.

use std::collections::HashMap;
use std::time::Duration;

use postrider::Consumer;
use postrider::consumer::Config;
use postrider::consumer::middleware::{CaptureOutbox, Inbox, RedisIdempotency, Transaction};
use postrider::core::Message;
use postrider::stores::postgres::{self, PgParkedKeys, PgTransactions};
use postrider::stores::redis::RedisIdempotency as Store;
use postrider_testkit::redis::Redis;
use uuid::Uuid;

use super::acting::{Act, Acting, Gate, apply, follow_up};
use super::settings::config;
use super::world::{Running, World};

/// `count` orders over `keys` keys, numbered from 1.
fn messages(world: &World, count: i64, keys: i64) -> Vec<Message> {
    let message = |order| world.message(Uuid::now_v7(), &format!("k{}", order % keys), order);
    (1..=count).map(message).collect()
}

fn consumer(world: &World, batch: usize, acting: &Acting) -> Consumer {
    let one = Config {
        workers: 1,
        ..config()
    };
    let chain = world
        .consumer()
        .config(one)
        .with(Transaction::new(world.transactions()).batch(batch));
    chain.with(Inbox::new(world.inbox())).handle(acting.clone())
}

/// Fails unless every key's effects stand in the order of their numbers.
async fn assert_in_order(world: &World, keys: i64) {
    let mut last: HashMap<i64, i64> = HashMap::new();
    for order in world.applied().await {
        let before = last.insert(order % keys, order);
        assert!(
            before.is_none_or(|before| before < order),
            "{order} after {before:?}"
        );
    }
}

/// Fifty deliveries in batches of twenty are three transactions, and one by one they are fifty.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_shares_one_transaction() {
    for (batch, transactions) in [(20, 3), (1, 50)] {
        let world = World::new().await;
        let acting = Acting::new(&world, |_, _| Act::Apply);
        world.publish(&messages(&world, 50, 7)).await;
        let running = Running::start(consumer(&world, batch, &acting));
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(world.effects().await, 50);
        let distinct = world
            .database
            .number("SELECT count(DISTINCT txid) FROM effects")
            .await;
        assert_eq!(distinct, transactions);
        assert_in_order(&world, 7).await;
        assert_eq!(world.metric("handled_total"), 50.0);
    }
}

/// Duplicates within one batch, and of an earlier one, are applied once.
#[tokio::test(flavor = "multi_thread")]
async fn duplicates_within_a_batch_are_applied_once() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, _| Act::Apply);
    let once = messages(&world, 10, 3);
    let twice: Vec<Message> = once
        .iter()
        .flat_map(|message| [message.clone(), message.clone()])
        .collect();
    world.publish(&twice).await;
    world.publish(&once).await;
    let running = Running::start(consumer(&world, 20, &acting));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(
        (world.effects().await, world.metric("duplicates_total")),
        (10, 20.0)
    );
    assert_eq!(world.metric("batch_fallbacks_total"), 0.0);
    assert_in_order(&world, 3).await;
}

/// Outputs of a batch are captured with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_captures_the_outputs_of_each() {
    let world = World::new().await;
    world.publish(&messages(&world, 20, 3)).await;
    let chain = world
        .consumer()
        .with(Transaction::new(world.transactions()).batch(20));
    let chain = chain
        .with(Inbox::new(world.inbox()))
        .with(CaptureOutbox::new(world.outbox()));
    let running = Running::start(chain.handle(follow_up));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(
        (world.effects().await, world.database.count("outbox").await),
        (20, 40)
    );
    let causes = "SELECT count(DISTINCT attributes::jsonb ->> 'causation_id') FROM outbox";
    assert_eq!(world.database.number(causes).await, 20);
}

/// Four workers with fifty deliveries each and two connections: nobody waits for what another holds.
#[tokio::test(flavor = "multi_thread")]
async fn few_connections_are_enough_for_many_workers() {
    let world = World::new().await;
    let pool = postgres::connect(&world.database.url, 2).unwrap();
    // Some fail in the batch, so that the way back is taken as well.
    let acting = Acting::new(&world, |order, call| {
        if order % 31 == 0 && call < 3 {
            Act::Temporary
        } else {
            Act::Apply
        }
    });
    world.publish(&messages(&world, 400, 40)).await;
    let four = Config {
        workers: 4,
        ..config()
    };
    let transaction = Transaction::new(PgTransactions::new(pool)).batch(50);
    let chain = world
        .consumer()
        .config(four)
        .with(super::settings::retry())
        .with(transaction);
    let running = Running::start(chain.with(Inbox::new(world.inbox())).handle(acting));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.effects().await, 400);
    assert_in_order(&world, 40).await;
}

/// The same where the look at parked keys needs connections too, beside a transaction that waits for others.
#[tokio::test(flavor = "multi_thread")]
async fn few_connections_are_enough_with_parked_keys_too() {
    let world = World::new().await;
    let pool = postgres::connect(&world.database.url, 2).unwrap();
    world.publish(&messages(&world, 400, 40)).await;
    let four = Config {
        workers: 4,
        ..config()
    };
    let keys = PgParkedKeys::new(pool.clone());
    let transaction = Transaction::new(PgTransactions::new(pool)).batch(50);
    let chain = world
        .consumer()
        .config(four)
        .with(world.dead_letter().park(keys));
    let running = Running::start(chain.with(transaction).handle(apply));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.metric("given_back_total"), 0.0, "waited in vain");
    assert_eq!(world.effects().await, 400);
    assert_in_order(&world, 40).await;
}

/// A stop in the middle of a batch lets it finish; nothing more is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_of_a_batch_lets_it_finish() {
    let world = World::new().await;
    let gate = Gate::new();
    let hold = gate.clone();
    let acting = Acting::new(&world, move |order, _| {
        if order == 2 {
            Act::Wait(hold.clone())
        } else {
            Act::Apply
        }
    });
    world.publish(&messages(&world, 40, 5)).await;
    let running = Running::start(consumer(&world, 20, &acting));
    gate.reached().await;
    running.tell_to_stop();
    gate.open();
    running.stop().await;
    assert_eq!(
        (world.effects().await, world.unacknowledged().await),
        (20, 20)
    );
}

/// After `stop_timeout` it is abandoned: nothing of it remains, nothing is acknowledged, and all of it comes again.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_outlasts_the_stop_leaves_nothing() {
    let world = World::new().await;
    let acting = Acting::new(&world, |order, call| {
        if order == 10 && call == 1 {
            Act::Hang
        } else {
            Act::Apply
        }
    });
    world.publish(&messages(&world, 20, 5)).await;
    let impatient = Config {
        workers: 1,
        stop_timeout: Duration::from_millis(100),
        ..config()
    };
    let transaction = Transaction::new(world.transactions()).batch(20);
    let chain = world
        .consumer()
        .config(impatient)
        .with(transaction)
        .with(Inbox::new(world.inbox()));
    let running = Running::start(chain.handle(acting.clone()));
    super::world::until("the tenth hangs", 1, async || acting.calls(10).len()).await;
    running.stop().await;
    assert_eq!(
        (world.effects().await, world.unacknowledged().await),
        (0, 20)
    );
    let running = Running::start(consumer(&world, 20, &acting));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.effects().await, 20);
    assert_in_order(&world, 5).await;
}

/// Redis in front of a shared transaction: duplicates in the batch wait for the first and are dropped then.
#[tokio::test(flavor = "multi_thread")]
async fn redis_in_front_of_a_shared_transaction_works() {
    let world = World::new().await;
    let store = Store::connect(&Redis::shared().url()).unwrap();
    let once = messages(&world, 10, 3);
    world.publish(&once).await;
    world.publish(&once).await;
    let chain = world.consumer().with(RedisIdempotency::new(store));
    let running = Running::start(
        chain
            .with(Transaction::new(world.transactions()).batch(20))
            .handle(apply),
    );
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(
        (world.effects().await, world.metric("duplicates_total")),
        (10, 10.0)
    );
    assert_in_order(&world, 3).await;
}
