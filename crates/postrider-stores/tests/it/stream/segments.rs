//! Segments: what is emptied, when, and whom it keeps waiting.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postrider_core::{Fate, OutboxStore as _, Purge as _, Want};
use postrider_testkit::eventually;
use tokio::time::timeout;

use super::{ALL, drain, numbers};
use crate::world::{World, world};

const SEGMENT: i64 = 1 << 32;

/// Makes all records look as old as an hour.
async fn age(world: &World) {
    world
        .database
        .execute("UPDATE postrider_outbox SET created_at = created_at - interval '1 hour'")
        .await;
}

async fn last_position(world: &World) -> i64 {
    world
        .database
        .number("SELECT last_value FROM postrider_outbox_position")
        .await
}

#[tokio::test]
async fn a_segment_goes_when_it_is_old_and_read_and_not_before() {
    let world = world("native", "").await;
    let store = world.store();
    world.emit(world.event(Some("a"), 1)).await;
    let keep = Duration::from_secs(600);
    assert_eq!(store.purge(keep, 10).await.unwrap(), 0, "it is young");
    assert!(last_position(&world).await < SEGMENT);
    age(&world).await;
    assert_eq!(store.purge(keep, 10).await.unwrap(), 0, "it is not read");
    assert_eq!(last_position(&world).await, SEGMENT, "but it has ended");
    world.emit(world.event(Some("a"), 2)).await;
    let claim = store.claim(ALL).await.unwrap().unwrap();
    assert_eq!(claim.records().len(), 2, "segments are read as one");
    assert_eq!(store.purge(keep, 10).await.unwrap(), 0, "it is in flight");
    claim
        .settle(&[Fate::Published, Fate::Released])
        .await
        .unwrap();
    assert_eq!(
        store.purge(keep, 10).await.unwrap(),
        0,
        "its difference is not done"
    );
    assert_eq!(numbers(&drain(&store).await), [2]);
    assert_eq!(store.purge(keep, 10).await.unwrap(), 1);
    assert_eq!(world.database.count("postrider_outbox").await, 1);
    assert_eq!(store.purge(keep, 10).await.unwrap(), 0);
}

/// Whoever counts, looks, or sends again sees one outbox, however many segments there are.
#[tokio::test]
async fn records_of_several_segments_are_counted_and_read_as_one() {
    use postrider_core::{RecordFilter, RecordState, Records as _};
    let world = world("native", "").await;
    let store = world.store();
    for number in 1..=3 {
        world.emit(world.event(Some("a"), number)).await;
        age(&world).await;
        store.purge(Duration::from_secs(600), 10).await.unwrap();
        assert!(last_position(&world).await >= SEGMENT * i64::from(number));
    }
    assert_eq!(store.backlog().await.unwrap().pending, 3);
    assert_eq!(numbers(&drain(&store).await), [1, 2, 3]);
    assert_eq!(store.backlog().await.unwrap().pending, 0);
    let published = RecordFilter::in_state(RecordState::Published);
    assert_eq!(store.count(&published).await.unwrap(), 3);
    let mut read = Vec::new();
    let mut from = None;
    loop {
        // A page per segment and one more.
        let page = store.read(&published, from.as_ref(), 1).await.unwrap();
        read.extend(page.items.iter().map(super::seen));
        match page.next {
            Some(next) => from = Some(next),
            None => break,
        }
    }
    assert_eq!(numbers(&read), [1, 2, 3]);
}

#[tokio::test]
async fn what_failed_outlives_its_segment() {
    let world = world("native", "").await;
    let store = world.store();
    world.emit(world.event(Some("a"), 1)).await;
    let claim = store.claim(ALL).await.unwrap().unwrap();
    let dead = Fate::Dead {
        attempts: 1,
        error: "never".into(),
    };
    claim.settle(&[dead]).await.unwrap();
    age(&world).await;
    store.purge(Duration::from_secs(60), 10).await.unwrap();
    assert_eq!(store.purge(Duration::from_secs(60), 10).await.unwrap(), 0);
    assert_eq!(world.database.count("postrider_outbox").await, 0);
    assert_eq!(store.backlog().await.unwrap().dead, 1);
    use postrider_core::{Actor, DeadLetters as _, RecordFilter, Records as _};
    let found = store.find(&RecordFilter::dead(), None, 10).await.unwrap();
    assert_eq!(found.items.len(), 1);
    let ids = [found.items[0].id.clone()];
    assert_eq!(store.resend(&ids, &Actor("test".into())).await.unwrap(), 1);
    assert_eq!(numbers(&drain(&store).await), [1]);
}

/// Ten times round the partitions.
#[tokio::test]
async fn segments_follow_each_other_for_ever() {
    let world = world("native", "").await;
    let store = world.store();
    for round in 0..24 {
        world.emit(world.event(Some("a"), round)).await;
        assert_eq!(numbers(&drain(&store).await), [i64::from(round)]);
        store.purge(Duration::ZERO, 10).await.unwrap();
    }
    assert_eq!(last_position(&world).await, 24 * SEGMENT);
    store.purge(Duration::ZERO, 10).await.unwrap();
    assert_eq!(world.database.count("postrider_outbox").await, 0);
}

/// A partition that still holds records is not begun anew.
#[tokio::test]
async fn a_segment_does_not_end_before_there_is_room_for_the_next() {
    let world = world("native", "").await;
    let store = world.store();
    for round in 0..20 {
        world.emit(world.event(Some("a"), round)).await;
        store.purge(Duration::ZERO, 10).await.unwrap();
    }
    assert!(
        last_position(&world).await < 8 * SEGMENT,
        "nothing was read, so nothing went"
    );
    assert_eq!(numbers(&drain(&store).await), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn somebody_who_reads_a_segment_is_not_waited_for() {
    let world = world("native", "").await;
    let store = world.store();
    world.emit(world.event(Some("a"), 1)).await;
    drain(&store).await;
    let mut reader = world.database.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM postrider_outbox")
        .execute(&mut *reader)
        .await
        .unwrap();
    // The reader reads on and on, so whoever waits for it waits for ever.
    let cleaned = timeout(Duration::from_secs(30), store.purge(Duration::ZERO, 10)).await;
    assert_eq!(cleaned.expect("it does not wait").unwrap(), 0);
    reader.rollback().await.unwrap();
    assert_eq!(store.purge(Duration::ZERO, 10).await.unwrap(), 1);
}

/// S3: to find out whether a segment may go takes as long as it takes, and keeps nobody from reading.
#[tokio::test(flavor = "multi_thread")]
async fn a_segment_is_closed_to_readers_only_once_it_is_known_to_be_over() {
    const RECORDS: u32 = 60_000;
    let world = world("native", "").await;
    let (store, pool) = (world.store(), &world.database.pool);
    // Because of this one every record is looked at.
    let mut held = pool.begin().await.unwrap();
    let number = sqlx::query("SELECT pg_current_xact_id()");
    number.execute(&mut *held).await.unwrap();
    let insert = "INSERT INTO postrider_outbox (topic, type, key, payload) \
                  SELECT 't', 't', 'k' || n, '{}' FROM generate_series(1, 60000) AS n";
    world.database.execute(insert).await;
    let all = Want {
        limit: RECORDS,
        ..ALL
    };
    while let Some(claim) = store.claim(all).await.unwrap() {
        let published = vec![Fate::Published; claim.records().len()];
        claim.settle(&published).await.unwrap();
    }
    let sample = "SELECT DISTINCT l.mode FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) \
                  WHERE l.relation = 'postrider_outbox_0'::regclass AND l.granted \
                  AND l.mode IN ('ShareLock', 'AccessExclusiveLock') AND a.query LIKE 'SELECT coalesce%'";
    let cleaning = AtomicBool::new(true);
    let clean = async {
        let gone = store.purge(Duration::ZERO, 10).await.unwrap();
        cleaning.store(false, Ordering::Release);
        gone
    };
    let watch = async {
        let mut seen = BTreeSet::new();
        while cleaning.load(Ordering::Acquire) {
            seen.extend(world.database.texts(sample).await.into_iter().flatten());
        }
        seen
    };
    let (gone, seen) = tokio::join!(clean, watch);
    assert_eq!(gone, u64::from(RECORDS));
    assert_eq!(seen, BTreeSet::from(["ShareLock".to_owned()]));
    held.rollback().await.unwrap();
}

/// Claims, writers and cleaners at once: nothing is lost, and no writer waits for a cleaner.
#[tokio::test(flavor = "multi_thread")]
async fn cleaning_up_keeps_no_writer_waiting() {
    const WRITERS: u32 = 3;
    const EACH: u32 = 150;
    let world = world("native", "").await;
    let writing = AtomicBool::new(true);
    let write = async |writer: u32| {
        let mut slowest = Duration::ZERO;
        for number in 0..EACH {
            let started = Instant::now();
            // Not `world.emit`, which looks the record up: it may be gone by then.
            let event = world.event(Some(&format!("w{writer}")), number);
            let mut tx = world.database.pool.begin().await.unwrap();
            world.outbox.emit(&mut tx, event).await.unwrap();
            tx.commit().await.unwrap();
            slowest = slowest.max(started.elapsed());
        }
        slowest
    };
    let writers = async {
        let slowest = futures::future::join_all((0..WRITERS).map(&write)).await;
        writing.store(false, Ordering::Release);
        slowest.into_iter().max().unwrap()
    };
    let clean = async || {
        let store = world.store();
        let mut gone = 0;
        while writing.load(Ordering::Acquire) {
            gone += store.purge(Duration::ZERO, 10).await.unwrap();
        }
        gone
    };
    let read = async {
        let store = world.store();
        let mut seen = Vec::new();
        while writing.load(Ordering::Acquire) {
            seen.extend(drain(&store).await);
        }
        seen.extend(drain(&store).await);
        seen
    };
    let (slowest, one, other, seen) = tokio::join!(writers, clean(), clean(), read);
    println!(
        "emptied {} records, slowest insert {slowest:?}",
        one + other
    );
    assert!(
        one + other > 0,
        "nothing was emptied: the test tests nothing"
    );
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    for writer in 0..WRITERS {
        let key = format!("w{writer}");
        let of_key = seen
            .iter()
            .filter(|(of, _)| *of == key)
            .map(|(_, number)| *number);
        assert_eq!(
            of_key.collect::<Vec<_>>(),
            (0..i64::from(EACH)).collect::<Vec<_>>()
        );
    }
    let store = world.store();
    eventually("the last segment goes", async || {
        store.purge(Duration::ZERO, 10).await.unwrap();
        match world.database.count("postrider_outbox").await {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await;
}
