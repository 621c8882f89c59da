//! Claims that end with their lease.

use std::time::{Duration, Instant};

use postrider_core::{Claim, Fate};

use super::{
    Settings, State, StoreWorld, claim, claim_now, claim_soon, dead, ids, insert_all, retry, settle,
};
use crate::eventually;

/// Short, so that tests see its end.
const LEASE: Duration = Duration::from_millis(300);

fn short() -> Settings {
    Settings {
        lease: LEASE,
        ..Settings::default()
    }
}

pub async fn a_dropped_claim_is_free_when_its_lease_ends(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b"]).await;
    let store = world.relay(short());
    let claimed_at = Instant::now();
    drop(claim_now(&*store, 10).await);
    let again = claim_soon(&*world.relay(short()), 10).await;
    assert!(
        claimed_at.elapsed() >= LEASE,
        "free after {:?}",
        claimed_at.elapsed()
    );
    assert_eq!(ids(&*again), inserted);
    assert_eq!(
        again.records()[0].attempts,
        0,
        "a lapsed claim is no attempt"
    );
    settle(again, |_| Fate::Published).await;
}

pub async fn a_lapsed_claim_overwrites_nobody(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "b", "c"]).await;
    let slow = claim_now(&*world.relay(short()), 3).await;
    let also_slow = take_over(world).await;
    let settled = settle(slow, |_| Fate::Published).await;
    assert_eq!(settled.lapsed, 3, "another claim holds them by now");
    let last = take_over(world).await;
    let fates: Vec<Fate> = last.records().iter().map(dead).collect();
    let fates = [Fate::Published, fates[1].clone(), Fate::Released];
    assert_eq!(last.settle(&fates).await.unwrap().lapsed, 0);
    let settled = settle(also_slow, |record| retry(record, LEASE)).await;
    assert_eq!(settled.lapsed, 3, "another claim has settled them by now");
    assert_eq!(world.look(&inserted[0]).await.state, State::Published);
    assert_eq!(world.look(&inserted[1]).await.state, State::Dead);
    let released = world.look(&inserted[2]).await;
    assert_eq!((released.state, released.attempts), (State::Pending, 0));
}

/// Claims what a lapsed claim leaves.
async fn take_over(world: &dyn StoreWorld) -> Box<dyn Claim> {
    let store = world.relay(short());
    eventually("the lease ends", async || {
        claim(&*store, 3).await.ok_or("held")
    })
    .await
}

pub async fn a_lapsed_claim_that_nobody_took_over_is_still_settled(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a"]).await;
    let late = claim_now(&*world.relay(short()), 10).await;
    let ends = late.lapses_at().expect("a lease ends");
    eventually("the lease ends", async || {
        if Instant::now() > ends + LEASE {
            Ok(())
        } else {
            Err("held")
        }
    })
    .await;
    assert_eq!(settle(late, |_| Fate::Published).await.lapsed, 0);
    assert_eq!(world.look(&inserted[0]).await.state, State::Published);
    assert!(claim(&*world.relay(short()), 10).await.is_none());
}

pub async fn a_claim_lapses_before_its_lease_ends(world: &dyn StoreWorld) {
    insert_all(world, &["a"]).await;
    let lease = Duration::from_secs(60);
    let before = Instant::now();
    let claim = claim_now(
        &*world.relay(Settings {
            lease,
            ..Settings::default()
        }),
        10,
    )
    .await;
    let lapses_at = claim.lapses_at().expect("a lease ends");
    assert!(lapses_at < before + lease && lapses_at > before + lease / 2);
}
