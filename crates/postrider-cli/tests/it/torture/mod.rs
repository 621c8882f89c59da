//! Torture: many writers with key locks, slow commits, rollbacks, long transactions and clocks that
//! are wrong; three real relay processes killed with SIGKILL again and again. Then the log is
//! compared with what was committed.
//!
//! `POSTRIDER_TORTURE_SECS` makes the runs longer (default 8 seconds each).

mod files;
mod long;
mod relays;
mod times;
mod writers;

use std::time::Duration;

use files::FileArena;
use postrider_testkit::history::Verdict;
pub(crate) use relays::Relays;
use times::Times;
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

/// A3-07, A1-11, A3-06: hold mode, order per key, services that bring times of their own, relays
/// killed.
#[tokio::test(flavor = "multi_thread")]
async fn hold_mode_loses_invents_and_inverts_nothing_under_torture() {
    let arena = Arena::new("polyshop", "key").await;
    torture(arena.with(Times::OfKeys)).await;
}

/// A2-06, A2-07, A2-14: lease mode with order per key, services that bring times of their own,
/// relays killed.
#[tokio::test(flavor = "multi_thread")]
async fn lease_mode_loses_invents_and_inverts_nothing_under_torture() {
    let arena = Arena::new("talkie", "key").await;
    torture(arena.with(Times::OfKeys)).await;
}

/// Stream mode: no row is ever updated, relays killed.
#[tokio::test(flavor = "multi_thread")]
async fn stream_mode_loses_invents_and_inverts_nothing_under_torture() {
    torture(Arena::new("native", "key").await).await;
}

/// All writers leave the time to the database, and the relays are told so: their claims begin above
/// what is settled. Transactions of every kind write and end long after what came later has been
/// published.
#[tokio::test(flavor = "multi_thread")]
async fn claims_that_begin_above_what_is_settled_pass_over_nothing_under_torture() {
    let worlds = ["polyshop", "talkie"].map(async |layout| {
        let arena = Arena::new(layout, "key").await.drawn();
        let relays = Relays::start(&arena.target(), RELAYS).await;
        // A relay has to live for some seconds before its claims begin above anything, and what a
        // killed one leased keeps the others from it for longer than that.
        let written = arena.write_beside_long(secs() / 2).await;
        let write = async || arena.write_beside_long(secs() / 2).await;
        judge(&arena, relays, write, secs() / 2, 200 - written.min(200)).await;
    });
    futures::future::join_all(worlds).await;
}

async fn torture(arena: Arena) {
    let relays = Relays::start(&arena.target(), RELAYS).await;
    let write = async || arena.write(secs()).await;
    judge(&arena, relays, write, secs(), 500).await;
}

/// Writes more than `enough` events and kills relays meanwhile, for `time` again and again.
async fn judge(
    arena: &Arena,
    mut relays: Relays,
    write: impl AsyncFn() -> usize,
    time: Duration,
    enough: usize,
) {
    let (written, kills) = write_and_kill(write, &mut relays, time, enough).await;
    arena.wait_until_empty().await;
    relays.stop().await;
    let verdict = arena.verdict().await;
    let what = match arena.is_drawn {
        true => format!("{}, times drawn", arena.layout),
        false => arena.layout.clone(),
    };
    report(&what, &verdict, kills);
    if let Some(inverted) = verdict.inverted.first() {
        eprintln!("{}", arena.story(inverted).await);
    }
    verdict.assert_clean();
    assert!(
        written > enough,
        "only {written} events were written: the test tests nothing"
    );
    assert!(kills > 2, "only {kills} kills");
}

/// Until more than `enough` events were written. How many, and how many kills.
async fn write_and_kill(
    write: impl AsyncFn() -> usize,
    relays: &mut Relays,
    time: Duration,
    enough: usize,
) -> (usize, usize) {
    let (mut written, mut kills) = (0, 0);
    for _ in 0..ROUNDS_MAX {
        let (more, killed) = tokio::join!(write(), relays.kill_again_and_again(time));
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
    let (written, kills) = write_and_kill(write, &mut relays, secs(), 200).await;
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
        if write_without_order(&arena).await > 0 {
            return relays.stop().await;
        }
    }
    panic!("no inversion was seen in ten rounds");
}

/// Relays that live, so that their claims begin above what is settled. Writers bring times, which
/// are older than that in the end: those are found later, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn without_order_nothing_is_lost_whatever_times_writers_bring() {
    let worlds = ["polyshop", "talkie"].map(async |layout| {
        let arena = Arena::new(layout, "none").await.with(Times::Near);
        let relays = Relays::start(&arena.target(), RELAYS).await;
        write_without_order(&arena).await;
        write_without_order(&arena.with(Times::Any)).await;
        relays.stop().await;
    });
    futures::future::join_all(worlds).await;
}

/// How many events were inverted so far.
async fn write_without_order(arena: &Arena) -> usize {
    arena.write(Duration::from_secs(3)).await;
    arena.wait_until_empty().await;
    let verdict = arena.verdict().await;
    report(&format!("{}, no lanes", arena.layout), &verdict, 0);
    assert!(
        verdict.lost.is_empty() && verdict.invented.is_empty(),
        "{verdict:?}"
    );
    verdict.inverted.len()
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
