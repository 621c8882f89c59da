//! Relays and consumers killed with SIGKILL again and again.

use std::time::Duration;

use super::arena::{Arena, MEMBER_ONE, MEMBER_TWO};
use super::outcome::{Outcome, assert_followed_up_once};
use super::processes::{Process, kill_again_and_again, stop_all};
use super::time;

#[tokio::test(flavor = "multi_thread")]
async fn with_an_inbox_on_kafka_effects_happen_once_and_in_order_though_processes_are_killed() {
    let arena = Arena::on_kafka(4).await;
    let consumers = [
        arena.consumer(&[MEMBER_ONE]),
        arena.consumer(&[MEMBER_TWO, ("BATCH", "20")]),
    ];
    let (rest, kill_every) = (Duration::from_millis(60), Duration::from_millis(500));
    let (outcome, kills) = torture(&arena, consumers, time(20), rest, kill_every).await;

    let what = format!("Kafka and inbox, {kills} kills");
    outcome.report(&what);
    outcome.assert_applied_once_in_order();
    outcome.assert_redelivered();
    assert_followed_up_once(&arena, &what).await;
    assert!(outcome.orders > 100 && kills > 10, "the test tests nothing");
}

/// A kill between an effect and the word to Redis is the one way to a second effect.
#[tokio::test(flavor = "multi_thread")]
async fn with_redis_on_pubsub_no_effect_is_lost_though_processes_are_killed() {
    let arena = Arena::on_pubsub().await;
    let consumers = [(); 2].map(|()| arena.consumer(&[("MODE", "redis")]));
    let (rest, kill_every) = (Duration::from_millis(600), Duration::from_secs(1));
    let (outcome, kills) = torture(&arena, consumers, time(12), rest, kill_every).await;

    outcome.report(&format!("Pub/Sub and Redis, {kills} kills"));
    assert!(outcome.effects.lost.is_empty() && outcome.effects.invented.is_empty());
    let at_most = kills * WORKERS;
    assert!(
        outcome.effects.duplicates <= at_most,
        "more effects are doubled than a kill can have cut short"
    );
    assert!(
        outcome.orders > 50 && kills > 5 && outcome.processes > 2,
        "the test tests nothing"
    );
}

/// What a consumer has in hand at most.
const WORKERS: usize = 8;

/// Writes and kills for `time`, with two relays; then waits until all is quiet.
async fn torture(
    arena: &Arena,
    consumers: [Process; 2],
    time: Duration,
    rest: Duration,
    kill_every: Duration,
) -> (Outcome, usize) {
    let mut staff = vec![arena.relay(), arena.relay()];
    staff.extend(consumers);
    let killing = kill_again_and_again(&mut staff, kill_every, time);
    let ((), kills) = tokio::join!(arena.write(time, rest), killing);
    arena.write_last().await;
    arena.until_quiet().await;
    stop_all(staff).await;
    (Outcome::of(arena).await, kills)
}
