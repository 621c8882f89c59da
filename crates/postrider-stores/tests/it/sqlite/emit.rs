//! Recording events in SQLite files.

use std::time::{Duration, Instant};

use postrider_core::{Emitted, Event, Purge as _, Share, Want};
use postrider_stores::EmitError;
use postrider_stores::sqlite::{InitOptions, LOG_BYTES_MAX, connect, init};
use postrider_testkit::conformance::store::StoreWorld as _;
use postrider_testkit::sqlite::{fresh_file, run};

use super::world::world;
use crate::world::layout;

const PRESETS: [&str; 5] = ["packfinderz", "talkie", "polyshop", "gopipe", "debezium"];
const WANT: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

#[tokio::test]
async fn an_event_is_recorded_with_its_transaction_or_not_at_all() {
    for preset in PRESETS {
        let world = world(preset, "").await;
        let table = world.layout.table.quoted();
        let database = &world.database.database;
        for (commits, expected) in [(false, 0), (true, 1)] {
            let mut tx = database.begin().await.unwrap();
            let event = world.event(Some("a"), 1);
            let emitted = world.outbox.emit(&mut tx, event).await.unwrap();
            assert_eq!(emitted, Emitted::Recorded, "{preset}");
            if commits {
                database.commit(tx).await.unwrap();
            } else {
                drop(tx);
            }
            let count = world.database.file.count(&table).await;
            assert_eq!(count, expected, "{preset}");
        }
    }
}

#[tokio::test]
async fn an_event_that_is_there_already_is_a_duplicate_and_spoils_nothing() {
    for preset in PRESETS {
        let world = world(preset, "").await;
        if world.layout.columns.event_id.is_none() {
            continue; // Its table has nothing that tells events apart.
        }
        let (one, two) = (world.event(Some("a"), 1), world.event(Some("a"), 2));
        let database = &world.database.database;
        let mut tx = database.begin().await.unwrap();
        let events = [one.clone(), two.clone(), one.clone()];
        let emitted = world.outbox.emit_all(&mut tx, &events).await.unwrap();
        let expected = [Emitted::Recorded, Emitted::Recorded, Emitted::Duplicate];
        assert_eq!(emitted, expected, "{preset}");
        assert_eq!(
            world.outbox.emit(&mut tx, two).await.unwrap(),
            Emitted::Duplicate
        );
        database.commit(tx).await.unwrap();
        let table = world.layout.table.quoted();
        assert_eq!(world.database.file.count(&table).await, 2);
    }
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_the_transaction_goes_on() {
    let world = world("polyshop", "").await;
    let database = &world.database.database;
    let mut tx = database.begin().await.unwrap();
    let good = world.event(Some("a"), 1);
    let bad = Event {
        payload: b"{ no json".to_vec(),
        ..world.event(Some("a"), 2)
    };
    let error = world.outbox.emit_all(&mut tx, &[good.clone(), bad]).await;
    let error = error.unwrap_err();
    assert!(matches!(error, EmitError::Unfit { .. }), "{error}");
    world.outbox.emit(&mut tx, good).await.unwrap();
    database.commit(tx).await.unwrap();
    assert_eq!(world.database.file.count("outbox_events").await, 1);
}

#[tokio::test]
async fn payload_bytes_come_back_as_they_were() {
    for payload in ["1.0", "  {\"a\": 1e400}  ", "\"\\u0000\"", "1e3", "null"] {
        let world = world("polyshop", "").await;
        let event = Event {
            payload: payload.as_bytes().to_vec(),
            ..world.event(Some("a"), 1)
        };
        world.emit(event).await;
        let claim = world.relay(Default::default()).claim(WANT).await.unwrap();
        let claim = claim.expect("a record");
        let bytes = claim.records()[0].payload.as_deref().unwrap();
        assert_eq!(bytes, payload.as_bytes());
    }
}

/// A clock that was set back, or read before the lock was had, sorts nothing before what is there.
#[tokio::test]
async fn a_later_event_is_never_earlier_than_one_that_waits() {
    let world = world("debezium", "").await;
    let first = world.insert(Some("a"), 1).await;
    let ahead = "UPDATE outbox SET created_at = created_at + 3600000000";
    world.database.file.execute(ahead).await;
    let second = world.insert(Some("a"), 2).await;
    let claim = world.relay(Default::default()).claim(WANT).await.unwrap();
    let claim = claim.expect("records");
    let ids: Vec<_> = claim.records().iter().map(|record| &record.id).collect();
    assert_eq!(ids, [&first, &second]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_once_by_any_number_at_once() {
    for preset in PRESETS {
        let file = fresh_file();
        let layout = layout(preset, "");
        let options = InitOptions { claim_index: true };
        let inits = (0..6).map(|_| {
            let (url, layout) = (file.url.clone(), layout.clone());
            async move { init(&connect(&url, 1).unwrap(), &layout, &options).await }
        });
        for done in futures::future::join_all(inits).await {
            done.unwrap();
        }
        assert_eq!(file.text("PRAGMA journal_mode").await.unwrap(), "wal");
    }
}

#[tokio::test]
async fn a_commit_wakes_who_listens() {
    let world = world("polyshop", "").await;
    let store = super::world::store(&world);
    let wake = store.listen();
    // It wakes when it begins, since it does not know what came before.
    wake.woken().await;
    let started = Instant::now();
    world.insert(Some("a"), 1).await;
    tokio::time::timeout(Duration::from_secs(10), wake.woken())
        .await
        .expect("wakes");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn the_log_is_cut_back() {
    let world = world("polyshop", "").await;
    let database = &world.database.database;
    let mut log = world.database.file.path.clone().into_os_string();
    log.push("-wal");
    let mut largest = 0;
    for _ in 0..30 {
        let mut tx = database.begin().await.unwrap();
        let events: Vec<Event> = (0..200)
            .map(|n| Event {
                payload: format!("\"{}\"", "x".repeat(5_000)).into_bytes(),
                ..world.event(Some("a"), n)
            })
            .collect();
        world.outbox.emit_all(&mut tx, &events).await.unwrap();
        database.commit(tx).await.unwrap();
        largest = largest.max(std::fs::metadata(&log).unwrap().len());
    }
    assert!(largest < LOG_BYTES_MAX, "{largest}");
    let store = super::world::store(&world);
    store.purge(Duration::ZERO, 1).await.unwrap();
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0);
    run(&mut database.begin().await.unwrap(), "SELECT 1").await;
}
