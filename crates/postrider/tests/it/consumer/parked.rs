//! The order of a key after a dead letter: parked, its later events follow; else they are handled.

use postrider::consumer::Consumer;
use postrider::consumer::middleware::{DeadLetter, Inbox, Transaction};
use postrider::core::{Message, ParkedKeys as _};
use postrider::stores::postgres::PgParkedKeys;

use super::acting::{Act, Acting};
use super::world::{Running, World, json};

fn parking(world: &World) -> DeadLetter {
    world
        .dead_letter()
        .park(PgParkedKeys::new(world.database.pool.clone()))
}

/// Order 1 is impossible; all others are fine.
fn consumer(world: &World, dead: DeadLetter, batch: usize) -> (Consumer, Acting) {
    let acting = Acting::new(world, |order, _| {
        if order == 1 {
            Act::Permanent
        } else {
            Act::Apply
        }
    });
    let chain = world
        .consumer()
        .with(dead)
        .with(Transaction::new(world.transactions()).batch(batch));
    (
        chain.with(Inbox::new(world.inbox())).handle(acting.clone()),
        acting,
    )
}

/// The orders of dead letters, in the topic's order.
fn orders(dead: &[Message]) -> Vec<i64> {
    dead.iter()
        .map(|letter| json(letter)["originalEvent"]["order"].as_i64().unwrap())
        .collect()
}

/// Later events of a parked key follow in order, other keys flow, and a freed key is handled again.
async fn a_parked_key_waits_for_the_operator(batch: usize) {
    let world = World::new().await;
    world.place("a", 1..=10).await;
    world.place("b", 11..=13).await;
    let (consumer, acting) = consumer(&world, parking(&world), batch);
    let running = Running::start(consumer);
    world.until_all_acknowledged().await;
    assert_eq!(world.applied().await, [11, 12, 13]);
    assert_eq!(orders(&world.dead()), Vec::from_iter(1..=10));
    assert!((2..=10).all(|order| acting.calls(order).is_empty() || batch > 1));
    let error = json(&world.dead()[1])["errorMessage"].to_string();
    assert!(error.contains("parked"), "{error}");
    world.place("a", 20..=40).await;
    world.until_all_acknowledged().await;
    assert_eq!(
        orders(&world.dead()),
        Vec::from_iter((1..=10).chain(20..=40))
    );

    let keys = PgParkedKeys::new(world.database.pool.clone());
    assert!(keys.free("payments", "orders", b"a").await.unwrap());
    world.place("a", [50]).await;
    world.until_effects(4).await;
    running.stop().await;
    assert_eq!(world.applied().await, [11, 12, 13, 50]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_key_waits_for_the_operator_one_by_one() {
    a_parked_key_waits_for_the_operator(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_key_waits_for_the_operator_in_batches() {
    a_parked_key_waits_for_the_operator(20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_parking_the_later_events_of_the_key_are_handled() {
    for batch in [1, 20] {
        let world = World::new().await;
        world.place("a", 1..=5).await;
        let (consumer, _) = consumer(&world, world.dead_letter(), batch);
        let running = Running::start(consumer);
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(world.applied().await, [2, 3, 4, 5]);
        assert_eq!(orders(&world.dead()), [1]);
    }
}

/// The key is parked before its dead letter leaves: while that cannot leave, nothing of the key overtakes it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_overtakes_a_dead_letter_that_cannot_leave() {
    for batch in [1, 20] {
        let world = World::new().await;
        world.graveyard.stop();
        world.place("a", 1..=3).await;
        let (consumer, acting) = consumer(&world, parking(&world), batch);
        let running = Running::start(consumer);
        world.until_metric("given_back_total", 3.0).await;
        assert_eq!(world.effects().await, 0);
        world.graveyard.start();
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(orders(&world.dead()), [1, 2, 3]);
        assert_eq!(
            (world.effects().await, !acting.calls(1).is_empty()),
            (0, true)
        );
    }
}
