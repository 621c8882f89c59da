//! Claims by a status, in the talkie table as `init` makes it.

use postrider_core::{Claim, Fate, OutboxStore, Share, Want};
use postrider_testkit::eventually;

use crate::world::{World, world};

const KEY: &str = "ordering = 'key'";

async fn fill(world: &World, records: u32, values: &str) {
    let insert = format!(
        "INSERT INTO outbox (topic, retry_count, key, payload_json, status) SELECT 't', 1, {values} FROM generate_series(1, {records}) n"
    );
    world.database.execute(&insert).await;
}

async fn claim(world: &World, limit: u32) -> Option<Box<dyn Claim>> {
    let want = Want {
        limit,
        bytes: usize::MAX,
        share: Share::ALL,
    };
    world.store().claim(want).await.unwrap()
}

/// 5,000 records wait behind a dead one, more than a claim looks at first.
#[tokio::test]
async fn a_claim_looks_behind_what_is_blocked() {
    let world = world("talkie", KEY).await;
    fill(&world, 1, "'parked', '{}', 'dead_lettered'").await;
    fill(&world, 5000, "'parked', '{}', 'pending'").await;
    assert!(claim(&world, 10).await.is_none());
    fill(&world, 3, "'free', '{}', 'pending'").await;
    let claim = claim(&world, 10).await.unwrap();
    let keys: Vec<&str> = claim
        .records()
        .iter()
        .filter_map(|record| record.key.as_ref()?.as_str())
        .collect();
    assert_eq!(keys, ["free"; 3]);
}

/// Otherwise each claimed record is an entry more in every index.
#[tokio::test]
async fn claiming_writes_no_index() {
    for ordering in [KEY, "ordering = 'none'"] {
        let world = world("talkie", ordering).await;
        fill(&world, 100, "n::text, '{}', 'pending'").await;
        let claim = claim(&world, 100).await.unwrap();
        let fates = vec![Fate::Published; claim.records().len()];
        let figures = "SELECT coalesce(sum(n_tup_hot_upd), 0)::int8 FROM pg_stat_user_tables WHERE relid = 'outbox'::regclass";
        eventually("the server has counted", async || {
            match world.database.number(figures).await {
                100 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        claim.settle(&fates).await.unwrap();
        assert_eq!(
            world
                .database
                .count("outbox WHERE status = 'published'")
                .await,
            100
        );
    }
}

#[tokio::test]
async fn a_record_that_is_set_back_by_hand_must_lose_its_time() {
    let world = world("talkie", KEY).await;
    fill(&world, 1, "'k', '{}', 'pending'").await;
    let published = claim(&world, 1).await.unwrap();
    published.settle(&[Fate::Published]).await.unwrap();
    let set_back = |what: &'static str| sqlx::query(what).execute(&world.database.pool);
    let refused = set_back("UPDATE outbox SET status = 'pending'").await;
    assert!(refused.unwrap_err().to_string().contains("outbox_check"));
    let again = "UPDATE outbox SET status = 'pending', published_at = NULL";
    set_back(again).await.unwrap();
    assert!(claim(&world, 1).await.is_some());
}

/// The server gives claimed rows in the order of their ids, which need not be that of their times.
#[tokio::test]
async fn a_claim_is_in_order_of_time_whatever_the_ids() {
    for ordering in ["key", "none"] {
        let world = world("talkie", &format!("ordering = '{ordering}'")).await;
        let insert = "INSERT INTO outbox (id, topic, key, payload_json, created_at) \
                      SELECT lpad((9000 - n)::text, 32, '0')::uuid, 't', 'k', '{}', now() - interval '1 h' + n * interval '1 ms' \
                      FROM generate_series(1, 5000) AS n";
        world.database.execute(insert).await;
        world.database.execute("ANALYZE outbox").await;
        let claim = claim(&world, 100).await.unwrap();
        let times: Vec<_> = claim
            .records()
            .iter()
            .map(|record| record.created_at)
            .collect();
        assert_eq!(times.len(), 100);
        assert!(times.is_sorted(), "{ordering}: {times:?}");
    }
}

/// A resent record must not look as if it were for later: a claim whose transaction began before the resend's would take the next one of its
/// key. So it has a time that is due in every claim's eyes.
#[tokio::test]
async fn a_resent_record_is_due_for_claims_that_began_before() {
    use postrider_core::{Actor, DeadLetters as _, RecordFilter, Records as _};
    let world = world("talkie", KEY).await;
    fill(&world, 1, "'k', '{}', 'dead_lettered'").await;
    fill(&world, 1, "'k', '{}', 'pending'").await;
    let store = world.store();
    let dead = store.find(&RecordFilter::dead(), None, 10).await.unwrap();
    let ids = [dead.items[0].id.clone()];
    assert_eq!(store.resend(&ids, &Actor("me".into())).await.unwrap(), 1);
    let due = "outbox WHERE status = 'pending' AND next_attempt_at <= created_at";
    assert_eq!(world.database.count(due).await, 2);
    let claim = claim(&world, 10).await.unwrap();
    assert_eq!(claim.records()[0].id, ids[0]);
}
