//! A consumer that dies at a named point, and another one that finishes.

use std::os::unix::process::ExitStatusExt as _;

use super::arena::{Arena, MEMBER_ONE};
use super::outcome::{Outcome, assert_followed_up_once};
use super::processes::stop_all;

const SIGABRT: i32 = 6;

/// Has a consumer of `mode` die at `point`, says how many effects there were then, and has another one finish.
async fn die_and_finish(mode: &str, point: &str) -> (Arena, i64, Outcome) {
    let arena = Arena::on_kafka(1).await;
    let relay = arena.relay();
    arena.write_last().await;
    let settings = [("MODE", mode), MEMBER_ONE, ("WORKERS", "1")];
    let armed = [&settings[..], &[("POSTRIDER_FAILPOINT", point)]].concat();
    let status = arena.consumer(&armed).end().await;
    assert_eq!(status.signal(), Some(SIGABRT), "{status}");
    let at_death = arena.service.count("effects").await;
    let second = arena.consumer(&settings);
    arena.write_last().await;
    arena.until_quiet().await;
    stop_all(vec![relay, second]).await;
    let outcome = Outcome::of(&arena).await;
    outcome.report(&format!("{mode}, died when {point}"));
    (arena, at_death, outcome)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_was_not_committed_happens_after_the_crash() {
    let (arena, at_death, outcome) = die_and_finish("inbox", "applied").await;
    assert_eq!(at_death, 0);
    assert_eq!(outcome.suppressed, 0);
    outcome.assert_applied_once_in_order();
    assert_followed_up_once(&arena, "died when applied").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_was_not_acknowledged_does_not_happen_again_after_the_crash() {
    let (arena, at_death, outcome) = die_and_finish("inbox", "handled").await;
    assert_eq!(at_death, 1);
    assert_eq!(outcome.suppressed, 1);
    outcome.assert_applied_once_in_order();
    assert_followed_up_once(&arena, "died when handled").await;
}

/// The embedded relay dies: what it captured once is published again, and nothing is applied or captured again.
#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_that_was_published_and_not_settled_is_published_again_and_captured_once() {
    let (arena, at_death, outcome) = die_and_finish("inbox", "published").await;
    assert!(at_death > 0);
    outcome.assert_applied_once_in_order();
    assert_followed_up_once(&arena, "died when published").await;
    let published = arena.log(".followups").await.len();
    assert!(published as i64 > outcome.orders, "{published} follow-ups");
}

/// A0-10: a consumer that died after it reserved an event, before its effect. The reservation runs out, and the effect
/// happens.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_reserved_by_a_consumer_that_died_has_its_effect() {
    let (_, at_death, outcome) = die_and_finish("redis", "reserved").await;
    assert_eq!(at_death, 0);
    outcome.assert_applied_once_in_order();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_redis_knows_of_does_not_happen_again_after_the_crash() {
    let (_, at_death, outcome) = die_and_finish("redis", "handled").await;
    assert_eq!(at_death, 1);
    assert_eq!(outcome.suppressed, 1);
    outcome.assert_applied_once_in_order();
}
