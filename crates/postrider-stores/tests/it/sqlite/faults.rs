//! Files that are locked, full, damaged, missing or read-only, and processes that are gone.

use std::time::{Duration, Instant};

use postrider_core::{Fate, OutboxStore as _, Share, StoreError, Want};
use postrider_stores::EmitError;
use postrider_stores::sqlite::{Options, SqliteStore, connect};
use postrider_testkit::conformance::store::{Settings, StoreWorld as _};
use postrider_testkit::eventually;
use postrider_testkit::sqlite::{fresh_file, run};

use super::world::world;
use crate::world::layout;

const WANT: Want = Want {
    limit: 10,
    bytes: usize::MAX,
    share: Share::ALL,
};

fn store(url: &str) -> SqliteStore {
    SqliteStore::new(
        connect(url, 2).unwrap(),
        Options::new(layout("polyshop", "")),
    )
}

/// What a store says when it is asked for a claim.
async fn refusal(store: &SqliteStore) -> StoreError {
    match store.claim(WANT).await {
        Ok(_) => panic!("claims"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_file_that_somebody_holds_is_an_outage_and_no_more() {
    let world = world("polyshop", "").await;
    world.insert(Some("a"), 0).await;
    let store = world.relay(Settings::default());
    let mut holder = world.database.database.begin().await.unwrap();
    run(&mut holder, "UPDATE outbox_events SET version = 2").await;
    let started = Instant::now();
    let error = store.claim(WANT).await.err().expect("it is locked");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("write lock"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
    // Readers do not wait for a writer.
    assert_eq!(store.backlog().await.unwrap().pending, 1);
    store.ping().await.unwrap();
    drop(holder);
    let claim = eventually("the lock is free", async || {
        store.claim(WANT).await.ok().flatten().ok_or("locked")
    })
    .await;
    claim.settle(&[Fate::Published]).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_said_to_be_full_and_nothing_is_half_recorded() {
    let world = world("polyshop", "").await;
    let database = &world.database.database;
    let mut tx = database.begin().await.unwrap();
    run(&mut tx, "PRAGMA max_page_count = 30").await;
    let events: Vec<_> = (0..2_000).map(|n| world.event(Some("a"), n)).collect();
    let error = world.outbox.emit_all(&mut tx, &events).await.unwrap_err();
    let EmitError::Database { reason, .. } = &error else {
        panic!("{error}")
    };
    assert!(reason.contains("full"), "{reason}");
    drop(tx);
    assert_eq!(world.database.file.count("outbox_events").await, 0);
    world.insert(Some("a"), 0).await;
}

#[tokio::test]
async fn files_that_are_not_databases_are_refused() {
    let garbage = fresh_file();
    std::fs::write(
        &garbage.path,
        "this is not a database, however long it is".repeat(100),
    )
    .unwrap();
    let error = refusal(&store(&garbage.url)).await;
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("none of SQLite's"), "{error}");

    let empty = fresh_file();
    std::fs::write(&empty.path, "").unwrap();
    let error = refusal(&store(&empty.url)).await;
    assert!(matches!(error, StoreError::Mismatch(_)), "{error}");
    assert!(error.to_string().contains("postrider init"), "{error}");
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_never_a_panic() {
    let world = world("polyshop", "").await;
    for number in 0..500 {
        world.insert(Some("a"), number).await;
    }
    world
        .relay(Settings::default())
        .purge(Duration::MAX, 1)
        .await
        .unwrap();
    let path = &world.database.file.path;
    let mut bytes = std::fs::read(path).unwrap();
    let half = bytes.len() / 2;
    bytes[4096..half].fill(0xaa);
    let damaged = fresh_file();
    std::fs::write(&damaged.path, bytes).unwrap();
    let error = refusal(&store(&damaged.url)).await;
    assert!(!error.to_string().is_empty());
}

#[tokio::test]
async fn a_missing_file_is_not_made_by_looking_at_it() {
    let file = fresh_file();
    let error = refusal(&store(&file.url)).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("postrider init"), "{error}");
    assert!(!file.path.exists());
    let nowhere = "sqlite:/no/such/folder/x.db";
    let error = refusal(&store(nowhere)).await;
    assert!(error.to_string().contains("folder must exist"), "{error}");
}

#[tokio::test]
async fn urls_that_cannot_work_are_refused_at_once() {
    for url in [
        "sqlite::memory:",
        "sqlite:x.db?mode=memory",
        "sqlite:x.db?synchronous=off",
        "sqlite:x.db?nonsense=1",
        "sqlite:",
    ] {
        let error = connect(url, 1).expect_err(url);
        assert!(
            matches!(error, StoreError::Refused { .. }),
            "{url}: {error}"
        );
    }
    connect("sqlite:x.db?synchronous=normal", 1).unwrap();
}

#[tokio::test]
async fn a_file_that_may_only_be_read_gives_one_clear_error() {
    let world = world("polyshop", "").await;
    world.insert(Some("a"), 0).await;
    let url = format!("{}?mode=ro", world.database.file.url);
    let error = refusal(&store(&url)).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("must be writable"), "{error}");
    assert_eq!(store(&url).backlog().await.unwrap().pending, 1);
}

/// A claim as a process that is not this one has written it down.
async fn foreign_claim(world: &crate::world::World<super::world::File>, process: &str, until: i64) {
    let lanes: Vec<u32> = (0..32).collect();
    let sql = format!(
        "INSERT INTO postrider_claims VALUES ('t-{process}', 'outbox_events', '{process}', {until}, '{lanes:?}')"
    );
    world.database.file.execute(&sql).await;
}

const FAR: i64 = 9_000_000_000_000_000;

#[tokio::test]
async fn a_claim_of_a_process_that_is_gone_is_free_at_once() {
    let world = world("polyshop", "").await;
    world.insert(Some("a"), 0).await;
    let lock = |process: &str| {
        let mut path = world.database.file.path.clone().into_os_string();
        path.push(format!("-postrider-{process}"));
        path
    };
    foreign_claim(&world, "unknown", FAR).await;
    let store = world.relay(Settings::default());
    assert!(
        store.claim(WANT).await.unwrap().is_none(),
        "nothing proves that it is gone"
    );
    let held = std::fs::File::create(lock("unknown")).unwrap();
    held.lock().unwrap();
    assert!(store.claim(WANT).await.unwrap().is_none(), "it lives");
    drop(held);
    let claim = store.claim(WANT).await.unwrap().expect("it is gone");
    claim.settle(&[Fate::Published]).await.unwrap();
    assert_eq!(world.database.file.count("postrider_claims").await, 0);
}

#[tokio::test]
async fn a_claim_whose_time_is_over_settles_nothing_once_another_took_over() {
    let world = world("polyshop", "").await;
    let id = world.insert(Some("a"), 0).await;
    let slow = world.relay(Settings::default());
    let late = slow.claim(WANT).await.unwrap().expect("a record");
    let over = "UPDATE postrider_claims SET until = 1";
    world.database.file.execute(over).await;
    let store = world.relay(Settings::default());
    let claim = store.claim(WANT).await.unwrap().expect("it is over");
    let settled = late.settle(&[Fate::Published]).await.unwrap();
    assert_eq!(settled.lapsed, 1);
    let seen = world.look(&id).await;
    assert_eq!(
        seen.state,
        postrider_testkit::conformance::store::State::Pending
    );
    claim.settle(&[Fate::Published]).await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_beside_the_file_when_the_last_store_is_gone() {
    let world = world("polyshop", "").await;
    world.insert(Some("a"), 0).await;
    let locks = || {
        let folder = world.database.file.path.parent().unwrap();
        let names = std::fs::read_dir(folder).unwrap().flatten();
        names
            .filter(|entry| entry.file_name().to_string_lossy().contains("-postrider-"))
            .count()
    };
    let store = store(&world.database.file.url);
    let claim = store.claim(WANT).await.unwrap().expect("a record");
    assert_eq!(locks(), 1);
    drop((claim, store));
    assert_eq!(locks(), 0);
}
