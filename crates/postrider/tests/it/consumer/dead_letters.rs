//! Dead letters: what goes there, in which form, and never before it is safe there that the original is acknowledged.

use std::time::{Duration, Instant};

use postrider::brokers::memory::Fault;
use postrider::consumer::Consumer;
use postrider::consumer::middleware::{DeadLetter, Retry};
use uuid::Uuid;

use super::acting::{Act, Acting};
use super::settings::{quick, retry};
use super::world::{Running, World, json};

/// While the dead-letter topic is away the original is given back, and it is dead-lettered later.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_before_its_dead_letter_is_safe() {
    let world = World::new().await;
    let acting = Acting::new(&world, |order, _| {
        if order == 1 {
            Act::Permanent
        } else {
            Act::Apply
        }
    });
    let chain = world.consumer().with(world.dead_letter());
    let running = Running::start(world.in_transaction(chain).handle(acting.clone()));
    world.graveyard.stop();
    world.place("k", [1]).await;
    world.until_metric("given_back_total", 3.0).await;
    assert_eq!((world.unacknowledged().await, world.dead().len()), (1, 0));
    // The topic answers, and refuses: that is no reason to forget the event either.
    world.graveyard.fail_next(2, Fault::Permanent, |_| true);
    world.graveyard.start();
    let dead = world.until_dead(1).await;
    world.until_all_acknowledged().await;
    world.place("k", [2]).await;
    world.until_effects(1).await;
    running.stop().await;
    assert_eq!((dead.len(), world.dead().len()), (1, 1));
    assert!(acting.calls(1).len() >= 3);
}

/// A dead letter whose acknowledgement was lost is sent again: twice is better than never.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_without_an_answer_is_sent_again() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, _| Act::Permanent);
    world.graveyard.fail_next(1, Fault::AckLost, |_| true);
    let running = Running::start(
        world
            .in_transaction(world.consumer().with(world.dead_letter()))
            .handle(acting),
    );
    world.place("k", [1]).await;
    world.until_dead(2).await;
    world.until_all_acknowledged().await;
    running.stop().await;
}

fn two_tries() -> Retry {
    Retry {
        tries: 2,
        backoff: quick(),
    }
}

/// Consumers with both orders of `Retry` and `DeadLetter`.
fn both_orders(world: &World, dead: impl Fn() -> DeadLetter, acting: &Acting) -> [Consumer; 2] {
    let inside = world.in_transaction(world.consumer().with(two_tries()).with(dead()));
    let outside = world.in_transaction(world.consumer().with(dead()).with(two_tries()));
    [
        inside.handle(acting.clone()),
        outside.handle(acting.clone()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_for_now_is_given_back_when_its_tries_are_used_up() {
    for order in 0..2 {
        let world = World::new().await;
        let acting = Acting::new(&world, |_, call| {
            if call <= 5 {
                Act::Temporary
            } else {
                Act::Apply
            }
        });
        let [inside, outside] = both_orders(&world, || world.dead_letter(), &acting);
        let running = Running::start(if order == 0 { inside } else { outside });
        world.place("k", [1]).await;
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(
            (
                world.effects().await,
                world.dead().len(),
                acting.calls(1).len()
            ),
            (1, 0, 6)
        );
        assert_eq!(
            (
                world.metric("given_back_total"),
                world.metric("retried_total")
            ),
            (2.0, 3.0)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_for_now_is_dead_lettered_where_that_was_chosen() {
    for order in 0..2 {
        let world = World::new().await;
        let acting = Acting::new(&world, |order, _| {
            if order == 1 {
                Act::Temporary
            } else {
                Act::Apply
            }
        });
        let [inside, outside] =
            both_orders(&world, || world.dead_letter().when_exhausted(), &acting);
        let running = Running::start(if order == 0 { inside } else { outside });
        world.place("k", [1, 2]).await;
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(
            (
                world.applied().await,
                world.dead().len(),
                acting.calls(1).len()
            ),
            (vec![2], 1, 2)
        );
        assert_eq!(
            json(&world.dead()[0])["errorMessage"],
            "order 1 fails for now"
        );
        assert_eq!(world.metric("given_back_total"), 0.0);
    }
}

/// A stop in the middle of the tries is no reason to bury the event.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_between_tries_gives_back_and_buries_nothing() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, _| Act::Temporary);
    let mut slow = retry();
    slow.backoff.base = Duration::from_secs(60);
    slow.backoff.cap = slow.backoff.base;
    let chain = world
        .consumer()
        .with(world.dead_letter().when_exhausted())
        .with(slow);
    let running = Running::start(world.in_transaction(chain).handle(acting.clone()));
    world.place("k", [1]).await;
    world.until_metric("retried_total", 1.0).await;
    let told = Instant::now();
    running.stop().await;
    assert!(told.elapsed() < Duration::from_secs(10), "waited for a try");
    assert_eq!(
        (
            world.dead().len(),
            world.unacknowledged().await,
            acting.calls(1).len()
        ),
        (0, 1, 1)
    );
}

/// Sent again from the dead-letter topic, the event runs: nothing has recorded it as processed.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_that_is_sent_again_is_handled() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, call| {
        if call == 1 {
            Act::Permanent
        } else {
            Act::Apply
        }
    });
    let message = world.message(Uuid::now_v7(), "k", 1);
    let running = Running::start(
        world
            .in_transaction(world.consumer().with(world.dead_letter()))
            .handle(acting),
    );
    world.publish(std::slice::from_ref(&message)).await;
    world.until_dead(1).await;
    assert_eq!(world.database.count("processed_messages").await, 0);
    world.publish(&[message]).await;
    world.until_effects(1).await;
    running.stop().await;
}
