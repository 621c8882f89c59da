//! What holds where records of a key keep their order.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Duration;

use futures::future::{join, join_all};
use postrider_core::fate::{Outcome, fates};
use postrider_core::{
    Backoff, Claim, Failure, Fate, OnDead, Ordering, Record, RecordId, RetryPolicy, Share, Want,
};

use super::{
    Settings, StoreWorld, claim, claim_now, claim_soon, dead, ids, insert_all, operator, retry,
    settle,
};

const LATER: Duration = Duration::from_secs(300);

pub async fn a_key_is_never_in_two_claims(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "a"]).await;
    let first = claim_now(&*world.relay(Settings::default()), 1).await;
    assert_eq!(ids(&*first), inserted[..1]);
    let other = world.relay(Settings::default());
    assert!(
        claim(&*other, 10).await.is_none(),
        "the key is held, though two of its records are not"
    );
    settle(first, |_| Fate::Published).await;
    assert_eq!(ids(&*claim_soon(&*other, 10).await), inserted[1..]);
}

pub async fn a_waiting_record_holds_back_its_own_key_only(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "b", "b"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 10).await;
    let fates = [
        retry(&claim.records()[0], LATER),
        Fate::Released,
        Fate::Published,
        Fate::Released,
    ];
    claim.settle(&fates).await.unwrap();
    assert_eq!(ids(&*claim_soon(&*store, 10).await), inserted[3..]);
}

/// As for a part of the broker that takes no writes.
pub async fn a_record_that_waits_without_an_attempt_holds_back_its_own_key_only(
    world: &dyn StoreWorld,
) {
    let inserted = insert_all(world, &["a", "a", "b"]).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 10).await;
    let waits = Fate::Retry {
        attempts: 0,
        after: LATER,
        error: "topic orders takes no writes".into(),
    };
    let fates = [waits, Fate::Released, Fate::Released];
    claim.settle(&fates).await.unwrap();
    assert_eq!(ids(&*claim_soon(&*store, 10).await), inserted[2..]);
}

pub async fn a_dead_record_parks_its_own_key_only(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "b", "b"]).await;
    kill_first(world, Settings::default()).await;
    let other = world.relay(Settings::default());
    assert_eq!(ids(&*claim_soon(&*other, 10).await), inserted[2..]);
}

pub async fn a_skipped_dead_record_lets_its_key_go_on(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "b", "b"]).await;
    let settings = Settings {
        on_dead: OnDead::Skip,
        ..Settings::default()
    };
    kill_first(world, settings).await;
    assert_eq!(
        ids(&*claim_soon(&*world.relay(settings), 10).await),
        inserted[1..]
    );
}

pub async fn resending_sets_a_parked_key_free_in_order(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a", "b"]).await;
    kill_first(world, Settings::default()).await;
    let store = world.relay(Settings::default());
    assert_eq!(store.resend(&inserted[..1], &operator()).await.unwrap(), 1);
    assert_eq!(ids(&*claim_soon(&*store, 10).await), inserted);
}

pub async fn discarding_sets_a_parked_key_free(world: &dyn StoreWorld) {
    let inserted = insert_all(world, &["a", "a"]).await;
    kill_first(world, Settings::default()).await;
    let store = world.relay(Settings::default());
    assert!(claim(&*store, 10).await.is_none());
    assert_eq!(store.discard(&inserted[..1], &operator()).await.unwrap(), 1);
    assert_eq!(ids(&*claim_soon(&*store, 10).await), inserted[1..]);
}

/// The first record dies, the others are given back.
async fn kill_first(world: &dyn StoreWorld, settings: Settings) {
    let claim = claim_now(&*world.relay(settings), 10).await;
    let first = claim.records()[0].id.clone();
    settle(claim, |record| {
        if record.id == first {
            dead(record)
        } else {
            Fate::Released
        }
    })
    .await;
}

pub async fn a_record_without_a_key_waits_for_nobody(world: &dyn StoreWorld) {
    let first = world.insert(None, 0).await;
    let second = world.insert(None, 1).await;
    let store = world.relay(Settings::default());
    let claim = claim_now(&*store, 10).await;
    if claim.records()[0].key.is_some() {
        return; // This outbox has no records without a key.
    }
    settle(claim, |record| {
        if record.id == first {
            dead(record)
        } else {
            retry(record, Duration::ZERO)
        }
    })
    .await;
    assert_eq!(ids(&*claim_soon(&*store, 10).await), [second]);
}

pub async fn shares_split_the_keys_and_leave_none_out(world: &dyn StoreWorld) {
    let keys: Vec<String> = (0..60).map(|n| format!("k{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let inserted: HashSet<RecordId> = insert_all(world, &keys).await.into_iter().collect();
    let mut found = HashSet::new();
    let mut held: Vec<Box<dyn Claim>> = Vec::new();
    for index in 0..3 {
        let share = Share { index, of: 3 };
        let store = world.relay(Settings::default());
        let claim = store
            .claim(Want {
                limit: 100,
                bytes: usize::MAX,
                share,
            })
            .await
            .unwrap()
            .expect("its part of the keys");
        found.extend(ids(&*claim));
        held.push(claim);
    }
    assert_eq!(found, inserted, "each in one share or another");
    let sizes: Vec<usize> = held.iter().map(|claim| claim.records().len()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 60, "and in no two: {sizes:?}");
    assert!(
        sizes.iter().all(|size| *size >= 5),
        "about equal parts: {sizes:?}"
    );
}

/// What the broker would have: every publication, in order, whether or not it was settled.
#[derive(Default)]
struct Log(Mutex<Vec<RecordId>>);

pub async fn a_key_keeps_its_order_over_failures_and_crashes_of_several_relays(
    world: &dyn StoreWorld,
) {
    const RECORDS: u32 = 150;
    let settings = Settings {
        max_attempts: 1000,
        ..Settings::default()
    };
    let (log, written) = (Log::default(), AtomicBool::new(false));
    let mut inserted: Vec<(u32, RecordId)> = Vec::new();
    let write = async {
        for number in 0..RECORDS {
            let key = number % 5;
            inserted.push((key, world.insert(Some(&format!("k{key}")), number).await));
        }
        written.store(true, Atomic::Release);
    };
    let relays = join_all((0..3).map(|_| faulty_relay(world, settings, &log, &written)));
    join(write, relays).await;
    let log = log.0.into_inner().unwrap();
    let mut first_seen: HashMap<&RecordId, usize> = HashMap::new();
    for (position, id) in log.iter().enumerate() {
        first_seen.entry(id).or_insert(position);
    }
    for key in 0..5 {
        let of_key = inserted.iter().filter(|(of, _)| *of == key);
        let seen: Vec<usize> = of_key.map(|(_, id)| first_seen[id]).collect();
        assert!(seen.is_sorted(), "key {key} was inverted: {seen:?}");
    }
}

/// Publishes until nothing is left. Some records fail; some claims are lost after they were published.
async fn faulty_relay(world: &dyn StoreWorld, settings: Settings, log: &Log, written: &AtomicBool) {
    let policy = RetryPolicy {
        max_attempts: settings.max_attempts,
        backoff: Backoff::new(Duration::from_millis(1), Duration::from_millis(20)),
        on_dead: settings.on_dead,
        count_outages: false,
    };
    let store = world.relay(settings);
    loop {
        let half = Share {
            index: fastrand::u32(0..2),
            of: 2,
        };
        let share = if fastrand::bool() { Share::ALL } else { half };
        let was_written = written.load(Atomic::Acquire);
        let claimed = store
            .claim(Want {
                limit: fastrand::u32(1..20),
                bytes: usize::MAX,
                share,
            })
            .await
            .unwrap();
        let Some(claim) = claimed else {
            if was_written && store.backlog().await.unwrap().pending == 0 {
                return;
            }
            tokio::task::yield_now().await;
            continue;
        };
        let outcomes = publish(claim.records(), log);
        tokio::task::yield_now().await;
        // Leases of this test outlast it, so only claims that end with their holder may be lost.
        let fates = fates(claim.records(), &outcomes, Ordering::Key, &policy);
        if fastrand::u8(..) < 20 && world.frees_dropped_claims() {
            drop(claim);
        } else {
            claim.settle(&fates).await.unwrap();
        }
    }
}

/// A broker that refuses one in eight, and then the rest of that key.
fn publish(records: &[Record], log: &Log) -> Vec<Outcome> {
    let mut refused = HashSet::new();
    records
        .iter()
        .map(|record| {
            if refused.contains(&record.key) {
                return Outcome::failed(Failure::Untried, "earlier one failed");
            }
            if fastrand::u8(..) < 32 {
                refused.insert(record.key.clone());
                return Outcome::failed(Failure::Transient, "broker said no");
            }
            log.0.lock().unwrap().push(record.id.clone());
            Outcome::PUBLISHED
        })
        .collect()
}
