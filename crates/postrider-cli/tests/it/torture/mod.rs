//! Torture: many writers with key locks, slow commits, rollbacks and long transactions; three real
//! relay processes killed with SIGKILL again and again. Then the log is compared with what was committed.
//!
//! `POSTRIDER_TORTURE_SECS` makes the runs longer (default 8 seconds each).

mod files;
mod relays;
mod writers;

use std::time::Duration;

use files::FileArena;
use postrider_testkit::history::Verdict;
pub(crate) use relays::Relays;
pub(crate) use writers::Arena;

const RELAYS: usize = 3;

/// On a machine that has little time for the writers, they write again before anything is concluded.
const ROUNDS_MAX: usize = 8;

fn secs() -> Duration {
    let secs = std::env::var("POSTRIDER_TORTURE_SECS")
        .ok()
        .and_then(|secs| secs.parse().ok());
    Duration::from_secs(secs.unwrap_or(8))
}

/// A3-07, A1-11, A3-06: hold mode, order per key, relays killed.
#[tokio::test(flavor = "multi_thread")]
async fn hold_mode_loses_invents_and_inverts_nothing_under_torture() {
    torture("polyshop").await;
}

/// A2-06, A2-07, A2-14: lease mode with order per key, relays killed.
#[tokio::test(flavor = "multi_thread")]
async fn lease_mode_loses_invents_and_inverts_nothing_under_torture() {
    torture("talkie").await;
}

/// Stream mode: no row is ever updated, relays killed.
#[tokio::test(flavor = "multi_thread")]
async fn stream_mode_loses_invents_and_inverts_nothing_under_torture() {
    torture("native").await;
}

async fn torture(layout: &str) {
    let arena = Arena::new(layout, "key").await;
    let mut relays = Relays::start(&arena.target(), RELAYS).await;
    let write = async || arena.write(secs()).await;
    let (written, kills) = write_and_kill(write, &mut relays, 500).await;
    arena.wait_until_empty().await;
    relays.stop().await;
    let verdict = arena.verdict().await;
    report(layout, &verdict, kills);
    if let Some(inverted) = verdict.inverted.first() {
        eprintln!("{}", arena.story(inverted).await);
    }
    verdict.assert_clean();
    assert!(
        written > 500,
        "only {written} events were written: the test tests nothing"
    );
    assert!(kills > 2, "only {kills} kills");
}

/// Until more than `enough` events were written. How many, and how many kills.
async fn write_and_kill(
    write: impl AsyncFn() -> usize,
    relays: &mut Relays,
    enough: usize,
) -> (usize, usize) {
    let (mut written, mut kills) = (0, 0);
    for _ in 0..ROUNDS_MAX {
        let (more, killed) = tokio::join!(write(), relays.kill_again_and_again(secs()));
        (written, kills) = (written + more, kills + killed);
        if written > enough {
            break;
        }
    }
    (written, kills)
}

/// The same with the outbox in a SQLite file, which all of them share.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_hold_mode_loses_invents_and_inverts_nothing_under_torture() {
    torture_of_a_file("polyshop").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_lease_mode_loses_invents_and_inverts_nothing_under_torture() {
    torture_of_a_file("talkie").await;
}

async fn torture_of_a_file(layout: &str) {
    let arena = FileArena::new(layout).await;
    let mut relays = Relays::start(&arena.target(), RELAYS).await;
    let write = async || arena.write(secs()).await;
    let (written, kills) = write_and_kill(write, &mut relays, 200).await;
    arena.wait_until_empty().await;
    relays.stop().await;
    let verdict = arena.verdict().await;
    report(&format!("{layout} in a file"), &verdict, kills);
    verdict.assert_clean();
    assert!(
        written > 200,
        "only {written} events were written: the test tests nothing"
    );
    assert!(kills > 2, "only {kills} kills");
}

/// The checker is known to work: with order per key turned off, the same work inverts keys.
#[tokio::test(flavor = "multi_thread")]
async fn without_lanes_three_relays_are_seen_to_invert() {
    let arena = Arena::new("polyshop", "none").await;
    let relays = Relays::start(&arena.target(), RELAYS).await;
    for _ in 0..10 {
        arena.write(Duration::from_secs(3)).await;
        arena.wait_until_empty().await;
        let verdict = arena.verdict().await;
        report("polyshop, no lanes", &verdict, 0);
        assert!(
            verdict.lost.is_empty() && verdict.invented.is_empty(),
            "{verdict:?}"
        );
        if !verdict.inverted.is_empty() {
            return relays.stop().await;
        }
    }
    panic!("no inversion was seen in ten rounds");
}

fn report(what: &str, verdict: &Verdict, kills: usize) {
    println!(
        "torture {what}: published {}, lost {}, invented {}, inverted {}, duplicates {}, kills {kills}",
        verdict.published,
        verdict.lost.len(),
        verdict.invented.len(),
        verdict.inverted.len(),
        verdict.duplicates,
    );
}
