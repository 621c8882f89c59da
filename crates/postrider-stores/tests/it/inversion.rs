//! Order against the ways in which it is commonly lost.

use postrider_core::{Fate, OutboxStore, Share, StoreError, Want};
use postrider_stores::postgres::{Options, PostgresStore};
use postrider_testkit::conformance::store::{Settings, StoreWorld, order};
use postrider_testkit::eventually;

use crate::world::{World, world};

const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// Publishes what can be claimed now and gives the numbers of its payloads.
async fn publish(store: &PostgresStore) -> Vec<String> {
    let Some(claim) = store.claim(ALL).await.unwrap() else {
        return Vec::new();
    };
    let number = |bytes: &[u8]| -> String {
        let payload: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        payload["n"].to_string()
    };
    let numbers = claim
        .records()
        .iter()
        .map(|record| number(record.payload.as_ref().unwrap()))
        .collect();
    let fates = vec![Fate::Published; claim.records().len()];
    claim.settle(&fates).await.unwrap();
    numbers
}

/// T1 opens and writes elsewhere; T3 opens, writes and stays open; T2 locks the key, emits 1 and commits; T1 locks
/// the key, emits 2 and commits. A cursor over transaction ids publishes 2 before 1, or never publishes 1.
async fn first_comes_first(world: World, polls_between: bool) {
    world.database.execute("CREATE TABLE keys (k text PRIMARY KEY, n int); INSERT INTO keys VALUES ('k', 0), ('other', 0)").await;
    let lock = "UPDATE keys SET n = n + 1 WHERE k = 'k'";
    let store = world.store();
    let mut published = Vec::new();
    let mut t1 = world.database.pool.begin().await.unwrap();
    sqlx::query("UPDATE keys SET n = 1 WHERE k = 'other'")
        .execute(&mut *t1)
        .await
        .unwrap();
    let mut t3 = world.database.pool.begin().await.unwrap();
    sqlx::query("CREATE TABLE elsewhere (n int)")
        .execute(&mut *t3)
        .await
        .unwrap();
    let mut t2 = world.database.pool.begin().await.unwrap();
    sqlx::query(lock).execute(&mut *t2).await.unwrap();
    world
        .outbox
        .emit(&mut t2, world.event(Some("k"), 1))
        .await
        .unwrap();
    t2.commit().await.unwrap();
    if polls_between {
        published.extend(publish(&store).await);
        assert_eq!(
            published,
            ["1"],
            "not held up by transactions that are open"
        );
    }
    sqlx::query(lock).execute(&mut *t1).await.unwrap();
    world
        .outbox
        .emit(&mut t1, world.event(Some("k"), 2))
        .await
        .unwrap();
    t1.commit().await.unwrap();
    published.extend(publish(&store).await);
    assert_eq!(published, ["1", "2"]);
    t3.rollback().await.unwrap();
    assert!(publish(&store).await.is_empty());
}

#[tokio::test]
async fn a_key_is_not_inverted_by_transactions_that_overlap_while_holding() {
    first_comes_first(world("polyshop", "").await, true).await;
    first_comes_first(world("polyshop", "").await, false).await;
}

#[tokio::test]
async fn a_key_is_not_inverted_by_transactions_that_overlap_while_leasing() {
    first_comes_first(world("talkie", "ordering = 'key'").await, true).await;
    first_comes_first(world("talkie", "ordering = 'key'").await, false).await;
}

#[tokio::test]
async fn a_key_is_not_inverted_by_transactions_that_overlap_while_streaming() {
    first_comes_first(world("native", "").await, true).await;
    first_comes_first(world("native", "").await, false).await;
}

#[tokio::test]
async fn a_lower_id_that_commits_later_is_not_lost() {
    let world = world("gopipe", "").await;
    let store = world.store();
    let mut slow = world.database.pool.begin().await.unwrap();
    world
        .outbox
        .emit(&mut slow, world.event(None, 1))
        .await
        .unwrap();
    world.emit(world.event(None, 2)).await;
    assert_eq!(publish(&store).await, ["2"]);
    slow.commit().await.unwrap();
    assert_eq!(publish(&store).await, ["1"]);
}

#[tokio::test]
async fn a_record_that_somebody_else_has_locked_is_not_overtaken_by_a_later_one_of_its_key() {
    for preset in ["polyshop", "talkie"] {
        let world = world(preset, "ordering = 'key'").await;
        let table = world.layout.table.quoted();
        let first = world.emit(world.event(Some("k"), 1)).await;
        world.emit(world.event(Some("k"), 2)).await;
        let store = world.store();
        let mut other = world.database.pool.begin().await.unwrap();
        let lock = format!("SELECT FROM {table} WHERE id = '{first}' FOR UPDATE");
        sqlx::query(sqlx::AssertSqlSafe(lock))
            .execute(&mut *other)
            .await
            .unwrap();
        match store.claim(ALL).await {
            Err(StoreError::Unavailable { reason, .. }) => {
                assert!(reason.contains("lock"), "{reason}")
            }
            Err(error) => panic!("{error}"),
            Ok(claim) => panic!("claimed {:?}", claim.map(|claim| claim.records().len())),
        }
        other.rollback().await.unwrap();
        let published = eventually("they are free", async || match publish(&store).await {
            none if none.is_empty() => Err("held"),
            published => Ok(published),
        });
        assert_eq!(published.await, ["1", "2"]);
    }
}

#[tokio::test]
async fn lanes_are_shared_by_relays_that_call_the_table_by_different_names() {
    let world = world("polyshop", "").await;
    world.emit(world.event(Some("k"), 1)).await;
    world.emit(world.event(Some("k"), 2)).await;
    let full_name = format!("table = '{}.outbox_events'", world.database.schema);
    let renamed = crate::world::layout("polyshop", &full_name);
    let other = PostgresStore::new(world.database.pool.clone(), Options::new(renamed));
    let store = world.store();
    let claim = store
        .claim(Want {
            limit: 1,
            bytes: usize::MAX,
            share: Share::ALL,
        })
        .await
        .unwrap()
        .unwrap();
    assert!(other.claim(ALL).await.unwrap().is_none());
    claim.settle(&[Fate::Published]).await.unwrap();
    assert_eq!(publish(&other).await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn order_does_not_depend_on_the_isolation_that_a_role_defaults_to() {
    let world = world("polyshop", "").await;
    let world = world.with_session(&[("default_transaction_isolation", "serializable")]);
    assert!(world.relay(Settings::default()).ping().await.is_ok());
    order::a_key_keeps_its_order_over_failures_and_crashes_of_several_relays(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn giving_records_back_waits_for_a_claim_that_runs_at_the_same_moment() {
    let world = world("talkie", "ordering = 'key'").await;
    world.emit(world.event(Some("k"), 1)).await;
    world.emit(world.event(Some("k"), 2)).await;
    let claim = world.store().claim(ALL).await.unwrap().unwrap();
    // As a claim of another relay does between locking its lanes and reading records.
    let mut other = world.database.pool.begin().await.unwrap();
    let lanes = "SELECT pg_try_advisory_xact_lock(hashtext('postrider ' || 'outbox'::regclass::oid::text), lane) \
                 FROM generate_series(0, 31) AS lane";
    sqlx::query(lanes).execute(&mut *other).await.unwrap();
    let retry = Fate::Retry {
        attempts: 1,
        after: std::time::Duration::from_secs(60),
        error: "no".into(),
    };
    let settling = tokio::spawn(async move { claim.settle(&[retry, Fate::Released]).await });
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = \
                   (hashtext('postrider ' || 'outbox'::regclass::oid::text)::int8 & 4294967295)::oid";
    eventually("settling waits for the lane", async || {
        match world.database.number(waiting).await {
            0 => Err(()),
            _ => Ok(()),
        }
    })
    .await;
    assert_eq!(
        world
            .database
            .count("outbox WHERE status = 'publishing'")
            .await,
        2
    );
    other.rollback().await.unwrap();
    assert_eq!(settling.await.unwrap().unwrap().lapsed, 0);
    assert!(
        publish(&world.store()).await.is_empty(),
        "the first waits, and the second behind it"
    );
}

/// A claim's transaction begins; then one that emits 1 begins, locks the key and commits; then one that began before
/// all of them gets the key, emits 2 and commits; then the claim reads. By its clock, 1 is not due and 2 is.
#[tokio::test]
async fn a_record_is_due_though_its_transaction_began_after_the_claim_did() {
    let world = world("talkie", "ordering = 'key'").await;
    world.emit(world.event(Some("k"), 1)).await;
    world
        .database
        .execute("UPDATE outbox SET next_attempt_at = now() + interval '1 hour', created_at = now() + interval '1 hour'")
        .await;
    world.emit(world.event(Some("k"), 2)).await;
    world
        .database
        .execute("UPDATE outbox SET created_at = now() + interval '2 hours' WHERE created_at < now() + interval '1 minute'")
        .await;
    assert_eq!(publish(&world.store()).await, ["1", "2"]);
}
