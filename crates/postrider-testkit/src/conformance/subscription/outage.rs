//! What a subscription does while the broker is away, and after.

use std::time::Duration;

use postrider_core::Delivery;

use super::super::publisher::{Seen, first_occurrences, interleaved};
use super::{CLOSE_DEADLINE, ROOMY, SubscriptionOutageWorld, drain, publish, take};
use crate::eventually;

pub async fn deliveries_go_on_after_an_outage_without_loss(
    mut world: impl SubscriptionOutageWorld,
) {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &KEYS, 0, 20)).await;
    let mut seen = Vec::new();
    let mut held = take(&*subscription, 10).await;
    world.stop().await;
    eventually("ping notices", async || match subscription.ping().await {
        Err(error) => Ok(error),
        Ok(()) => Err("it answers"),
    })
    .await;
    // What was given stays good: nobody else can have it meanwhile.
    seen.extend(held.iter().map(|delivery| Seen::of(&delivery.message)));
    held.iter_mut().for_each(Delivery::ack);
    // An error, local ones, or nothing for a while.
    while let Ok(Ok(batch)) =
        tokio::time::timeout(Duration::from_secs(1), subscription.next(10)).await
    {
        for mut delivery in batch {
            seen.push(Seen::of(&delivery.message));
            delivery.ack();
        }
    }
    world.start().await;
    eventually("ping recovers", async || subscription.ping().await).await;
    publish(&world, interleaved(&topic, &KEYS, 20, 20)).await;
    seen.extend(drain(&*subscription, &KEYS, 40).await);
    let by_key = first_occurrences(&seen);
    for key in KEYS {
        let numbers = &by_key[key];
        if world.keeps_messages() {
            assert_eq!(numbers, &(0..40).collect::<Vec<_>>(), "key {key}");
        }
        assert!(
            numbers.ends_with(&(20..40).collect::<Vec<_>>()),
            "key {key}: {numbers:?}"
        );
    }
    subscription.close(CLOSE_DEADLINE).await;
}
