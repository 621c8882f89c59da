//! The checker is known to work: what is broken on purpose is seen to be.

use std::time::Duration;

use super::arena::{Arena, MEMBER_ONE};
use super::outcome::Outcome;
use super::processes::{kill_again_and_again, stop_all};

const ROUNDS: usize = 10;
const ROUND: Duration = Duration::from_secs(3);
const REST: Duration = Duration::from_millis(60);

#[tokio::test(flavor = "multi_thread")]
async fn without_an_inbox_killed_consumers_are_seen_to_double_effects() {
    let arena = Arena::on_kafka(4).await;
    let relay = arena.relay();
    let mut consumers = [arena.consumer(&[MEMBER_ONE, ("MODE", "unprotected")])];
    for _ in 0..ROUNDS {
        let killing = kill_again_and_again(&mut consumers, Duration::from_secs(1), ROUND);
        tokio::join!(arena.write(ROUND, REST), killing);
        arena.write_last().await;
        arena.until_quiet().await;
        let outcome = Outcome::of(&arena).await;
        outcome.report("no inbox");
        assert!(outcome.effects.lost.is_empty() && outcome.effects.invented.is_empty());
        if outcome.effects.duplicates > 0 {
            return stop_all(consumers.into_iter().chain([relay]).collect()).await;
        }
    }
    panic!("no effect was doubled in {ROUNDS} rounds");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_order_per_key_workers_are_seen_to_invert_effects() {
    let arena = Arena::on_kafka(4).await;
    let staff = vec![arena.relay(), arena.consumer(&[("ORDERING", "none")])];
    for _ in 0..ROUNDS {
        arena.write(ROUND, REST).await;
        arena.until_quiet().await;
        let outcome = Outcome::of(&arena).await;
        outcome.report("no order per key");
        assert!(outcome.effects.lost.is_empty() && outcome.effects.invented.is_empty());
        assert_eq!(outcome.effects.duplicates, 0);
        if !outcome.effects.inverted.is_empty() {
            return stop_all(staff).await;
        }
    }
    panic!("no effect was inverted in {ROUNDS} rounds");
}
