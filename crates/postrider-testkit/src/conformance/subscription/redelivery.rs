//! What is not acknowledged comes again.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use postrider_core::Delivery;

use super::super::publisher::{first_occurrences, interleaved, numbered};
use super::{
    CLOSE_DEADLINE, ROOMY, SubscriptionWorld, drain, independent, key_of, number_of, publish, take,
    take_exactly,
};

pub async fn a_nacked_delivery_comes_again_but_not_before_its_time(world: impl SubscriptionWorld) {
    const AFTER: Duration = Duration::from_millis(1_500);
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, vec![numbered(&topic, "a", 0)]).await;
    let mut first = take(&*subscription, 10).await;
    assert_eq!((first.len(), first[0].attempt), (1, 1));
    let start = Instant::now();
    first[0].nack(AFTER);
    let mut second = take(&*subscription, 10).await;
    assert!(start.elapsed() >= AFTER, "after {:?}", start.elapsed());
    assert_eq!(second[0].message.payload, first[0].message.payload);
    if world.counts_attempts() {
        assert_eq!(second[0].attempt, 2);
    }
    second[0].nack(Duration::ZERO);
    let mut third = take(&*subscription, 10).await;
    if world.counts_attempts() {
        assert_eq!(third[0].attempt, 3);
    }
    third[0].ack();
    super::assert_silent(&*subscription, "acknowledged at last").await;
}

pub async fn dropped_deliveries_come_again_in_order(world: impl SubscriptionWorld) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &["a", "b"], 0, 10)).await;
    let mut batch = take(&*subscription, 6).await;
    batch[0].ack();
    let acked = (key_of(&batch[0]), number_of(&batch[0]));
    drop(batch);
    let by_key = first_occurrences(&drain(&*subscription, &["a", "b"], 10).await);
    for key in ["a", "b"] {
        let expected: Vec<usize> = (0..10)
            .filter(|number| acked != (key.to_owned(), *number))
            .collect();
        assert_eq!(by_key[key], expected, "key {key}");
    }
}

pub async fn what_a_crash_leaves_unacknowledged_comes_to_the_next_member(
    world: impl SubscriptionWorld,
) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &["a", "b", "c"], 0, 5)).await;
    let held = take(&*subscription, 8).await;
    drop(subscription);
    drop(held);
    let next = world.subscribe(&topic, ROOMY).await;
    let by_key = first_occurrences(&drain(&*next, &["a", "b", "c"], 5).await);
    for key in ["a", "b", "c"] {
        assert_eq!(by_key[key], [0, 1, 2, 3, 4], "key {key}");
    }
    next.close(CLOSE_DEADLINE).await;
}

pub async fn out_of_order_acknowledgements_and_a_crash_lose_nothing(world: impl SubscriptionWorld) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, independent(&topic, 0..30)).await;
    let mut held = take_exactly(&*subscription, 30).await;
    held.sort_by_key(number_of);
    let unfinished = [7, 8, 20];
    for delivery in held.iter_mut().rev() {
        if !unfinished.contains(&number_of(delivery)) {
            delivery.ack();
        }
    }
    super::assert_silent(&*subscription, "nothing acknowledged comes again").await;
    drop(subscription);
    tokio::time::timeout(CLOSE_DEADLINE, held[7].lost())
        .await
        .expect("lost with the subscription");
    held.iter_mut().for_each(Delivery::ack);

    let next = world.subscribe(&topic, ROOMY).await;
    let mut seen = HashSet::new();
    while !unfinished.iter().all(|number| seen.contains(number)) {
        let mut batch = take(&*next, 100).await;
        seen.extend(batch.iter().map(number_of));
        batch.iter_mut().for_each(Delivery::ack);
    }
    // What was acknowledged behind an unfinished one may come again, after it.
    super::take_the_rest(&*next).await;
    next.close(CLOSE_DEADLINE).await;
    super::assert_nothing_is_left(&world, &topic).await;
}
