//! What the tables of a stream must be like, and what a store says of those that are not.

use postrider_core::{Fate, OutboxStore as _, StoreError};
use postrider_stores::postgres::Outbox;
use postrider_testkit::eventually;

use super::{ALL, drain, numbers};
use crate::world::{World, layout, world};

/// Whoever opens the store is told what to do.
async fn assert_remedy(world: &World, remedy: &str) {
    let store = world.store();
    for refused in [
        store.open().await.unwrap_err(),
        store.claim(ALL).await.map(drop).unwrap_err(),
        store.backlog().await.map(drop).unwrap_err(),
    ] {
        let StoreError::Mismatch(reason) = refused else {
            panic!("{refused}")
        };
        assert!(reason.contains(remedy), "{remedy} is not in: {reason}");
    }
}

/// Reading takes it that a transaction has its number before it draws a position, and that positions go up.
#[tokio::test]
async fn an_outbox_that_does_not_carry_the_proof_is_refused() {
    let table = "ALTER TABLE \"postrider_outbox\" ALTER COLUMN";
    let sequence = "ALTER SEQUENCE \"postrider_outbox_position\" CACHE 1 INCREMENT 1 NO CYCLE";
    for (harm, remedy) in [
        (
            "ALTER SEQUENCE postrider_outbox_position CACHE 20",
            sequence.to_owned(),
        ),
        (
            "ALTER SEQUENCE postrider_outbox_position INCREMENT -1 MINVALUE -1000",
            sequence.to_owned(),
        ),
        (
            "ALTER SEQUENCE postrider_outbox_position CYCLE",
            sequence.to_owned(),
        ),
        (
            "ALTER TABLE postrider_outbox ALTER COLUMN xid DROP DEFAULT",
            format!("{table} \"xid\" SET DEFAULT pg_current_xact_id()"),
        ),
        (
            "CREATE SEQUENCE another; \
             ALTER TABLE postrider_outbox ALTER COLUMN position SET DEFAULT nextval('another')",
            format!("{table} \"position\" SET DEFAULT nextval('\"postrider_outbox_position\"')"),
        ),
        (
            "ALTER TABLE postrider_outbox DROP COLUMN xid; \
             ALTER TABLE postrider_outbox ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id()",
            "column xid must come before position".to_owned(),
        ),
    ] {
        let world = world("native", "").await;
        world.database.execute(harm).await;
        assert_remedy(&world, &remedy).await;
    }
}

/// A column that the outbox has and its copies lack would make every settle of a failure fail.
#[tokio::test]
async fn copies_must_have_the_columns_of_the_outbox() {
    let table = "ALTER TABLE \"postrider_outbox_troubles\"";
    for (harm, remedy) in [
        ("DROP COLUMN headers", "ADD COLUMN \"headers\" json"),
        (
            "ALTER COLUMN payload TYPE json USING NULL",
            "ALTER COLUMN \"payload\" TYPE bytea",
        ),
        (
            "ALTER COLUMN key TYPE varchar(10)",
            "ALTER COLUMN \"key\" TYPE text",
        ),
        (
            "ALTER COLUMN key SET NOT NULL",
            "ALTER COLUMN \"key\" DROP NOT NULL",
        ),
        (
            "ADD COLUMN more text NOT NULL",
            "ALTER COLUMN \"more\" DROP NOT NULL",
        ),
    ] {
        let world = world("native", "").await;
        let harm = format!("ALTER TABLE postrider_outbox_troubles {harm}");
        world.database.execute(&harm).await;
        assert_remedy(&world, &format!("{table} {remedy}")).await;
    }
    // As a mapping of one more column finds them.
    let world = world("native", "").await;
    let more = "ALTER TABLE postrider_outbox ADD COLUMN aggregate_id text";
    world.database.execute(more).await;
    let layout = layout("native", "columns = { aggregate_id = 'aggregate_id' }");
    let (url, outbox) = (world.database.url.clone(), Outbox::new(layout.clone()));
    let mapped = World::new(world.database, &url, layout, outbox);
    assert_remedy(&mapped, "ADD COLUMN \"aggregate_id\" text").await;
    let remedy = format!("{table} ADD COLUMN \"aggregate_id\" text");
    mapped.database.execute(&remedy).await;
    mapped.emit(mapped.event(Some("a"), 1)).await;
    let store = mapped.store();
    let claim = store.claim(ALL).await.unwrap().unwrap();
    let retry = Fate::Retry {
        attempts: 1,
        after: std::time::Duration::ZERO,
        error: "no".into(),
    };
    claim.settle(&[retry]).await.unwrap();
    assert_eq!(numbers(&drain(&store).await), [1]);
}

/// A cleaner that read the sequence before re-anchoring has set it forward would set it back.
#[tokio::test]
async fn re_anchoring_waits_for_a_cleaner() {
    let world = world("native", "").await;
    let store = world.store();
    let mut cleaner = world.database.pool.begin().await.unwrap();
    let lock = "SELECT pg_advisory_xact_lock(hashtext('postrider ' || 'postrider_outbox'::regclass::oid::text), 1000)";
    sqlx::query(lock).execute(&mut *cleaner).await.unwrap();
    let anchors = store.re_anchor();
    let looks = async {
        eventually("re-anchoring waits", async || {
            let waiting = "SELECT count(*) FROM pg_locks AS l WHERE l.locktype = 'advisory' AND NOT l.granted AND l.objid = 1000 \
                           AND l.classid::int8 = (hashtext('postrider ' || 'postrider_outbox'::regclass::oid::text)::int8 & 4294967295)";
            match world.database.number(waiting).await {
                1 => Ok(()),
                other => Err(other),
            }
        })
        .await;
        cleaner.rollback().await.unwrap();
    };
    let (anchored, ()) = tokio::join!(anchors, looks);
    assert_eq!(anchored.unwrap().unread, 0);
}
