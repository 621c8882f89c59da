//! Another database: noticed, refused, and gone on with.

use std::process::{Command, Stdio};
use std::time::Duration;

use postrider_core::{Layout, OutboxStore as _, Purge as _, StoreError};
use postrider_stores::postgres::{Options, Outbox, PostgresStore, connect};
use postrider_testkit::services::{Kind, PrivateServer, services};

use super::{ALL, drain, numbers, publish};
use crate::world::{World, world};

async fn assert_refused(store: &PostgresStore) {
    for refused in [
        store.claim(ALL).await.map(drop).unwrap_err(),
        store.backlog().await.map(drop).unwrap_err(),
        store.purge(Duration::ZERO, 10).await.map(drop).unwrap_err(),
    ] {
        let StoreError::Mismatch(reason) = refused else {
            panic!("{refused}")
        };
        assert!(reason.contains("postrider stream re-anchor"), "{reason}");
    }
    let status = store.stream_status().await.unwrap();
    assert!(
        status.iter().all(|group| group.refused.is_some()),
        "{status:?}"
    );
}

/// 1 and 2 are published, 3 failed, 4 waits behind it, and 5 and 6 are not read; 6 is still in an open transaction
/// when the snapshot of the last claim is taken.
async fn half_read() -> World {
    let world = world("native", "").await;
    let store = world.store();
    world.emit(world.event(Some("a"), 1)).await;
    world.emit(world.event(Some("b"), 2)).await;
    world.emit(world.event(Some("c"), 3)).await;
    let claim = store.claim(ALL).await.unwrap().unwrap();
    let fates: Vec<_> = claim
        .records()
        .iter()
        .map(|record| match super::seen(record).1 {
            3 => postrider_core::Fate::Retry {
                attempts: 1,
                after: Duration::ZERO,
                error: "no".into(),
            },
            _ => postrider_core::Fate::Published,
        })
        .collect();
    let mut open = world.database.pool.begin().await.unwrap();
    let sixth = world.event(Some("d"), 6);
    world.outbox.emit(&mut open, sixth).await.unwrap();
    claim.settle(&fates).await.unwrap();
    world.emit(world.event(Some("c"), 4)).await;
    world.emit(world.event(Some("a"), 5)).await;
    open.commit().await.unwrap();
    world
}

#[tokio::test]
async fn another_system_identifier_is_refused_until_the_stream_is_anchored_anew() {
    let world = half_read().await;
    let store = world.store();
    world
        .database
        .execute("UPDATE postrider_outbox_stream SET system = '1'")
        .await;
    assert_refused(&store).await;
    let anchored = store.re_anchor().await.unwrap();
    assert_eq!(anchored.unread, 3);
    let mut read = numbers(&drain(&store).await);
    let c: Vec<i64> = read
        .iter()
        .copied()
        .filter(|n| [3, 4].contains(n))
        .collect();
    assert_eq!(c, [3, 4], "in order");
    read.sort_unstable();
    assert_eq!(read, [3, 4, 5, 6]);
    assert!(drain(&store).await.is_empty());
    world.emit(world.event(Some("a"), 7)).await;
    assert_eq!(numbers(&publish(&store).await), [7]);
}

#[tokio::test]
async fn a_snapshot_from_the_future_is_refused() {
    let world = half_read().await;
    world
        .database
        .execute("UPDATE postrider_outbox_stream SET system = NULL, from_snapshot = '9000000000:9000000000:'")
        .await;
    assert_refused(&world.store()).await;
}

/// A promoted standby has another timeline and the same history.
#[tokio::test]
async fn another_timeline_goes_on() {
    let world = half_read().await;
    world
        .database
        .execute("UPDATE postrider_outbox_stream SET timeline = '00000099'")
        .await;
    let mut read = numbers(&drain(&world.store()).await);
    read.sort_unstable();
    assert_eq!(read, [3, 4, 5, 6]);
    let status = world.store().stream_status().await.unwrap();
    assert!(status.iter().all(|group| group.timeline != "00000099"));
}

/// `TRUNCATE … RESTART IDENTITY` sets the sequence back that the outbox owns: what is written then has positions that were
/// read long ago.
#[tokio::test]
async fn positions_that_went_back_are_refused_until_the_stream_is_anchored_anew() {
    let world = half_read().await;
    let store = world.store();
    drain(&store).await;
    world
        .database
        .execute("TRUNCATE postrider_outbox RESTART IDENTITY")
        .await;
    world.emit(world.event(Some("a"), 7)).await;
    assert_refused(&store).await;
    assert_eq!(store.re_anchor().await.unwrap().unread, 1);
    world.emit(world.event(Some("a"), 8)).await;
    assert_eq!(numbers(&drain(&store).await), [7, 8]);
}

/// The sequence has passed the old mark before anybody looks, so that it tells nothing any more.
#[tokio::test]
async fn positions_that_went_back_and_caught_up_are_refused() {
    for known in [true, false] {
        let world = world("native", "").await;
        let mut store = world.store();
        for number in 1..=20 {
            world.emit(world.event(Some("a"), number)).await;
        }
        drain(&store).await;
        // What was read last is the start of the next difference only when that is saved.
        world.emit(world.event(Some("a"), 21)).await;
        drain(&store).await;
        let restart = "TRUNCATE postrider_outbox RESTART IDENTITY";
        world.database.execute(restart).await;
        for number in 22..=61 {
            world.emit(world.event(Some("a"), number)).await;
        }
        if !known {
            store = world.store();
        }
        assert_refused(&store).await;
        assert_eq!(store.re_anchor().await.unwrap().unread, 40);
        world.emit(world.event(Some("a"), 62)).await;
        assert_eq!(numbers(&drain(&store).await), (22..=62).collect::<Vec<_>>());
        assert!(drain(&store).await.is_empty());
    }
}

/// Copies of records that are gone have positions that other records have now.
#[tokio::test]
async fn copies_and_records_of_one_position_are_told_apart() {
    use postrider_core::{Actor, DeadLetters as _, Fate, RecordFilter, Records as _};
    let world = world("native", "").await;
    let store = world.store();
    let dead = |error: &str| Fate::Dead {
        attempts: 1,
        error: error.into(),
    };
    for number in 1..=3 {
        world
            .emit(world.event(Some(&format!("k{number}")), number))
            .await;
    }
    let claim = store.claim(ALL).await.unwrap().unwrap();
    claim
        .settle(&[dead("one"), dead("two"), dead("three")])
        .await
        .unwrap();
    let restart = "TRUNCATE postrider_outbox RESTART IDENTITY";
    world.database.execute(restart).await;
    for number in 4..=6 {
        world
            .emit(world.event(Some(&format!("k{number}")), number))
            .await;
    }
    let first = [postrider_core::RecordId::Int(1)];
    let by = Actor("test".into());
    assert_eq!(store.discard(&first, &by).await.unwrap(), 1);
    assert_eq!(world.database.count("postrider_outbox").await, 3);
    // Those that come now fail too, at positions of others that have failed.
    let claim = store.claim(ALL).await.unwrap().unwrap();
    assert_eq!(claim.records().len(), 3);
    claim
        .settle(&[dead("four"), dead("five"), dead("six")])
        .await
        .unwrap();
    let found = store.find(&RecordFilter::dead(), None, 10).await.unwrap();
    let errors: Vec<_> = found
        .items
        .iter()
        .filter_map(|item| item.error.as_deref())
        .collect();
    assert_eq!(errors, ["two", "three", "four", "five", "six"]);
    let ids: Vec<_> = found.items.iter().map(|item| item.id.clone()).collect();
    assert_eq!(store.resend(&ids, &by).await.unwrap(), 5);
    assert_eq!(numbers(&drain(&store).await), (2..=6).collect::<Vec<_>>());
    assert_eq!(store.re_anchor().await.unwrap().unread, 0);
}

/// Whoever is in doubt may anchor a stream any number of times.
#[tokio::test]
async fn anchoring_again_publishes_nothing_twice() {
    let world = half_read().await;
    let store = world.store();
    assert_eq!(store.re_anchor().await.unwrap().unread, 3);
    assert_eq!(store.re_anchor().await.unwrap().unread, 3, "they still are");
    let mut read = numbers(&drain(&store).await);
    read.sort_unstable();
    assert_eq!(read, [3, 4, 5, 6]);
    for _ in 0..3 {
        assert_eq!(store.re_anchor().await.unwrap().unread, 0);
    }
    world.emit(world.event(Some("a"), 7)).await;
    assert_eq!(store.re_anchor().await.unwrap().unread, 1);
    assert_eq!(numbers(&drain(&store).await), [7]);
    assert_eq!(store.re_anchor().await.unwrap().unread, 0);
    assert!(drain(&store).await.is_empty());
}

/// Positions cannot be trusted, but a copy shows that its record was read.
#[tokio::test]
async fn a_record_that_has_a_copy_counts_as_read() {
    let world = half_read().await;
    let store = world.store();
    world
        .database
        .execute(
            "ALTER SEQUENCE postrider_outbox_position RESTART WITH 3; SELECT nextval('postrider_outbox_position'); \
             UPDATE postrider_outbox_stream SET system = '1'",
        )
        .await;
    assert_refused(&store).await;
    // Of the doubtful ones, 1 and 2 come again and 3 is kept aside.
    assert_eq!(store.re_anchor().await.unwrap().unread, 5);
    let mut read = numbers(&drain(&store).await);
    read.sort_unstable();
    assert_eq!(read, [1, 2, 3, 4, 5, 6]);
}

/// As copies that were restored without the progress that belongs to them.
#[tokio::test]
async fn a_record_that_is_copied_twice_has_one_copy() {
    let world = half_read().await;
    let store = world.store();
    world
        .database
        .execute(
            "UPDATE postrider_outbox_stream SET from_snapshot = '3:3:', from_low = 0, to_snapshot = NULL, position = 0, to_high = 0; \
             UPDATE postrider_outbox_troubles SET attempts = 9, dead = true",
        )
        .await;
    // 4 waits behind the dead record, which is met again and is not revived by it.
    let mut read = numbers(&drain(&store).await);
    read.sort_unstable();
    assert_eq!(read, [1, 2, 5, 6]);
    let kept = "SELECT count(*) FROM postrider_outbox_troubles WHERE dead AND attempts = 9";
    assert_eq!(world.database.number(kept).await, 1);
    assert_eq!(world.database.count("postrider_outbox_troubles").await, 2);
}

/// Rows were copied to another cluster and the sequence was not, as logical replication does it; then the service went on there.
/// What it wrote has positions and transactions of which old progress says that they were read.
#[tokio::test]
async fn what_was_written_with_positions_of_others_is_not_taken_for_read() {
    let world = world("native", "").await;
    let store = world.store();
    for number in 1..=40 {
        world.emit(world.event(Some("a"), number)).await;
    }
    drain(&store).await;
    world
        .database
        .execute(
            "DELETE FROM postrider_outbox WHERE position < 10; \
             ALTER SEQUENCE postrider_outbox_position RESTART; UPDATE postrider_outbox_stream SET system = '1'",
        )
        .await;
    world.emit(world.event(Some("a"), 41)).await;
    // A transaction of a cluster that has had few.
    world
        .database
        .execute("UPDATE postrider_outbox SET xid = '5' WHERE position = 1")
        .await;
    assert_refused(&store).await;
    assert_eq!(store.re_anchor().await.unwrap().unread, 1);
    world.emit(world.event(Some("a"), 42)).await;
    assert_eq!(numbers(&drain(&store).await), [41, 42]);
}

/// A dump is restored into a new cluster, where transactions begin again at a low number, and writers start before
/// anybody looks at the relay.
#[tokio::test]
async fn after_a_dump_and_restore_nothing_is_lost() {
    let world = half_read().await;
    let layout = Layout::preset("native").unwrap();
    let wandering_pool = connect(&world.database.url, 1).unwrap();
    let wandering = PostgresStore::new(wandering_pool.clone(), Options::new(layout.clone()));
    wandering.open().await.unwrap();
    let server = PrivateServer::start(Kind::Postgres).await;
    let target = format!("postgres://postgres@{}/postgres", server.address());
    let mut dump = Command::new("pg_dump")
        .args(["--schema", &world.database.schema, &services().postgres_url])
        .stdout(Stdio::piped())
        .spawn()
        .expect("pg_dump is there");
    let restored = Command::new("psql")
        .args(["-q", "-v", "ON_ERROR_STOP=1", &target])
        .stdin(dump.stdout.take().expect("is piped"))
        .stdout(Stdio::null())
        .status()
        .expect("psql is there");
    assert!(restored.success() && dump.wait().unwrap().success());
    let url = format!("{target}?options=-csearch_path%3D{}", world.database.schema);
    let pool = connect(&url, 4).unwrap();
    let outbox = Outbox::new(layout.clone());
    let mut tx = pool.begin().await.unwrap();
    for event in [world.event(Some("a"), 7), world.event(Some("c"), 8)] {
        outbox.emit(&mut tx, event).await.unwrap();
    }
    tx.commit().await.unwrap();
    let store = PostgresStore::new(pool.clone(), Options::new(layout));
    assert_refused(&store).await;
    // One that was open all along, and whose next connection leads to the new cluster.
    let connection = wandering_pool.acquire().await.unwrap();
    connection.close().await.unwrap();
    wandering_pool.set_connect_options(url.parse().unwrap());
    let refused = wandering.claim(ALL).await.map(drop).unwrap_err();
    let reason = refused.to_string();
    assert!(reason.contains("system identifier"), "{reason}");
    assert_refused(&wandering).await;
    assert_eq!(store.re_anchor().await.unwrap().unread, 5);
    let read = drain(&store).await;
    let of = |key: &str| -> Vec<i64> {
        let of_key = read.iter().filter(|(of, _)| of == key);
        of_key.map(|(_, number)| *number).collect()
    };
    assert_eq!(of("a"), [5, 7]);
    assert_eq!(of("c"), [3, 4, 8]);
    assert_eq!(of("d"), [6]);
    assert!(of("b").is_empty());
    assert!(drain(&store).await.is_empty());
}
