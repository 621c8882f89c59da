//! A group whose members join and leave every second, most in good order and some by SIGKILL.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::arena::Arena;
use super::outcome::{Outcome, assert_followed_up_once};
use super::processes::{Process, stop_all};
use super::time;

const MEMBERS_MAX: usize = 4;
/// Of so many who go, one is killed, and the last. Not more: the group waits for the dead until their session ends.
const KILL_ONE_IN: usize = 8;

/// Members hear of a change at their next heartbeat.
const QUICK: (&str, &str) = ("KAFKA_PROPERTIES", "heartbeat.interval.ms=300");

const REST: Duration = Duration::from_millis(100);
const LONGER_THAN_A_SESSION: Duration = Duration::from_secs(8);

#[derive(Default)]
struct Changes {
    joined: usize,
    left: usize,
    killed: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_effect_happens_once_and_in_order_while_members_join_and_leave() {
    let different = [("WORK_MS", "30"), QUICK];
    let outcome = rebalance("one by one", &different).await;
    outcome.assert_applied_once_in_order();
}

/// Work in hand takes longer than a revocation waits for it, so it is abandoned and done by another member.
#[tokio::test(flavor = "multi_thread")]
async fn batches_are_applied_once_and_in_order_though_revocations_cut_them_short() {
    let different = [
        ("BATCH", "20"),
        ("WORK_MS", "30"),
        ("REVOKE_MS", "20"),
        QUICK,
    ];
    let outcome = rebalance("batches of 20, cut short", &different).await;
    outcome.assert_applied_once_in_order();
}

/// A frozen member does not hear that its partitions are another's now, and goes on with what it had.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_were_frozen_past_their_session_double_and_invert_nothing() {
    let arena = Arena::on_kafka(6).await;
    let relay = arena.relay();
    let mut members = [QUICK; 2].map(|quick| arena.consumer(&[quick, ("WORK_MS", "30")]));
    arena.write(Duration::from_secs(2), REST).await;
    let freezing = async {
        for member in &mut members {
            member.freeze(LONGER_THAN_A_SESSION).await;
        }
    };
    tokio::join!(arena.write(2 * LONGER_THAN_A_SESSION, REST), freezing);
    arena.write_last().await;
    arena.until_quiet().await;
    stop_all(members.into_iter().chain([relay]).collect()).await;

    let outcome = Outcome::of(&arena).await;
    outcome.report("frozen members");
    outcome.assert_applied_once_in_order();
    outcome.assert_redelivered();
    assert_followed_up_once(&arena, "frozen members").await;
}

async fn rebalance(what: &str, different: &[(&'static str, &str)]) -> Outcome {
    let arena = Arena::on_kafka(6).await;
    let relay = arena.relay();
    let mut members = vec![arena.consumer(different)];
    let writing = arena.write(time(15), REST);
    let changing = join_and_leave(&arena, different, &mut members);
    let ((), changes) = tokio::join!(writing, changing);
    arena.write_last().await;
    arena.until_quiet().await;
    members.push(relay);
    stop_all(members).await;

    let outcome = Outcome::of(&arena).await;
    let Changes {
        joined,
        left,
        killed,
    } = changes;
    let what = format!("rebalances, {what}, {joined} joined, {left} left, {killed} killed");
    outcome.report(&what);
    assert_followed_up_once(&arena, &what).await;
    assert!(
        outcome.orders > 100 && left > 2 && killed > 0 && outcome.processes > 3,
        "the test tests nothing"
    );
    outcome
}

async fn join_and_leave(
    arena: &Arena,
    different: &[(&'static str, &str)],
    members: &mut Vec<Process>,
) -> Changes {
    let until = Instant::now() + time(15);
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut leaving = JoinSet::new();
    let mut changes = Changes::default();
    while Instant::now() < until {
        second.tick().await;
        if members.len() < 2 || members.len() < MEMBERS_MAX && fastrand::bool() {
            members.push(arena.consumer(different));
            changes.joined += 1;
            continue;
        }
        // Never the newest, which may not have started yet.
        let member = members.remove(fastrand::usize(..members.len() - 1));
        if (changes.left + changes.killed) % KILL_ONE_IN == KILL_ONE_IN - 1 {
            member.kill().await;
            changes.killed += 1;
        } else {
            leaving.spawn(member.stop());
            changes.left += 1;
        }
    }
    leaving.join_all().await;
    members.remove(0).kill().await;
    changes.killed += 1;
    members.push(arena.consumer(different));
    changes.joined += 1;
    changes
}
