//! What holds where order does not matter: nobody waits for anybody.

use std::time::Duration;

use postrider_core::Fate;

use super::{Settings, StoreWorld, claim_now, dead, ids, insert_all, retry, settle};

pub async fn two_relays_hold_records_of_one_key_at_once(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "a"]).await;
    let first = claim_now(&*world.relay(Settings::default()), 1).await;
    let second = claim_now(&*world.relay(Settings::default()), 10).await;
    assert_eq!(ids(&*first), inserted[..1]);
    assert_eq!(ids(&*second), inserted[1..]);
}

pub async fn a_waiting_record_holds_nobody_back(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a"]).await;
    let store = world.relay(Settings::default());
    settle(claim_now(&*store, 1).await, |record| {
        retry(record, Duration::from_secs(300))
    })
    .await;
    let rest = claim_now(&*store, 10).await;
    assert_eq!(ids(&*rest), inserted[1..]);
    settle(rest, |_| Fate::Published).await;
}

pub async fn a_dead_record_parks_nothing(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a"]).await;
    let store = world.relay(Settings::default());
    settle(claim_now(&*store, 1).await, dead).await;
    assert_eq!(ids(&*claim_now(&*store, 10).await), inserted[1..]);
}
