//! Idempotency in Redis, for effects outside the consumer's transaction: what Redis holds at each step.

use std::time::Duration;

use postrider::consumer::Consumer;
use postrider::consumer::middleware::RedisIdempotency;
use postrider::stores::redis::RedisIdempotency as Store;
use postrider_testkit::eventually;
use postrider_testkit::redis::Redis;
use uuid::Uuid;

use super::acting::{Act, Acting, Gate};
use super::settings::ack;
use super::world::{Running, World, until};

pub(super) fn idempotency() -> RedisIdempotency {
    RedisIdempotency::new(Store::connect(&Redis::shared().url()).unwrap())
}

pub(super) fn consumer(world: &World, idempotency: RedisIdempotency, acting: &Acting) -> Consumer {
    world.consumer().with(idempotency).handle(acting.clone())
}

/// The key as the issue names it.
fn key(id: Uuid) -> String {
    format!("pf:evt:processed:payments:{id}")
}

async fn value(id: Uuid) -> Option<String> {
    Redis::shared().command(&["GET", &key(id)]).await
}

pub(super) async fn ttl_secs(id: Uuid) -> i64 {
    let ttl = Redis::shared().command(&["PTTL", &key(id)]).await;
    ttl.unwrap().parse::<i64>().unwrap() / 1000
}

/// A0-09: delivered twice, one effect, both acknowledged, and the key is there for at most 720 h.
#[tokio::test(flavor = "multi_thread")]
async fn delivered_twice_it_has_one_effect_and_a_key_that_runs_out() {
    let world = World::new().await;
    let id = Uuid::now_v7();
    let acting = Acting::new(&world, |_, _| Act::Apply);
    world
        .publish(&[world.message(id, "k", 1), world.message(id, "k", 1)])
        .await;
    let running = Running::start(consumer(&world, idempotency(), &acting));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, acting.calls(1).len()), (1, 1));
    assert_eq!(world.metric("duplicates_total"), 1.0);
    assert_eq!(value(id).await.as_deref(), Some("done"));
    let ttl = ttl_secs(id).await;
    assert!((719 * 3600..=720 * 3600).contains(&ttl), "{ttl}");
}

/// A0-10: killed after it reserved the key, the effect comes with the next delivery, when the lease is over.
#[tokio::test(flavor = "multi_thread")]
async fn killed_after_reserving_the_effect_is_not_lost() {
    let world = World::new().await;
    let (id, gate) = (Uuid::now_v7(), Gate::new());
    let hold = gate.clone();
    let acting = Acting::new(&world, move |_, call| {
        if call == 1 {
            Act::Wait(hold.clone())
        } else {
            Act::Apply
        }
    });
    let lease = Duration::from_secs(1);
    let running = Running::start(consumer(&world, idempotency().lease(lease), &acting));
    world.publish(&[world.message(id, "k", 1)]).await;
    gate.reached().await;
    running.abort().await;
    assert!(value(id).await.unwrap().starts_with("reserved:"));
    assert_eq!(world.effects().await, 0);

    let running = Running::start(consumer(&world, idempotency().lease(lease), &acting));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, acting.calls(1).len()), (1, 2));
    assert_eq!(value(id).await.as_deref(), Some("done"));
}

/// A0-11: a failure takes its key away, the message comes again, and the effect is there once.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_takes_its_key_away_and_the_effect_comes_once() {
    let world = World::new().await;
    let (id, gate) = (Uuid::now_v7(), Gate::new());
    let hold = gate.clone();
    let acting = Acting::new(&world, move |_, call| match call {
        1 => Act::Temporary,
        _ => Act::Wait(hold.clone()),
    });
    let mut slow = ack();
    slow.backoff.base = Duration::from_secs(2);
    slow.backoff.cap = slow.backoff.base;
    let subscription = world.subscription("payments");
    let consumer = Consumer::builder("payments", subscription)
        .with(slow)
        .with(idempotency())
        .handle(acting.clone());
    let running = Running::start(consumer);
    world.publish(&[world.message(id, "k", 1)]).await;
    until("the first call", 1, async || acting.calls(1).len()).await;
    // Reserved while it runs, and gone before the next try, which is two seconds away.
    eventually("the key is gone", async || match value(id).await {
        None if acting.calls(1).len() == 1 => Ok(()),
        found => Err(found),
    })
    .await;
    assert_eq!(world.unacknowledged().await, 1);
    gate.reached().await;
    assert!(value(id).await.unwrap().starts_with("reserved:"));
    gate.open();
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, acting.calls(1).len()), (1, 2));
}

/// A0-11: a redelivery during a running handler is not acknowledged: that handler may still fail, and here it does.
#[tokio::test(flavor = "multi_thread")]
async fn a_redelivery_during_a_running_handler_is_not_acknowledged() {
    let world = World::new().await;
    let (id, gate) = (Uuid::now_v7(), Gate::new());
    let hold = gate.clone();
    let acting = Acting::new(&world, move |_, call| {
        if call == 1 {
            Act::Wait(hold.clone())
        } else {
            Act::Apply
        }
    });
    // Of different keys, so that one does not wait for the other at the broker.
    world
        .publish(&[world.message(id, "a", 1), world.message(id, "b", 1)])
        .await;
    let lease = Duration::from_secs(1);
    let running = Running::start(consumer(&world, idempotency().lease(lease), &acting));
    gate.reached().await;
    // The lease is renewed meanwhile: the other is refused for longer than one lease lasts.
    let began = std::time::Instant::now();
    until("refused for two leases", true, async || {
        assert_eq!(
            (world.unacknowledged().await, acting.calls(1).len()),
            (2, 1)
        );
        world.metric("given_back_total") >= 1.0 && began.elapsed() > lease * 2
    })
    .await;
    running.abort().await;
    let running = Running::start(consumer(&world, idempotency().lease(lease), &acting));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.effects().await, 1);
}

/// What is dead-lettered behind the key leaves none: sent again, it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_leaves_no_key() {
    let world = World::new().await;
    let id = Uuid::now_v7();
    let acting = Acting::new(&world, |_, call| {
        if call == 1 {
            Act::Permanent
        } else {
            Act::Apply
        }
    });
    let chain = world
        .consumer()
        .with(idempotency())
        .with(world.dead_letter());
    let running = Running::start(chain.handle(acting.clone()));
    world.publish(&[world.message(id, "k", 1)]).await;
    world.until_dead(1).await;
    world.until_all_acknowledged().await;
    assert_eq!(value(id).await, None);
    world.publish(&[world.message(id, "k", 1)]).await;
    world.until_effects(1).await;
    running.stop().await;
}
