//! Claims that end with their holder.

use std::time::Duration;

use postrider_core::Fate;

use super::{Settings, StoreWorld, claim_now, claim_soon, ids, insert_all, settle, want};

pub async fn a_dropped_claim_is_free_at_once(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b"]).await;
    let store = world.relay(Settings::default());
    drop(claim_now(&*store, 10).await);
    let again = claim_soon(&*world.relay(Settings::default()), 10).await;
    assert_eq!(ids(&*again), inserted);
    settle(again, |_| Fate::Published).await;
}

pub async fn a_claim_that_is_cut_short_leaves_nothing_behind(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b"]).await;
    let store = world.relay(Settings::default());
    // Cut at many points, from before the first word to after the last.
    for micros in (0..40).map(|n| n * 150) {
        let cut = tokio::time::timeout(Duration::from_micros(micros), store.claim(want(10))).await;
        drop(cut);
    }
    let again = claim_soon(&*world.relay(Settings::default()), 10).await;
    assert_eq!(ids(&*again), inserted);
    settle(again, |_| Fate::Published).await;
}
