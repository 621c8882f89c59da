//! How often the relay asks: idle, busy, and while the broker is down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider::brokers::memory::MemoryBroker;
use postrider::core::{Backoff, Message, PublishError};
use postrider::relay::{Config, Tempo};
use postrider_testkit::eventually;
use tokio::sync::Notify;

use crate::packfinderz::{TOPIC, license_event};
use crate::witness::{
    Answering, Asked, Call, CallKind, HangingOnce, NotedPublisher, NotedStore, Notes,
};
use crate::world::{World, until_accepted};

/// How late a timer may be on a busy machine.
const LATE: Duration = Duration::from_millis(400);

async fn until_noted<T: Clone>(notes: &Notes<T>, count: usize) -> Vec<T> {
    eventually("enough was seen", async || {
        if notes.count() >= count {
            Ok(())
        } else {
            Err(notes.count())
        }
    })
    .await;
    notes.all()
}

/// From an answer to the next question.
fn waits(asked: &[Asked]) -> Vec<Duration> {
    asked
        .windows(2)
        .map(|pair| pair[1].at - pair[0].answered)
        .collect()
}

/// A1-12: on an empty table the waits between polls lie within 250 to 1000 ms, grow, and differ from relay
/// to relay.
#[tokio::test]
async fn idle_polls_are_250_to_1000_ms_apart_with_jitter() {
    let world = World::new("packfinderz").await;
    // As the layout's own settings have it, or slower.
    let (poll_min, poll_max) = (Duration::from_millis(250), Duration::from_secs(1));
    let mut relays = Vec::new();
    let mut notes = Vec::new();
    for _ in 0..6 {
        let (store, asked) = NotedStore::new(world.store());
        notes.push(asked);
        let plan = world
            .relay(MemoryBroker::default())
            .store(store)
            .config(|config| {
                *config = Config {
                    claims: 1,
                    poll_min,
                    poll_max,
                    ordering: config.ordering,
                    ..Config::default()
                };
            });
        relays.push(plan.start());
    }
    let mut second_waits = Vec::new();
    for asked in &notes {
        let waits = waits(&until_noted(asked, 10).await);
        for wait in &waits {
            assert!(*wait >= poll_min && *wait <= poll_max + LATE, "{waits:?}");
        }
        assert!(waits[8] > waits[0], "idle waits do not grow: {waits:?}");
        second_waits.push(waits[6]);
    }
    let spread = *second_waits.iter().max().unwrap() - *second_waits.iter().min().unwrap();
    assert!(
        spread > Duration::from_millis(10),
        "no jitter: {second_waits:?}"
    );
    for relay in relays {
        relay.stop().await;
    }
}

/// The waits between tries to reach the broker, from the first publish that failed.
fn tries(calls: &[Call]) -> Vec<Duration> {
    let first = calls
        .iter()
        .position(|call| matches!(call.kind, CallKind::Publish(_)));
    let tries = &calls[first.unwrap()..];
    tries
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .collect()
}

fn assert_grows_to(waits: &[Duration], backoff: Backoff) {
    for (n, wait) in (1_u32..).zip(waits) {
        // The delay's own jitter takes up to a fifth away.
        let least = backoff.delay(n, 1.0);
        assert!(
            *wait >= least,
            "wait {n} is {wait:?}, less than {least:?}: {waits:?}"
        );
        assert!(
            *wait <= backoff.cap + LATE,
            "wait {n} is over the cap: {waits:?}"
        );
    }
}

/// A1-12: with the broker away the waits between tries double up to a cap, which is 10 s unless it is
/// set otherwise.
#[tokio::test]
async fn tries_during_an_outage_grow_apart_up_to_the_cap() {
    let defaults = Config::default().outage_backoff;
    assert_eq!(
        (defaults.base, defaults.cap),
        (Duration::from_millis(250), Duration::from_secs(10))
    );
    let world = World::new("packfinderz").await;
    let broker = MemoryBroker::default();
    let (publisher, calls) = NotedPublisher::new(broker.clone());
    let backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(800));
    let relay = world
        .relay(publisher)
        // A second one might still send what the first has just released.
        .config(|config| config.claims = 1)
        .config(|config| config.outage_backoff = backoff)
        // The probe pings too; it has its own pace.
        .config(|config| config.probe_every = Duration::from_secs(3600))
        .start();
    relay.until_ready().await;
    broker.stop();
    world.emit([license_event()]).await;
    // The probe's ping, the publish that fails, and tries after 50, 100, 200, 400, 800 and 800 ms.
    let calls = until_noted(&calls, 8).await;
    assert_grows_to(&tries(&calls), backoff);
    broker.start();
    world.until_drained().await;
    relay.stop().await;
}

/// A broker may answer pings and take nothing. Neither may that make the tries dense: the waits grow, whichever
/// worker tries.
#[tokio::test(flavor = "multi_thread")]
async fn tries_grow_apart_too_when_the_broker_answers_pings_and_takes_nothing() {
    let world = World::with("packfinderz", |layout| {
        layout.ordering = postrider::core::Ordering::Key;
    })
    .await;
    world.emit([license_event()]).await;
    let refusing = Answering(|_: &Message| {
        Err(PublishError::Unavailable {
            reason: "no leader".into(),
            source: None,
        })
    });
    let (publisher, calls) = NotedPublisher::new(refusing);
    let backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(800));
    // One of these workers has the event's lane, the others have nothing to send.
    let relay = world
        .relay(publisher)
        .config(|config| config.claims = 4)
        .config(|config| config.outage_backoff = backoff)
        .config(|config| config.probe_every = Duration::from_secs(3600))
        .start();
    let published = || {
        let calls = calls.all().into_iter();
        calls
            .filter(|call| matches!(call.kind, CallKind::Publish(_)))
            .collect::<Vec<_>>()
    };
    let sends = eventually("the broker was tried six times", async || {
        let sends = published();
        if sends.len() >= 6 {
            Ok(sends)
        } else {
            Err(sends.len())
        }
    })
    .await;
    relay.stop().await;
    let waits: Vec<Duration> = sends
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .collect();
    assert_grows_to(&waits[..5], backoff);
    assert_eq!(
        world
            .number("SELECT sum(attempt_count) FROM outbox_events")
            .await,
        0
    );
}

/// A ping that is never answered is an outage too: the relay does not wait for it for ever.
#[tokio::test]
async fn a_ping_that_hangs_does_not_keep_the_relay_from_trying_again() {
    let world = World::new("packfinderz").await;
    let broker = MemoryBroker::default();
    let (publisher, pings) = HangingOnce::new(broker.clone());
    let relay = world
        .relay(publisher)
        .config(|config| config.claims = 1)
        .config(|config| config.probe_every = Duration::from_secs(3600))
        .start();
    relay.until_ready().await;
    broker.stop();
    world.emit([license_event()]).await;
    until_noted(&pings, 2).await;
    broker.start();
    until_accepted(&broker, TOPIC, 1).await;
    relay.stop().await;
}

/// A full batch is followed by the next at once: a wait per batch would cap the throughput.
#[tokio::test]
async fn a_backlog_is_drained_without_a_wait_between_batches() {
    let world = World::new("packfinderz").await;
    world.emit((0..100).map(|_| license_event())).await;
    let broker = MemoryBroker::default();
    let relay = world
        .relay(broker.clone())
        .config(|config| {
            (config.poll_min, config.poll_max) = (Duration::from_secs(60), Duration::from_secs(60))
        })
        .config(|config| config.batch = 5)
        .start();
    until_accepted(&broker, TOPIC, 100).await;
    // A stop does not wait for the poll interval either.
    let start = Instant::now();
    relay.stop().await;
    assert!(start.elapsed() < Duration::from_secs(10));
}

/// A hint from the same process or from LISTEN cuts the wait short.
#[tokio::test]
async fn a_hint_wakes_an_idle_relay_long_before_its_next_poll() {
    let world = World::new("packfinderz").await;
    let broker = MemoryBroker::default();
    let wake = Arc::new(Notify::new());
    let (store, asked) = NotedStore::new(world.store());
    let relay = world
        .relay(broker.clone())
        .store(store)
        .wake(&wake)
        .config(|config| {
            (config.poll_min, config.poll_max) = (Duration::from_secs(60), Duration::from_secs(60))
        })
        .start();
    until_noted(&asked, 1).await;
    world.emit([license_event()]).await;
    wake.notify_waiters();
    until_accepted(&broker, TOPIC, 1).await;
    relay.stop().await;
}

/// Records that are let go untouched must not turn the relay into a hot loop.
#[tokio::test]
async fn records_that_are_only_released_are_asked_for_at_the_idle_pace() {
    let world = World::new("packfinderz").await;
    world.emit((0..3).map(|_| license_event())).await;
    let (store, asked) = NotedStore::new(world.store());
    let relay = world
        .relay(Answering(|_: &Message| Err(PublishError::Untried)))
        .store(store)
        .config(|config| config.claims = 1)
        .config(|config| {
            (config.poll_min, config.poll_max) =
                (Duration::from_millis(100), Duration::from_millis(200))
        })
        .start();
    let asked = until_noted(&asked, 6).await;
    relay.stop().await;
    assert!(asked.iter().all(|asked| asked.records.len() == 3));
    let waits = waits(&asked);
    assert!(
        waits.iter().all(|wait| *wait >= Duration::from_millis(100)),
        "{waits:?}"
    );
    assert_eq!(
        world
            .number("SELECT sum(attempt_count) FROM outbox_events")
            .await,
        0
    );
}

/// What waits for a part of the broker must not turn the relay into a hot loop, once there is no more of it, and has no line each in the
/// log.
#[tokio::test]
async fn records_that_only_wait_for_a_part_are_asked_for_at_the_idle_pace() {
    let (lines, _guard) = crate::logs::capture("warn");
    let world = World::new("talkie").await;
    world.emit((0..8).map(|_| world.sample("a"))).await;
    let (store, asked) = NotedStore::new(world.store());
    let part_down = |_: &Message| {
        Err(PublishError::PartUnavailable {
            part: "topic samples".into(),
            reason: "it does not exist".into(),
            retry_after: Duration::ZERO,
        })
    };
    let relay = world
        .relay(Answering(part_down))
        .store(store)
        .config(|config| (config.claims, config.batch) = (1, 10))
        .config(|config| {
            (config.poll_min, config.poll_max) =
                (Duration::from_millis(100), Duration::from_millis(200))
        })
        .start();
    let asked = until_noted(&asked, 6).await;
    let report = relay.health.report();
    assert_eq!(relay.metric("postrider_breaker_open"), 0.0);
    relay.stop().await;
    assert!(asked.iter().all(|asked| asked.records.len() <= 10));
    let waits = waits(&asked);
    assert!(
        waits.iter().all(|wait| *wait >= Duration::from_millis(100)),
        "{waits:?}"
    );
    assert_eq!(world.number("SELECT sum(retry_count) FROM outbox").await, 0);
    assert!(report.is_ready(), "{report:?}");
    assert_eq!(
        report.parts,
        ["topic samples takes no writes: it does not exist"]
    );
    assert_eq!(lines.read(), Vec::<serde_json::Value>::new());
}

/// S2-33: batch and interval of a relay that runs are changed: the worker that waits is woken, and claims are of the
/// new size.
#[tokio::test]
async fn batch_and_interval_change_while_the_relay_runs() {
    let world = World::new("packfinderz").await;
    world.insert_licenses(8).await;
    let (store, asked) = NotedStore::new(world.store());
    let hour = Duration::from_secs(3600);
    let relay = world
        .relay(MemoryBroker::default())
        .store(store)
        .config(|config| (config.claims, config.batch) = (1, 4))
        .config(|config| (config.poll_min, config.poll_max) = (hour, hour))
        .start();
    let sizes = |asked: &[Asked]| asked.iter().map(|a| a.records.len()).collect::<Vec<_>>();
    assert_eq!(sizes(&until_noted(&asked, 3).await), [4, 4, 0]);

    world.insert_licenses(6).await;
    let quick = Tempo {
        batch: 2,
        batch_bytes: 1 << 20,
        poll_min: Duration::from_millis(10),
        poll_max: Duration::from_millis(20),
    };
    assert_eq!(relay.dial.set(quick), quick);
    let asked = until_noted(&asked, 7).await;
    relay.stop().await;
    assert_eq!(sizes(&asked)[3..7], [2, 2, 2, 0]);
}
