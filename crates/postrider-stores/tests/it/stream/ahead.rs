//! Records that are read while others are published.

use postrider_core::{Claim, Fate, OutboxStore as _, Share, Want};
use postrider_stores::postgres::PostgresStore;
use postrider_testkit::eventually;

use super::{drain, numbers, seen};
use crate::world::{World, world};

/// Fewer than there are, so that there is always something to read ahead.
const FEW: Want = Want {
    limit: 4,
    bytes: usize::MAX,
    share: Share::ALL,
};

async fn filled(records: u32) -> World {
    let world = world("native", "state = { groups = 1 }").await;
    for number in 0..records {
        let key = format!("k{}", number % 3);
        world.emit(world.event(Some(&key), number)).await;
    }
    world
}

async fn claim(store: &PostgresStore) -> (Box<dyn Claim>, Vec<i64>) {
    let claim = store.claim(FEW).await.unwrap().expect("there is more");
    let seen: Vec<_> = claim.records().iter().map(seen).collect();
    (claim, numbers(&seen))
}

async fn publish(store: &PostgresStore) -> Vec<i64> {
    let (claim, numbers) = claim(store).await;
    let fates = vec![Fate::Published; numbers.len()];
    claim.settle(&fates).await.unwrap();
    numbers
}

/// Two relays take turns, so that what either has read ahead is old by the time of its next claim.
#[tokio::test]
async fn what_somebody_else_has_published_is_not_published_again() {
    let world = filled(20).await;
    let (first, second) = (world.store(), world.store());
    let mut published = Vec::new();
    for store in [&first, &second, &first, &first, &second] {
        published.extend(publish(store).await);
    }
    assert_eq!(published, (0..20).collect::<Vec<_>>());
    assert!(drain(&first).await.is_empty());
}

/// A record fails while later ones of its key are read ahead: they wait behind it.
#[tokio::test]
async fn what_was_read_ahead_waits_behind_a_record_that_fails() {
    let world = filled(12).await;
    let store = world.store();
    let (claim, numbers) = claim(&store).await;
    assert_eq!(numbers, [0, 1, 2, 3]);
    let dead = Fate::Dead {
        attempts: 1,
        error: "refused".into(),
    };
    let fates = [Fate::Published, dead, Fate::Published, Fate::Published];
    claim.settle(&fates).await.unwrap();
    let rest: Vec<i64> = drain(&store).await.iter().map(|(_, n)| *n).collect();
    // Those of k1 come after number 1.
    assert_eq!(rest, [5, 6, 8, 9, 11]);
}

/// A claim that is let go, or dropped, while it reads ahead.
#[tokio::test]
async fn what_was_let_go_comes_again_in_order() {
    let world = filled(12).await;
    let store = world.store();
    let (released, numbers) = claim(&store).await;
    released.settle(&vec![Fate::Released; 4]).await.unwrap();
    let (dropped, again) = claim(&store).await;
    assert_eq!(numbers, again);
    drop(dropped);
    // The server frees the group when it has seen the connection go.
    let first = postrider_testkit::eventually("the group is free", async || {
        match store.claim(FEW).await.unwrap() {
            Some(claim) => {
                let seen: Vec<_> = claim.records().iter().map(seen).collect();
                claim.settle(&vec![Fate::Published; 4]).await.unwrap();
                Ok(super::numbers(&seen))
            }
            None => Err("held"),
        }
    })
    .await;
    assert_eq!(first, [0, 1, 2, 3]);
    let rest: Vec<i64> = drain(&store).await.iter().map(|(_, n)| *n).collect();
    assert_eq!(rest, (4..12).collect::<Vec<_>>());
}

/// Publishing may take long, and a segment must be emptied meanwhile.
#[tokio::test]
async fn a_claim_gives_back_its_locks_on_the_outbox_before_it_is_settled() {
    for records in [2, 20] {
        let world = filled(records).await;
        let store = world.store();
        let (claim, numbers) = claim(&store).await;
        eventually("the outbox is free", async || {
            let mut tx = world.database.pool.begin().await.unwrap();
            let lock = "LOCK TABLE postrider_outbox IN ACCESS EXCLUSIVE MODE NOWAIT";
            let locked = sqlx::query(lock).execute(&mut *tx).await;
            tx.rollback().await.unwrap();
            locked
        })
        .await;
        let fates = vec![Fate::Published; numbers.len()];
        claim.settle(&fates).await.unwrap();
    }
}

/// The records that come next cannot be read: those that were published are settled all the same.
#[tokio::test]
async fn a_claim_is_settled_though_nothing_can_be_read_ahead() {
    let world = filled(20).await;
    let store = world.store();
    // Every read of the outbox but the first fails, as by a timeout of the role's.
    world
        .database
        .execute(
            "CREATE SEQUENCE reads; CREATE FUNCTION passes() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
             IF nextval('reads') > 4 THEN RAISE EXCEPTION 'not now'; END IF; RETURN true; END $$; \
             ALTER TABLE postrider_outbox_0 RENAME TO held_back; \
             CREATE VIEW postrider_outbox_0 AS SELECT * FROM held_back WHERE passes()",
        )
        .await;
    let (claim, first) = claim(&store).await;
    assert_eq!(first, [0, 1, 2, 3]);
    claim.settle(&vec![Fate::Published; 4]).await.unwrap();
    world
        .database
        .execute("DROP VIEW postrider_outbox_0; ALTER TABLE held_back RENAME TO postrider_outbox_0")
        .await;
    let rest: Vec<i64> = drain(&store).await.iter().map(|(_, n)| *n).collect();
    assert_eq!(rest, (4..20).collect::<Vec<_>>());
}

fn held(claim: &dyn Claim) -> Vec<i64> {
    let seen: Vec<_> = claim.records().iter().map(seen).collect();
    numbers(&seen)
}

/// A claim of the first four, which are published, that has gone on to the next four.
async fn gone_on(store: &PostgresStore) -> Box<dyn Claim> {
    let (mut claim, first) = claim(store).await;
    assert_eq!(first, [0, 1, 2, 3]);
    assert!(claim.go_on().await.unwrap());
    assert_eq!(held(&*claim), [4, 5, 6, 7]);
    claim
}

#[tokio::test]
async fn a_claim_goes_on_to_the_end_and_is_settled_once() {
    let world = filled(11).await;
    let store = world.store();
    let before = versions(&world).await;
    let mut claim = gone_on(&store).await;
    assert!(
        world.store().claim(FEW).await.unwrap().is_none(),
        "it is held"
    );
    assert!(claim.go_on().await.unwrap());
    assert_eq!(held(&*claim), [8, 9, 10]);
    assert!(!claim.go_on().await.unwrap(), "there is no more");
    claim.settle(&vec![Fate::Published; 3]).await.unwrap();
    assert_eq!(versions(&world).await, before + 1);
    assert!(drain(&store).await.is_empty());
}

/// How often progress was saved.
async fn versions(world: &World) -> i64 {
    let sql = "SELECT sum(version)::bigint FROM postrider_outbox_stream";
    let pool = &world.database.pool;
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

/// The broker has gone after the first ones were published: these are not sent again.
#[tokio::test]
async fn what_was_published_is_saved_though_the_rest_is_let_go() {
    let world = filled(12).await;
    let store = world.store();
    let claim = gone_on(&store).await;
    claim.settle(&vec![Fate::Released; 4]).await.unwrap();
    let rest: Vec<i64> = drain(&store).await.iter().map(|(_, n)| *n).collect();
    assert_eq!(rest, (4..12).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_record_that_fails_after_a_claim_has_gone_on_is_kept_aside() {
    let world = filled(12).await;
    let store = world.store();
    let claim = gone_on(&store).await;
    let dead = Fate::Dead {
        attempts: 1,
        error: "refused".into(),
    };
    // Number 4 is of k1, and so are 7 and 10.
    let fates = [dead, Fate::Published, Fate::Published, Fate::Released];
    claim.settle(&fates).await.unwrap();
    let (mut next, numbers) = self::claim(&store).await;
    assert_eq!(numbers, [8, 9]);
    assert!(!next.go_on().await.unwrap(), "records are kept aside");
    next.settle(&vec![Fate::Published; 2]).await.unwrap();
    let rest: Vec<i64> = drain(&store).await.iter().map(|(_, n)| *n).collect();
    assert_eq!(rest, [11]);
}

/// What was published and not saved is sent again, from the first on.
#[tokio::test]
async fn a_claim_that_is_lost_after_it_has_gone_on_comes_again_whole() {
    let world = filled(8).await;
    let store = world.store();
    drop(gone_on(&store).await);
    let again = eventually("the group is free", async || {
        let claim = store.claim(FEW).await.unwrap();
        claim.ok_or("held")
    })
    .await;
    assert_eq!(held(&*again), [0, 1, 2, 3]);
}

/// Others get their turn.
#[tokio::test]
async fn a_claim_does_not_go_on_where_others_are_at_work() {
    let world = filled(20).await;
    let (first, second) = (world.store(), world.store());
    publish(&first).await;
    publish(&second).await;
    let (mut claim, numbers) = claim(&first).await;
    assert_eq!(numbers, [8, 9, 10, 11]);
    assert!(!claim.go_on().await.unwrap());
}
