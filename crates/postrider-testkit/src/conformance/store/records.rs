//! What holds for records whatever their order.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::future::join_all;
use postrider_core::text::ERROR_BYTES_MAX;
use postrider_core::{Fate, RecordId};

use super::{
    Settings, State, StoreWorld, claim, claim_now, claim_soon, dead, ids, insert_all, retry,
    settle, want,
};

const LATER: Duration = Duration::from_secs(300);

pub async fn records_come_oldest_first_and_no_more_than_asked_for(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b", "c", "d", "e"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 3).await;
    assert_eq!(ids(&*claim), inserted[..3]);
    assert!(
        claim
            .records()
            .iter()
            .all(|record| record.attempts == 0 && record.defect.is_none())
    );
}

pub async fn a_claimed_record_is_invisible_to_a_second_relay(world: &dyn StoreWorld) {
    insert_all(world, &["a", "b"]).await;
    let held = claim_now(&*world.relay(Settings::default()), 10).await;
    assert!(
        claim(&*world.relay(Settings::default()), 10)
            .await
            .is_none()
    );
    settle(held, |_| Fate::Released).await;
}

pub async fn a_published_record_is_never_claimed_again(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "b"]).await;
    let store = world.relay(Settings::default());
    let settled = settle(claim_now(&*store, 10).await, |_| Fate::Published).await;
    assert_eq!(settled.lapsed, 0);
    assert!(claim(&*store, 10).await.is_none());
    let expected = if world.keeps_published() {
        State::Published
    } else {
        State::Gone
    };
    for id in &inserted {
        assert_eq!(world.look(id).await.state, expected);
    }
}

pub async fn a_released_record_is_as_if_it_had_never_been_claimed(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "b"]).await;
    let store = world.relay(Settings::default());
    settle(claim_now(&*store, 10).await, |_| Fate::Released).await;
    let seen = world.look(&inserted[0]).await;
    assert_eq!(
        (seen.state, seen.attempts, seen.error),
        (State::Pending, 0, None)
    );
    let again = claim_soon(&*store, 10).await;
    assert_eq!(ids(&*again), inserted);
    assert_eq!(again.records()[0].attempts, 0);
}

/// A store that never goes on is as right as one that does.
pub async fn what_a_claim_went_on_from_is_published_whatever_becomes_of_the_rest(
    world: &dyn StoreWorld,
) {
    let inserted = insert_all(world, &["a", "b", "c", "a", "b", "c", "a", "b", "c"]).await;
    let store = world.relay(Settings::default());
    let mut held = claim_now(&*store, 3).await;
    let mut published = Vec::new();
    for _ in 0..2 {
        let before = ids(&*held);
        if held.go_on().await.unwrap() {
            published.extend(before);
        }
    }
    settle(held, |_| Fate::Released).await;
    while published.len() < inserted.len() {
        let next = claim_soon(&*store, 3).await;
        published.extend(ids(&*next));
        settle(next, |_| Fate::Published).await;
    }
    assert_eq!(published, inserted);
    assert!(claim(&*store, 3).await.is_none());
}

pub async fn a_failed_record_waits_for_its_time(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings::default());
    let wait = Duration::from_millis(300);
    let first = claim_now(&*store, 10).await;
    let failed_at = Instant::now();
    settle(first, |record| retry(record, wait)).await;
    let seen = world.look(&inserted[0]).await;
    assert_eq!((seen.state, seen.attempts), (State::Pending, 1));
    let again = claim_soon(&*store, 10).await;
    assert!(
        failed_at.elapsed() >= wait,
        "claimed after {:?}",
        failed_at.elapsed()
    );
    assert_eq!(again.records()[0].attempts, 1);
}

/// As for a part of the broker that takes no writes.
pub async fn a_record_that_waits_without_an_attempt_is_left_out_until_its_time(
    world: &dyn StoreWorld,
) {
    let inserted = insert_all(world, &["a", "b"]).await;
    let store = world.relay(Settings::default());
    let waits = |after| Fate::Retry {
        attempts: 0,
        after,
        error: "topic orders takes no writes".into(),
    };
    let wait = Duration::from_millis(300);
    let first = claim_now(&*store, 10).await;
    let failed_at = Instant::now();
    first.settle(&[waits(wait), Fate::Released]).await.unwrap();
    let second = claim_now(&*store, 1).await;
    assert_eq!(
        ids(&*second),
        inserted[1..],
        "the first stands in nobody's way"
    );
    settle(second, |_| Fate::Published).await;
    let again = claim_soon(&*store, 10).await;
    assert!(failed_at.elapsed() >= wait);
    assert_eq!(
        (ids(&*again), again.records()[0].attempts),
        (inserted[..1].to_vec(), 0)
    );
}

pub async fn attempts_add_up_over_claims(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings {
        max_attempts: 10,
        ..Settings::default()
    });
    for tried in 0..4 {
        let claim = claim_soon(&*store, 10).await;
        assert_eq!(claim.records()[0].attempts, tried);
        settle(claim, |record| retry(record, Duration::ZERO)).await;
    }
    assert_eq!(world.look(&inserted[0]).await.attempts, 4);
}

pub async fn every_fate_of_a_claim_is_written(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b", "c", "d"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 10).await;
    let [_, b, c, _] = claim.records() else {
        panic!("four were inserted")
    };
    let fates = [Fate::Published, retry(b, LATER), dead(c), Fate::Released];
    assert_eq!(claim.settle(&fates).await.unwrap().lapsed, 0);
    let mut states = Vec::new();
    for id in &inserted {
        states.push(world.look(id).await);
    }
    let published = if world.keeps_published() {
        State::Published
    } else {
        State::Gone
    };
    assert_eq!(states[0].state, published);
    assert_eq!((states[1].state, states[1].attempts), (State::Pending, 1));
    assert_eq!(states[2].state, State::Dead);
    assert_eq!(states[2].error.as_deref(), Some("can never work"));
    assert_eq!((states[3].state, states[3].attempts), (State::Pending, 0));
    let left = claim_soon(&*store, 10).await;
    assert_eq!(ids(&*left), inserted[3..], "one waits, one is dead");
}

pub async fn fates_must_match_the_records(world: &dyn StoreWorld) {
    insert_all(world, &["a", "b"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 10).await;
    assert!(claim.settle(&[Fate::Published]).await.is_err());
}

pub async fn the_longest_error_is_stored(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings::default());
    let long = postrider_core::text::bounded(&"é'\"\\\u{1}€\0".repeat(1000), ERROR_BYTES_MAX);
    let fate = Fate::Dead {
        attempts: 1,
        error: long.clone(),
    };
    settle(claim_now(&*store, 10).await, |_| fate.clone()).await;
    assert_eq!(world.look(&inserted[0]).await.error, Some(long));
}

pub async fn an_empty_outbox_gives_no_claim(world: &dyn StoreWorld) {
    let store = world.relay(Settings::default());
    assert!(claim(&*store, 10).await.is_none());
    let backlog = store.backlog().await.unwrap();
    assert_eq!(backlog, postrider_core::Backlog::default());
    assert_eq!(store.purge(Duration::ZERO, 10).await.unwrap(), 0);
    store.ping().await.unwrap();
}

pub async fn the_backlog_is_what_the_table_holds(world: &dyn StoreWorld) {
    let before = Instant::now();
    insert_all(world, &["a", "b", "c", "d", "e"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 4).await;
    let in_flight = store.backlog().await.unwrap();
    assert_eq!(
        (in_flight.pending, in_flight.dead),
        (5, 0),
        "in flight is still to be published"
    );
    let fates: Vec<Fate> = claim.records().iter().map(dead).collect();
    let fates = [
        Fate::Published,
        retry(&claim.records()[1], LATER),
        fates[2].clone(),
        Fate::Released,
    ];
    claim.settle(&fates).await.unwrap();
    let backlog = store.backlog().await.unwrap();
    assert_eq!((backlog.pending, backlog.dead), (3, 1));
    assert!(backlog.oldest_age.unwrap() <= before.elapsed() + Duration::from_millis(50));
}

pub async fn purging_is_bounded_and_spares_what_is_not_published(world: &dyn StoreWorld) {
    if !world.keeps_published() || !world.purges_single_records() {
        return;
    }
    let inserted = insert_all(world, &["a", "b", "c", "d", "e", "f"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 5).await;
    let records = claim.records();
    let mut fates = vec![Fate::Published; 3];
    fates.extend([retry(&records[3], LATER), dead(&records[4])]);
    claim.settle(&fates).await.unwrap();
    for id in &inserted {
        world.age(id, Duration::from_secs(3600)).await;
    }
    let keep = Duration::from_secs(7200);
    assert_eq!(store.purge(keep, 10).await.unwrap(), 0, "too young");
    let keep = Duration::from_secs(1800);
    assert_eq!(
        store.purge(keep, 2).await.unwrap(),
        2,
        "no more than asked for"
    );
    assert_eq!(store.purge(keep, 10).await.unwrap(), 1);
    assert_eq!(store.purge(keep, 10).await.unwrap(), 0);
    let backlog = store.backlog().await.unwrap();
    assert_eq!((backlog.pending, backlog.dead), (2, 1));
}

pub async fn claims_of_many_workers_never_share_a_record(world: &dyn StoreWorld) {
    let keys: Vec<String> = (0..120).map(|n| format!("k{}", n % 40)).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let inserted: HashSet<RecordId> = insert_all(world, &keys).await.into_iter().collect();
    let held: Mutex<HashSet<RecordId>> = Mutex::default();
    let published: Mutex<HashSet<RecordId>> = Mutex::default();
    let worker = async || {
        let store = world.relay(Settings::default());
        while published.lock().unwrap().len() < inserted.len() {
            let Some(claim) = store.claim(want(7)).await.unwrap() else {
                tokio::task::yield_now().await;
                continue;
            };
            let ids = ids(&*claim);
            for id in &ids {
                assert!(
                    held.lock().unwrap().insert(id.clone()),
                    "{id} is in two claims"
                );
            }
            tokio::task::yield_now().await;
            let fresh = |id: &RecordId| published.lock().unwrap().insert(id.clone());
            assert!(ids.iter().all(fresh), "published twice");
            for id in &ids {
                held.lock().unwrap().remove(id);
            }
            settle(claim, |_| Fate::Published).await;
        }
    };
    join_all((0..4).map(|_| worker())).await;
    assert_eq!(*published.lock().unwrap(), inserted);
    let store = world.relay(Settings::default());
    assert!(claim(&*store, 10).await.is_none());
}
