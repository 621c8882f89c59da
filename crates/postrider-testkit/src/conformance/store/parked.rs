//! Keys that an operator is shown as held up.

use std::time::Duration;

use postrider_core::{Fate, ManagedStore, OnDead, RecordId, RecordState};

use super::{
    Settings, StoreWorld, claim_now, claim_soon, dead, ids, insert_all, operator, retry, settle,
    settle_all,
};

const LATER: Duration = Duration::from_secs(300);

/// Claims all and decides by the place of each record; the rest is given back.
async fn settle_each(
    store: &dyn ManagedStore,
    inserted: &[RecordId],
    fates: &[Option<RecordState>],
) {
    settle(claim_now(store, 100).await, |record| {
        let place = inserted.iter().position(|id| *id == record.id);
        match place.and_then(|place| fates.get(place).copied()).flatten() {
            Some(RecordState::Dead) => dead(record),
            Some(RecordState::Waiting) => retry(record, LATER),
            _ => Fate::Released,
        }
    })
    .await;
}

/// The record that holds a key, its state, and how many wait behind it.
async fn parked(store: &dyn ManagedStore, limit: u32) -> Vec<(RecordId, RecordState, u64)> {
    let parked = store.parked(limit).await.unwrap();
    parked
        .into_iter()
        .map(|key| {
            assert_eq!(Some(&key.key), key.first.key.as_ref());
            (key.first.id, key.first.state, key.behind)
        })
        .collect()
}

pub async fn keys_that_are_held_up_are_named_with_what_waits_behind(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b", "a", "c", "a", "b", "d"]).await;
    let store = world.relay(Settings::default());
    assert_eq!(parked(&*store, 10).await, []);
    let fates = [Some(RecordState::Dead), Some(RecordState::Waiting)];
    settle_each(&*store, &inserted, &fates).await;
    let expected = [
        (inserted[0].clone(), RecordState::Dead, 2),
        (inserted[1].clone(), RecordState::Waiting, 1),
    ];
    assert_eq!(parked(&*store, 10).await, expected);
    assert_eq!(parked(&*store, 1).await, expected[..1], "the longest held");
    // What is not behind it does not wait for it.
    settle_all(&*store, |_| Fate::Published).await;
    assert_eq!(parked(&*store, 10).await, expected);
    store.resend(&inserted[..1], &operator()).await.unwrap();
    assert_eq!(parked(&*store, 10).await, expected[1..]);
}

pub async fn a_key_with_several_dead_records_is_named_once_by_the_first(world: &dyn StoreWorld) {
    let skips = Settings {
        on_dead: OnDead::Skip,
        ..Settings::default()
    };
    let store = world.relay(skips);
    let inserted = insert_all(world, &["a", "a", "a"]).await;
    let fates = [Some(RecordState::Dead), Some(RecordState::Dead)];
    settle_each(&*store, &inserted, &fates).await;
    assert_eq!(
        parked(&*store, 10).await,
        [],
        "dead records park nothing here"
    );
    let store = world.relay(Settings::default());
    let first = (inserted[0].clone(), RecordState::Dead, 1);
    assert_eq!(parked(&*store, 10).await, [first]);
    store.discard(&inserted[..1], &operator()).await.unwrap();
    let second = (inserted[1].clone(), RecordState::Dead, 1);
    assert_eq!(parked(&*store, 10).await, [second]);
    store.discard(&inserted[1..2], &operator()).await.unwrap();
    assert_eq!(parked(&*store, 10).await, []);
}

pub async fn a_resent_run_keeps_the_order_of_its_keys(world: &dyn StoreWorld) {
    let skips = Settings {
        on_dead: OnDead::Skip,
        ..Settings::default()
    };
    let inserted = insert_all(world, &["a", "b", "a", "b", "a"]).await;
    settle_all(&*world.relay(skips), dead).await;
    let store = world.relay(Settings::default());
    // A part of the run that comes late stays behind what is still dead before it.
    assert_eq!(store.resend(&inserted[2..3], &operator()).await.unwrap(), 1);
    assert!(store.claim(super::want(10)).await.unwrap().is_none());
    let backwards: Vec<RecordId> = inserted.iter().rev().cloned().collect();
    assert_eq!(store.resend(&backwards, &operator()).await.unwrap(), 4);
    assert_eq!(ids(&*claim_soon(&*store, 10).await), inserted);
}

/// Of the suite `unordered`.
pub async fn without_order_no_key_is_held_up(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "b"]).await;
    let store = world.relay(Settings::default());
    let fates = [Some(RecordState::Dead), None, Some(RecordState::Waiting)];
    settle_each(&*store, &inserted, &fates).await;
    assert_eq!(parked(&*store, 10).await, []);
}
