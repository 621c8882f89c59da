//! Ends that lose nothing and take no longer than they may.

use std::time::{Duration, Instant};

use postrider_core::{Delivery, SubscribeError};

use super::super::publisher::{first_occurrences, interleaved, numbered};
use super::{
    CLOSE_DEADLINE, CLOSE_OVERRUN_MAX, PATIENCE, QUIET, ROOMY, SubscriptionWorld,
    assert_nothing_is_left, drain, publish, take,
};
use crate::eventually;

pub async fn what_was_acknowledged_before_a_clean_close_does_not_come_again(
    world: impl SubscriptionWorld,
) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &["a", "b"], 0, 20)).await;
    drain(&*subscription, &["a", "b"], 20).await;
    subscription.close(CLOSE_DEADLINE).await;
    assert_nothing_is_left(&world, &topic).await;
}

pub async fn close_waits_for_what_is_in_hand(world: impl SubscriptionWorld) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, vec![numbered(&topic, "a", 0)]).await;
    let mut held = take(&*subscription, 10).await;
    let closing = subscription.close(CLOSE_DEADLINE);
    let work = async {
        eventually(
            "next is closed while close waits",
            async || match tokio::time::timeout(PATIENCE, subscription.next(1)).await {
                Ok(Err(SubscribeError::Closed)) => Ok(()),
                other => Err(format!("{other:?}")),
            },
        )
        .await;
        let lost = tokio::time::timeout(QUIET, held[0].lost()).await;
        assert!(lost.is_err(), "lost while there is time");
        held.iter_mut().for_each(Delivery::ack);
        Instant::now()
    };
    let ((), settled_at) = tokio::join!(closing, work);
    let took = settled_at.elapsed();
    assert!(
        took < CLOSE_OVERRUN_MAX,
        "{took:?} after the last was settled"
    );
    assert_nothing_is_left(&world, &topic).await;
}

pub async fn close_returns_at_its_deadline_and_gives_back_the_rest(world: impl SubscriptionWorld) {
    const DEADLINE: Duration = Duration::from_millis(500);
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    publish(&world, interleaved(&topic, &["a"], 0, 2)).await;
    let mut held = take(&*subscription, 1).await;
    let start = Instant::now();
    subscription.close(DEADLINE).await;
    let took = start.elapsed();
    assert!(
        took >= DEADLINE && took < DEADLINE + CLOSE_OVERRUN_MAX,
        "{took:?}"
    );
    tokio::time::timeout(DEADLINE, held[0].lost())
        .await
        .expect("what was not settled is lost");
    held[0].ack();
    let next = world.subscribe(&topic, ROOMY).await;
    let by_key = first_occurrences(&drain(&*next, &["a"], 2).await);
    assert_eq!(
        by_key["a"],
        [0, 1],
        "the late acknowledgement had no effect"
    );
    next.close(CLOSE_DEADLINE).await;
}

pub async fn a_closed_subscription_stays_closed(world: impl SubscriptionWorld) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    let waiting = async {
        loop {
            match tokio::time::timeout(PATIENCE, subscription.next(1)).await {
                Ok(Err(SubscribeError::Closed)) => return,
                // The broker may still be on its way.
                Ok(Err(SubscribeError::Unavailable { .. })) => tokio::task::yield_now().await,
                other => panic!("{other:?}"),
            }
        }
    };
    let closing = async {
        tokio::task::yield_now().await;
        subscription.close(CLOSE_DEADLINE).await;
    };
    tokio::join!(waiting, closing);
    publish(&world, vec![numbered(&topic, "a", 0)]).await;
    assert!(matches!(
        subscription.next(1).await,
        Err(SubscribeError::Closed)
    ));
    subscription.close(CLOSE_DEADLINE).await;
}

pub async fn cancelling_next_loses_nothing(world: impl SubscriptionWorld) {
    const COUNT: usize = 100;
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    let messages = interleaved(&topic, &["a", "b"], 0, COUNT);
    let cancelled = async {
        let mut seen = Vec::new();
        // Always about to take when it is cancelled.
        for turn in 0..200_u64 {
            let patience = Duration::from_micros(turn * 50);
            if let Ok(Ok(batch)) = tokio::time::timeout(patience, subscription.next(3)).await {
                for mut delivery in batch {
                    seen.push(super::Seen::of(&delivery.message));
                    delivery.ack();
                }
            }
        }
        seen
    };
    let (mut seen, ()) = tokio::join!(cancelled, publish(&world, messages));
    let last = |numbers: Option<&Vec<usize>>| numbers.is_some_and(|n| n.contains(&(COUNT - 1)));
    let by_key = first_occurrences(&seen);
    let open: Vec<&str> = ["a", "b"]
        .into_iter()
        .filter(|key| !last(by_key.get(*key)))
        .collect();
    seen.extend(drain(&*subscription, &open, COUNT).await);
    let by_key = first_occurrences(&seen);
    for key in ["a", "b"] {
        assert_eq!(by_key[key], (0..COUNT).collect::<Vec<_>>(), "key {key}");
    }
}
