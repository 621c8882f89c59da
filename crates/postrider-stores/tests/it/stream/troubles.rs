//! Records that fail are set aside, and the stream goes on.

use std::time::Duration;

use postrider_core::{Fate, OutboxStore as _, Record};
use postrider_stores::postgres::PostgresStore;

use super::{ALL, drain, numbers, seen};
use crate::world::{World, world};

fn retry(record: &Record, after: Duration) -> Fate {
    Fate::Retry {
        attempts: record.attempts + 1,
        after,
        error: "no".into(),
    }
}

async fn settle_by(store: &PostgresStore, fate: impl Fn(&Record) -> Fate) {
    let claim = store.claim(ALL).await.unwrap().unwrap();
    let fates: Vec<Fate> = claim.records().iter().map(fate).collect();
    claim.settle(&fates).await.unwrap();
}

async fn emit_all(world: &World, keys: &[&str]) {
    for (number, key) in (0..).zip(keys) {
        world.emit(world.event(Some(key), number)).await;
    }
}

#[tokio::test]
async fn later_records_of_a_failed_key_are_set_aside_and_come_in_order() {
    let world = world("native", "").await;
    let store = world.store();
    emit_all(&world, &["a", "b"]).await;
    settle_by(&store, |record| match seen(record).1 {
        0 => retry(record, Duration::from_secs(3600)),
        _ => Fate::Published,
    })
    .await;
    for number in 2..6 {
        world.emit(world.event(Some("a"), number)).await;
    }
    world.emit(world.event(Some("c"), 6)).await;
    assert_eq!(numbers(&drain(&store).await), [6], "c flows");
    assert_eq!(world.database.count("postrider_outbox_troubles").await, 5);
    let backlog = store.backlog().await.unwrap();
    assert_eq!((backlog.pending, backlog.dead), (5, 0));
    world
        .database
        .execute("UPDATE postrider_outbox_troubles SET next_attempt_at = now()")
        .await;
    assert_eq!(numbers(&drain(&store).await), [0, 2, 3, 4, 5]);
    assert_eq!(world.database.count("postrider_outbox_troubles").await, 0);
    world.emit(world.event(Some("a"), 7)).await;
    assert_eq!(numbers(&drain(&store).await), [7], "the key flows again");
}

/// What was let go between records that were published is not published twice, and not lost.
#[tokio::test]
async fn records_that_are_let_go_among_others_come_again_alone() {
    let world = world("native", "").await;
    let store = world.store();
    emit_all(&world, &["a", "b", "c", "d", "e"]).await;
    settle_by(&store, |record| match seen(record).1 {
        0 | 2 => Fate::Published,
        _ => Fate::Released,
    })
    .await;
    let again = drain(&store).await;
    assert_eq!(numbers(&again), [1, 3, 4]);
    assert!(drain(&store).await.is_empty());
}

#[tokio::test]
async fn an_outage_sets_nothing_aside() {
    let world = world("native", "").await;
    let store = world.store();
    emit_all(&world, &["a", "b", "c"]).await;
    for _ in 0..3 {
        settle_by(&store, |_| Fate::Released).await;
    }
    assert_eq!(world.database.count("postrider_outbox_troubles").await, 0);
    assert_eq!(numbers(&drain(&store).await), [0, 1, 2]);
}

/// A long backlog of a parked key does not stand in the way of those behind it.
#[tokio::test]
async fn a_claim_passes_over_a_backlog_of_parked_records() {
    let world = world("native", "state = { groups = 1 }").await;
    let store = world.store();
    emit_all(&world, &["a"]).await;
    settle_by(&store, |record| Fate::Dead {
        attempts: record.attempts + 1,
        error: "never".into(),
    })
    .await;
    let behind: Vec<_> = (1..=350).map(|n| world.event(Some("a"), n)).collect();
    let mut tx = world.database.pool.begin().await.unwrap();
    world.outbox.emit_all(&mut tx, &behind).await.unwrap();
    tx.commit().await.unwrap();
    world.emit(world.event(Some("b"), 1000)).await;
    let claim = store.claim(ALL).await.unwrap().unwrap();
    assert_eq!(numbers(&[seen(&claim.records()[0])]), [1000]);
    assert_eq!(claim.records().len(), 1);
}

/// A record becomes due while the claim is looking through thousands that wait behind it: they stay behind it.
#[tokio::test]
async fn nothing_overtakes_a_record_that_becomes_due_during_a_claim() {
    let world = world("native", "state = { groups = 1 }").await;
    let store = world.store();
    emit_all(&world, &["a"]).await;
    settle_by(&store, |record| retry(record, Duration::from_secs(3600))).await;
    let copies = "INSERT INTO postrider_outbox_troubles (position, topic, key, payload, attempts, next_attempt_at) \
                  SELECT position + n, topic, key, payload, 0, now() \
                  FROM postrider_outbox_troubles, generate_series(1, 20000) AS n";
    world.database.execute(copies).await;
    for _ in 0..20 {
        let soon = "UPDATE postrider_outbox_troubles SET next_attempt_at = clock_timestamp() + interval '4 ms' \
                    WHERE attempts > 0";
        world.database.execute(soon).await;
        let Some(claim) = store.claim(ALL).await.unwrap() else {
            continue;
        };
        assert_eq!(claim.records()[0].attempts, 1, "it comes first, or nothing");
        let released = vec![Fate::Released; claim.records().len()];
        claim.settle(&released).await.unwrap();
    }
}
