//! How a consumer ends.

use std::time::Duration;

use postrider::consumer::Config;
use postrider::consumer::middleware::{Inbox, Transaction};

use super::acting::{Act, Acting, Gate};
use super::settings::config;
use super::world::{Running, World, until};

/// A handler that runs when the stop comes finishes and is acknowledged; nothing more is begun.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_handler_finishes_and_is_acknowledged() {
    let world = World::new().await;
    let gate = Gate::new();
    let hold = gate.clone();
    let acting = Acting::new(&world, move |order, _| {
        if order == 1 {
            Act::Wait(hold.clone())
        } else {
            Act::Apply
        }
    });
    let one = Config {
        workers: 1,
        ..config()
    };
    let chain = world
        .consumer()
        .config(one)
        .with(Transaction::new(world.transactions()));
    let running = Running::start(chain.handle(acting.clone()));
    world.place("k", [1, 2]).await;
    gate.reached().await;
    running.tell_to_stop();
    gate.open();
    running.stop().await;
    assert_eq!(
        (world.applied().await, world.unacknowledged().await),
        (vec![1], 1)
    );
    assert!(acting.calls(2).is_empty());
    assert_eq!(world.metric("in_flight"), 0.0);
}

/// One that outlasts `stop_timeout` is abandoned: no effect, no acknowledgement, and it comes again.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_outlasts_the_stop_is_abandoned_and_comes_again() {
    let world = World::new().await;
    let acting = Acting::new(
        &world,
        |_, call| if call == 1 { Act::Hang } else { Act::Apply },
    );
    let consumer = |stop_timeout| {
        let chain = world.consumer().config(Config {
            stop_timeout,
            ..config()
        });
        let chain = chain
            .with(Transaction::new(world.transactions()))
            .with(Inbox::new(world.inbox()));
        chain.handle(acting.clone())
    };
    let running = Running::start(consumer(Duration::from_millis(200)));
    world.place("k", [1]).await;
    until("the handler hangs", 1, async || acting.calls(1).len()).await;
    running.stop().await;
    assert_eq!(
        (world.effects().await, world.unacknowledged().await),
        (0, 1)
    );
    assert_eq!(world.metric("in_flight"), 0.0);

    let running = Running::start(consumer(Duration::from_secs(20)));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, acting.calls(1).len()), (1, 2));
}

/// A crash while handlers run: everything unsettled comes again, and effects are there once.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_everything_unsettled_comes_again() {
    let world = World::new().await;
    let gate = Gate::new();
    let hold = gate.clone();
    let acting = Acting::new(&world, move |_, call| {
        if call == 1 {
            Act::Wait(hold.clone())
        } else {
            Act::Apply
        }
    });
    let consumer = || {
        let chain = world
            .consumer()
            .with(Transaction::new(world.transactions()))
            .with(Inbox::new(world.inbox()));
        chain.handle(acting.clone())
    };
    let running = Running::start(consumer());
    for (key, order) in [("a", 1), ("b", 2), ("c", 3)] {
        world.place(key, [order]).await;
        gate.reached().await;
    }
    running.abort().await;
    assert_eq!(world.effects().await, 0);
    let running = Running::start(consumer());
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.effects().await, 3);
}

/// A delivery that nobody decides about comes again, however well it went: `Ack` is missing in this chain.
#[tokio::test(flavor = "multi_thread")]
async fn without_ack_in_the_chain_nothing_is_acknowledged() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, _| Act::Apply);
    let subscription = world.subscription("payments");
    let chain = postrider::Consumer::builder("payments", subscription)
        .with(Transaction::new(world.transactions()));
    let running = Running::start(chain.with(Inbox::new(world.inbox())).handle(acting.clone()));
    world.place("k", [1]).await;
    world.until_effects(1).await;
    running.stop().await;
    assert_eq!(world.unacknowledged().await, 1);
}
