//! Dead records and what operators do with them.

use std::time::Duration;

use postrider_core::{Fate, RecordFilter};

use super::{
    Settings, State, StoreWorld, claim, claim_now, claim_soon, dead, find, ids, insert_all,
    operator, retry, settle, settle_all,
};

pub async fn a_dead_record_is_never_claimed_again(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    settle_all(&*world.relay(Settings::default()), dead).await;
    assert!(
        claim(&*world.relay(Settings::default()), 10)
            .await
            .is_none()
    );
    let seen = world.look(&inserted[0]).await;
    assert_eq!(seen.state, State::Dead);
    assert_eq!(seen.error.as_deref(), Some("can never work"));
}

pub async fn dead_records_are_listed_oldest_first_and_by_filter(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b", "c"]).await;
    let store = world.relay(Settings::default());
    assert!(find(&*store, &RecordFilter::dead()).await.is_empty());
    settle_all(&*store, dead).await;
    let listed = find(&*store, &RecordFilter::dead()).await;
    let listed_ids: Vec<_> = listed.iter().map(|dead| dead.id.clone()).collect();
    assert_eq!(listed_ids, inserted);
    assert_eq!(listed[0].error.as_deref(), Some("can never work"));
    assert!(listed[0].attempts >= 1);
}

pub async fn a_resent_record_is_published_and_keeps_its_history(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings::default());
    settle_all(&*store, dead).await;
    assert_eq!(store.resend(&inserted, &operator()).await.unwrap(), 1);
    assert_eq!(
        store.resend(&inserted, &operator()).await.unwrap(),
        0,
        "it is not dead any more"
    );
    let seen = world.look(&inserted[0]).await;
    assert_eq!((seen.state, seen.attempts), (State::Pending, 0));
    let error = seen.error.expect("the error stays");
    assert!(
        error.starts_with("resent ") && error.ends_with("can never work"),
        "{error}"
    );
    let again = claim_now(&*store, 10).await;
    assert_eq!(again.records()[0].attempts, 0);
    settle(again, |_| Fate::Published).await;
    assert_eq!(store.backlog().await.unwrap().dead, 0);
    assert!(claim(&*store, 10).await.is_none());
}

pub async fn a_discarded_record_is_gone(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b"]).await;
    let store = world.relay(Settings::default());
    settle_all(&*store, dead).await;
    assert_eq!(store.discard(&inserted[..1], &operator()).await.unwrap(), 1);
    assert_eq!(world.look(&inserted[0]).await.state, State::Gone);
    assert_eq!(world.look(&inserted[1]).await.state, State::Dead);
    assert_eq!(store.backlog().await.unwrap().dead, 1);
}

pub async fn only_dead_records_are_resent_or_discarded(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b", "c"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 2).await;
    let fates = [Fate::Published, retry(&claim.records()[1], Duration::ZERO)];
    claim.settle(&fates).await.unwrap();
    assert_eq!(store.resend(&inserted, &operator()).await.unwrap(), 0);
    assert_eq!(store.discard(&inserted, &operator()).await.unwrap(), 0);
    let left = claim_soon(&*store, 10).await;
    assert_eq!(ids(&*left), inserted[1..]);
    assert_eq!(left.records()[0].attempts, 1);
}

pub async fn a_record_dies_once_its_attempts_are_used_up(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let store = world.relay(Settings {
        max_attempts: 2,
        ..Settings::default()
    });
    settle_all(&*store, |record| retry(record, Duration::ZERO)).await;
    settle_all(&*store, dead).await;
    let seen = world.look(&inserted[0]).await;
    assert_eq!((seen.state, seen.attempts), (State::Dead, 2));
    assert!(claim(&*store, 10).await.is_none());
}
