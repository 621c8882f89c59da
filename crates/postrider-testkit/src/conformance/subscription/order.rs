//! Order per key, in one hand at a time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_core::{Delivery, Subscription};
use tokio::task::JoinSet;

use super::super::publisher::{Seen, first_occurrences, interleaved, numbered};
use super::{
    CLOSE_DEADLINE, ROOMY, SubscriptionWorld, drain, key_of, number_of, numbers_by_key, publish,
    take, take_exactly,
};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

pub async fn deliveries_of_a_key_come_in_order_within_and_across_batches(
    world: impl SubscriptionWorld,
) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &KEYS, 0, 40)).await;
    let mut seen = Vec::new();
    while first_occurrences(&seen)
        .values()
        .map(Vec::len)
        .sum::<usize>()
        < 200
    {
        let mut batch = take(&*subscription, 7).await;
        for (key, numbers) in numbers_by_key(&batch) {
            assert!(numbers.is_sorted(), "{key} within a batch: {numbers:?}");
        }
        seen.extend(batch.iter().map(|delivery| Seen::of(&delivery.message)));
        batch.iter_mut().for_each(Delivery::ack);
    }
    let by_key = first_occurrences(&seen);
    for key in KEYS {
        assert_eq!(by_key[key], (0..40).collect::<Vec<_>>(), "key {key}");
    }
    subscription.close(CLOSE_DEADLINE).await;
}

pub async fn a_key_is_in_one_batch_at_a_time(world: impl SubscriptionWorld) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &["a"], 0, 3)).await;
    let mut first = take(&*subscription, 1).await;
    assert_eq!(number_of(&first[0]), 0);
    publish(&world, interleaved(&topic, &["a", "b", "c"], 3, 1)).await;
    let others = take_exactly(&*subscription, 2).await;
    assert!(
        others.iter().all(|delivery| key_of(delivery) != "a"),
        "{others:?}"
    );
    super::assert_silent(&*subscription, "a is in the first batch").await;
    first.iter_mut().for_each(Delivery::ack);
    let rest = drain(&*subscription, &["a"], 4).await;
    assert_eq!(first_occurrences(&rest)["a"], [1, 2, 3]);
}

pub async fn a_key_is_in_one_hand_at_a_time_with_concurrent_callers(world: impl SubscriptionWorld) {
    const COUNT: usize = 60;
    let topic = world.fresh_topic().await;
    let subscription: Arc<dyn Subscription> = world.subscribe(&topic, ROOMY).await.into();
    publish(&world, interleaved(&topic, &KEYS, 0, COUNT)).await;
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut callers = JoinSet::new();
    for turn in 1..=4 {
        let (subscription, ledger) = (Arc::clone(&subscription), Arc::clone(&ledger));
        callers.spawn(async move {
            loop {
                let mut batch = take(&*subscription, 3).await;
                ledger.lock().expect("no panic").take(&batch);
                // Some work, so that the others have time to go wrong.
                tokio::time::sleep(Duration::from_millis(turn)).await;
                let seen = ledger.lock().expect("no panic").give_back(&batch);
                batch.iter_mut().for_each(Delivery::ack);
                if seen == COUNT * KEYS.len() {
                    return;
                }
            }
        });
    }
    // Whoever sees the last message ends it for all.
    let first = callers.join_next().await.expect("there are four");
    first.expect("no key is in two hands");
    let by_key = first_occurrences(&ledger.lock().expect("no panic").seen);
    for key in KEYS {
        assert_eq!(by_key[key], (0..COUNT).collect::<Vec<_>>(), "key {key}");
    }
}

#[derive(Default)]
struct Ledger {
    held: HashSet<String>,
    seen: Vec<Seen>,
}

impl Ledger {
    fn take(&mut self, batch: &[Delivery]) {
        let keys: HashSet<String> = batch.iter().map(key_of).collect();
        for key in keys {
            assert!(self.held.insert(key.clone()), "{key} is in two hands");
        }
        let seen = batch.iter().map(|delivery| Seen::of(&delivery.message));
        self.seen.extend(seen);
    }

    /// How many different messages were seen by then.
    fn give_back(&mut self, batch: &[Delivery]) -> usize {
        for delivery in batch {
            self.held.remove(&key_of(delivery));
        }
        first_occurrences(&self.seen).values().map(Vec::len).sum()
    }
}

pub async fn a_nacked_delivery_holds_back_its_key_and_no_other(world: impl SubscriptionWorld) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, vec![numbered(&topic, "a", 0)]).await;
    let mut first = take(&*subscription, 100).await;
    publish(&world, interleaved(&topic, &["a"], 1, 2)).await;
    publish(&world, interleaved(&topic, &["b"], 0, 3)).await;
    first[0].nack(Duration::from_secs(3));
    let seen = drain(&*subscription, &["a", "b"], 3).await;
    let names: Vec<String> = seen
        .iter()
        .map(|seen| format!("{}{}", seen.key.as_deref().unwrap_or(""), seen.headers[0].1))
        .collect();
    assert_eq!(names, ["b0", "b1", "b2", "a0", "a1", "a2"]);
}

pub async fn two_members_share_the_work_and_lose_nothing(world: impl SubscriptionWorld) {
    const COUNT: usize = 30;
    let topic = world.fresh_topic().await;
    let first = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &KEYS, 0, COUNT)).await;
    let mut seen: Vec<Seen> = Vec::new();
    for mut delivery in take(&*first, 10).await {
        seen.push(Seen::of(&delivery.message));
        delivery.ack();
    }
    let second = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &KEYS, COUNT, COUNT)).await;
    let total = 2 * COUNT * KEYS.len();
    while first_occurrences(&seen)
        .values()
        .map(Vec::len)
        .sum::<usize>()
        < total
    {
        let batch = tokio::select! {
            batch = take(&*first, 10) => batch,
            batch = take(&*second, 10) => batch,
        };
        for mut delivery in batch {
            seen.push(Seen::of(&delivery.message));
            delivery.ack();
        }
    }
    let by_key = first_occurrences(&seen);
    for key in KEYS {
        assert_eq!(by_key[key], (0..2 * COUNT).collect::<Vec<_>>(), "key {key}");
    }
    tokio::join!(first.close(CLOSE_DEADLINE), second.close(CLOSE_DEADLINE));
}
