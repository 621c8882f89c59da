//! Groups that are read together, and apart.

use std::collections::BTreeMap;

use postrider_core::{Claim, Fate, OutboxStore as _, Share, Want};
use postrider_stores::postgres::PostgresStore;
use postrider_testkit::eventually;

use super::seen;
use crate::world::{World, world};

const RECORDS: u32 = 60;
const KEYS: u32 = 12;
const LIMIT: u32 = 5;

async fn filled() -> World {
    let world = world("native", "state = { groups = 3 }").await;
    for number in 0..RECORDS {
        let key = format!("k{}", number % KEYS);
        world.emit(world.event(Some(&key), number)).await;
    }
    world
}

async fn claim(store: &PostgresStore, share: Share) -> Option<Box<dyn Claim>> {
    let limit = LIMIT;
    store
        .claim(Want {
            limit,
            bytes: usize::MAX,
            share,
        })
        .await
        .unwrap()
}

async fn publish(store: &PostgresStore, share: Share) -> Option<Vec<(String, i64)>> {
    let claim = claim(store, share).await?;
    let seen = claim.records().iter().map(seen).collect();
    let fates = vec![Fate::Published; claim.records().len()];
    claim.settle(&fates).await.unwrap();
    Some(seen)
}

/// How many places the groups stand at.
async fn places(world: &World) -> i64 {
    sqlx::query_scalar(
        "SELECT count(DISTINCT (s.position, s.from_snapshot::text, s.to_snapshot::text)) FROM postrider_outbox_stream AS s",
    )
    .fetch_one(&world.database.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn groups_that_stand_together_stay_together() {
    let world = filled().await;
    let store = world.store();
    let mut all = Vec::new();
    while let Some(more) = publish(&store, Share::ALL).await {
        assert_eq!(
            more.len(),
            LIMIT as usize,
            "one claim is full of all groups"
        );
        assert_eq!(places(&world).await, 1);
        all.extend(more.into_iter().map(|(_, number)| number));
    }
    assert_eq!(all, (0..i64::from(RECORDS)).collect::<Vec<_>>());
}

/// Other relays, or workers of the same one, have taken groups ahead. Whoever then holds all of them reads what is behind
/// first, until all stand at the same place; nothing is missing, twice or out of order.
#[tokio::test]
async fn groups_that_were_read_apart_are_read_together_again() {
    let world = filled().await;
    let store = world.store();
    let mut all = publish(&store, Share::ALL).await.unwrap();
    for (index, times) in [(0, 1), (1, 2)] {
        for _ in 0..times {
            all.extend(publish(&store, Share { index, of: 3 }).await.unwrap());
        }
    }
    assert_eq!(places(&world).await, 3);
    let mut was_together = false;
    while let Some(more) = publish(&store, Share::ALL).await {
        all.extend(more);
        was_together |= places(&world).await == 1;
        assert!(
            !was_together || places(&world).await == 1,
            "they stay together"
        );
        assert!(all.len() < 2 * RECORDS as usize, "some come twice");
    }
    assert!(was_together);
    let mut by_key: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (key, number) in all {
        by_key.entry(key).or_default().push(number);
    }
    for first in 0..KEYS {
        let expected = (first..RECORDS).step_by(KEYS as usize).map(i64::from);
        assert_eq!(by_key[&format!("k{first}")], expected.collect::<Vec<_>>());
    }
}

/// A record of a group that is behind fails: it is kept aside, and its group goes on to where the others stand.
#[tokio::test]
async fn a_failure_keeps_no_group_behind() {
    let world = filled().await;
    let store = world.store();
    let mut published = publish(&store, Share::ALL).await.unwrap();
    published.extend(publish(&store, Share { index: 1, of: 3 }).await.unwrap());
    assert_eq!(places(&world).await, 2);
    let mut died = 0;
    while let Some(claim) = claim(&store, Share::ALL).await {
        let dead = Fate::Dead {
            attempts: 1,
            error: "refused".into(),
        };
        let fates: Vec<Fate> = claim.records().iter().map(|_| dead.clone()).collect();
        died += fates.len();
        claim.settle(&fates).await.unwrap();
    }
    // One of each key died, and the others wait behind it.
    assert!(died <= KEYS as usize, "{died} died");
    let aside: i64 = sqlx::query_scalar("SELECT count(*) FROM postrider_outbox_troubles")
        .fetch_one(&world.database.pool)
        .await
        .unwrap();
    assert_eq!(
        usize::try_from(aside).unwrap(),
        RECORDS as usize - published.len()
    );
    assert_eq!(places(&world).await, 1);
}

/// Alone, a relay does best with one claim of all groups at a time. With another at work, groups are to be shared out.
#[tokio::test]
async fn a_claim_is_better_shared_in_company() {
    let world = filled().await;
    let (here, there) = (world.store(), world.store());
    for _ in 0..2 {
        let alone = claim(&here, Share::ALL).await.unwrap();
        assert!(!alone.is_better_shared());
        let fates = vec![Fate::Published; LIMIT as usize];
        alone.settle(&fates).await.unwrap();
    }
    publish(&there, Share::ALL).await.unwrap();
    let held = claim(&here, Share::ALL).await.unwrap();
    assert!(held.is_better_shared(), "somebody else has published");
    held.settle(&vec![Fate::Published; LIMIT as usize])
        .await
        .unwrap();
    // Another worker of the same relay is no company.
    let part = claim(&here, Share { index: 1, of: 3 }).await.unwrap();
    let rest = claim(&here, Share::ALL).await.unwrap();
    assert!(!rest.is_better_shared());
    drop(part);
}

/// Fencing: a re-anchored outbox, say.
#[tokio::test]
async fn a_claim_of_which_one_group_was_changed_by_others_leaves_no_trace() {
    let world = filled().await;
    let store = world.store();
    let held = claim(&store, Share::ALL).await.unwrap();
    let first: Vec<_> = held.records().iter().map(seen).collect();
    sqlx::query("UPDATE postrider_outbox_stream SET epoch = epoch + 1 WHERE grp = 2")
        .execute(&world.database.pool)
        .await
        .unwrap();
    let fates = vec![Fate::Published; held.records().len()];
    let error = held.settle(&fates).await.unwrap_err().to_string();
    assert!(error.contains("0 rows of group 2 found"), "{error}");
    assert!(error.contains("the claim is void"), "{error}");
    // Its connection is closed, and the server frees the locks when it sees that.
    let again = eventually("the groups are free", async || {
        publish(&store, Share::ALL).await.ok_or("held")
    })
    .await;
    assert_eq!(again, first);
    assert_eq!(places(&world).await, 1);
}

/// No version of saved progress can be removed while it is open, and a planner that takes the table to be small would read them all.
#[tokio::test]
async fn a_transaction_held_elsewhere_makes_no_claim_wade_through_old_progress() {
    const CLAIMS: u32 = 100;
    let world = world("native", "").await;
    let pool = &world.database.pool;
    let mut elsewhere = pool.begin().await.unwrap();
    sqlx::query("SELECT pg_current_xact_id()")
        .execute(&mut *elsewhere)
        .await
        .unwrap();
    let store = world.store();
    for number in 0..CLAIMS {
        if number == 3 {
            sqlx::query("ANALYZE postrider_outbox_stream")
                .execute(pool)
                .await
                .unwrap();
        }
        world.emit(world.event(Some("k"), number)).await;
        assert_eq!(publish(&store, Share::ALL).await.unwrap().len(), 1);
    }
    let (scans, read) = eventually("the statistics are in", async || {
        let figures: (i64, i64) = sqlx::query_as(
            "SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'postrider_outbox_stream_pkey' \
             AND schemaname = current_schema()",
        )
        .fetch_one(pool)
        .await
        .unwrap();
        // Each claim looks at two groups and saves both.
        (figures.0 >= 4 * i64::from(CLAIMS)).then_some(figures).ok_or(figures)
    })
    .await;
    elsewhere.rollback().await.unwrap();
    assert!(read <= 2 * scans, "{read} entries by {scans} scans");
}

/// Whose group a record is in does not hang on a setting that may change between two starts of a relay.
#[tokio::test]
async fn a_change_of_the_ordering_passes_over_nothing() {
    let mut world = filled().await;
    let store = world.store();
    let mut all = publish(&store, Share::ALL).await.unwrap();
    for (index, times) in [(0, 1), (1, 3)] {
        for _ in 0..times {
            all.extend(publish(&store, Share { index, of: 3 }).await.unwrap());
        }
    }
    world.layout.ordering = postrider_core::Ordering::None;
    let store = world.store();
    while let Some(more) = publish(&store, Share::ALL).await {
        all.extend(more);
    }
    let mut read: Vec<i64> = all.into_iter().map(|(_, number)| number).collect();
    read.sort_unstable();
    assert_eq!(read, (0..i64::from(RECORDS)).collect::<Vec<_>>());
}

/// Somebody has dropped the outbox and set it up anew with other groups, between two claims of a relay.
#[tokio::test]
async fn another_number_of_groups_is_noticed() {
    let world = filled().await;
    let store = world.store();
    publish(&store, Share::ALL).await.unwrap();
    world
        .database
        .execute(
            "DELETE FROM postrider_outbox_stream WHERE grp > 0; UPDATE postrider_outbox_stream SET groups = 1",
        )
        .await;
    let refused = store
        .claim(Want {
            limit: LIMIT,
            bytes: usize::MAX,
            share: Share::ALL,
        })
        .await;
    let reason = refused.map(drop).unwrap_err().to_string();
    assert!(
        reason.contains("had 3 groups of lanes and has 1 now"),
        "{reason}"
    );
    let mut left = 0;
    while let Some(more) = publish(&store, Share::ALL).await {
        left += more.len();
    }
    assert_eq!(left, RECORDS as usize - LIMIT as usize);
}
