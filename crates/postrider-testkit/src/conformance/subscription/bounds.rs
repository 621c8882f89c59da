//! Limits that hold whatever waits at the broker.

use std::collections::HashSet;

use postrider_core::Delivery;

use super::{CLOSE_DEADLINE, QUIET, SubscriptionWorld, independent, key_of, publish, take};

pub async fn work_in_flight_is_bounded_by_count(world: impl SubscriptionWorld) {
    const BOUND: usize = 12;
    const COUNT: usize = 80;
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, BOUND).await;
    publish(&world, independent(&topic, 0..COUNT)).await;
    let mut seen = HashSet::new();
    let mut fullest = 0;
    while seen.len() < COUNT {
        let mut held: Vec<Delivery> = take(&*subscription, COUNT).await;
        while let Ok(next) = tokio::time::timeout(QUIET, subscription.next(COUNT)).await {
            held.extend(next.into_iter().flatten());
            assert!(held.len() <= BOUND, "{} in hand", held.len());
        }
        fullest = fullest.max(held.len());
        seen.extend(held.iter().map(key_of));
        held.iter_mut().for_each(Delivery::ack);
    }
    assert!(fullest > BOUND / 2, "the bound is of use: {fullest}");
    subscription.close(CLOSE_DEADLINE).await;
}
