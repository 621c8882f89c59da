//! What a publisher does while the broker is away, and after.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postrider_core::PublishError;

use super::{
    DEADLINE, OutageWorld, SHORT_DEADLINE, assert_all_taken, first_occurrences, interleaved,
    numbered, publish_until_taken,
};
use crate::eventually;

/// How much longer than its deadline a call may take: the contract's second or two, and a busy machine.
const OVERRUN_MAX: Duration = Duration::from_secs(3);

pub async fn a_stopped_broker_makes_all_unavailable_within_the_deadline(
    mut world: impl OutageWorld,
) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    assert_all_taken(
        &publisher
            .publish(&[numbered(&topic, "a", 0)], DEADLINE)
            .await,
    );
    world.stop().await;
    // Twice: the first call may find an open connection, the second none.
    for number in 1..3 {
        let batch = interleaved(&topic, &["a", "b", "c"], number, 50);
        let start = Instant::now();
        let outcomes = publisher.publish(&batch, SHORT_DEADLINE).await;
        let took = start.elapsed();
        assert!(took < SHORT_DEADLINE + OVERRUN_MAX, "took {took:?}");
        assert_eq!(outcomes.len(), batch.len());
        for outcome in &outcomes {
            assert!(
                matches!(outcome, Err(PublishError::Unavailable { .. })),
                "{outcome:?}"
            );
        }
    }
    assert!(publisher.ping().await.is_err(), "ping notices");
    world.start().await;
    eventually("ping recovers", async || publisher.ping().await).await;
}

pub async fn the_same_publisher_goes_on_in_order_after_an_outage(mut world: impl OutageWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let keys = ["a", "b", "c"];
    let before = interleaved(&topic, &keys, 0, 20);
    assert_all_taken(&publisher.publish(&before, DEADLINE).await);
    world.stop().await;
    let during = interleaved(&topic, &keys, 20, 20);
    let outcomes = publisher.publish(&during, SHORT_DEADLINE).await;
    assert!(outcomes.iter().all(Result::is_err));
    world.start().await;
    publish_until_taken(&*publisher, during).await;
    publish_until_taken(&*publisher, interleaved(&topic, &keys, 40, 20)).await;

    let first = if world.keeps_messages() { 0 } else { 20 };
    let by_key = first_occurrences(&world.read(&topic).await);
    for key in keys {
        assert_eq!(by_key[key], (first..60).collect::<Vec<_>>(), "key {key}");
    }
}

pub async fn a_broker_that_dies_under_load_inverts_nothing(mut world: impl OutageWorld) {
    const ROUND: usize = 50;
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let reborn = AtomicBool::new(false);
    let writers = (0..4).map(|writer| {
        let (publisher, topic, reborn) = (&*publisher, &topic, &reborn);
        async move {
            let key = format!("key-{writer}");
            let mut count = 0;
            let mut rounds_left = 10;
            while rounds_left > 0 {
                rounds_left -= usize::from(reborn.load(Ordering::Relaxed));
                publish_until_taken(publisher, interleaved(topic, &[&key], count, ROUND)).await;
                count += ROUND;
                // A broker in memory would never let the others in.
                tokio::task::yield_now().await;
            }
            (key, count)
        }
    });
    let death = async {
        eventually("the load is on", async || {
            let seen = world.read(&topic).await.len();
            if seen > 4 * ROUND { Ok(()) } else { Err(seen) }
        })
        .await;
        world.stop().await;
        world.start().await;
        reborn.store(true, Ordering::Relaxed);
    };
    let (written, ()) = futures::join!(futures::future::join_all(writers), death);
    let by_key = first_occurrences(&world.read(&topic).await);
    for (key, count) in written {
        let numbers = &by_key[&key];
        assert!(numbers.is_sorted(), "{key} is inverted: {numbers:?}");
        assert_eq!(numbers.last(), Some(&(count - 1)), "{key}");
        if world.keeps_messages() {
            assert_eq!(numbers.len(), count, "{key} lost something");
        }
    }
}

pub async fn a_frozen_broker_that_thaws_after_the_deadline_inverts_nothing(
    mut world: impl OutageWorld,
) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let keys = ["a", "b", "c"];
    publish_until_taken(&*publisher, interleaved(&topic, &keys, 0, 20)).await;
    world.freeze().await;
    // On the wire and unanswered: the broker finds these when it wakes up.
    let during = interleaved(&topic, &keys, 20, 20);
    let start = Instant::now();
    let outcomes = publisher.publish(&during, SHORT_DEADLINE).await;
    let took = start.elapsed();
    assert!(took < SHORT_DEADLINE + OVERRUN_MAX, "took {took:?}");
    for outcome in &outcomes {
        assert!(
            matches!(outcome, Err(PublishError::Unavailable { .. })),
            "{outcome:?}"
        );
    }
    world.thaw().await;
    publish_until_taken(&*publisher, during).await;
    publish_until_taken(&*publisher, interleaved(&topic, &keys, 40, 20)).await;
    let by_key = first_occurrences(&world.read(&topic).await);
    for key in keys {
        assert_eq!(by_key[key], (0..60).collect::<Vec<_>>(), "key {key}");
    }
}

pub async fn what_was_given_up_is_not_sent_later(mut world: impl OutageWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let keys = ["a", "b", "c"];
    publish_until_taken(&*publisher, interleaved(&topic, &keys, 0, 5)).await;
    world.freeze().await;
    let given_up = interleaved(&topic, &keys, 5, 5);
    let outcomes = publisher.publish(&given_up, SHORT_DEADLINE).await;
    assert!(outcomes.iter().all(Result::is_err));
    // What was on the wire dies with the server, so that only the publisher itself could send it.
    world.stop().await;
    world.start().await;
    world.thaw().await;
    publish_until_taken(&*publisher, interleaved(&topic, &keys, 10, 5)).await;

    let first = if world.keeps_messages() { 0..5 } else { 0..0 };
    let by_key = first_occurrences(&world.read(&topic).await);
    for key in keys {
        assert_eq!(
            by_key[key],
            first.clone().chain(10..15).collect::<Vec<_>>(),
            "key {key}"
        );
    }
}
