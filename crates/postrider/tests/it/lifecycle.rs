//! How a relay starts, stops, and outlives its servers.

use std::time::{Duration, Instant};

use postrider::Dependency;
use postrider::brokers::memory::MemoryBroker;
use postrider::core::{Message, PublishError, StoreError, Topic};
use postrider::relay::RelayError;
use postrider::stores::postgres::{self, InitOptions, Options, PostgresStore};
use postrider_testkit::eventually;
use postrider_testkit::services::{Kind, PrivateServer};

use crate::packfinderz::{TOPIC, license_event};
use crate::polyshop::numbered;
use crate::witness::{Answering, Silence, SilentOnce, SlowCount};
use crate::world::{World, metric, until_accepted, until_held};

/// A stop that the broker does not let finish ends after `stop_timeout`; what was in flight is released at
/// once and sent by the next relay.
#[tokio::test]
async fn a_stop_that_the_broker_holds_up_ends_at_its_timeout_and_releases_the_rows() {
    for preset in ["packfinderz", "native"] {
        a_stop_ends_at_its_timeout_on(&World::new(preset).await).await;
    }
}

async fn a_stop_ends_at_its_timeout_on(world: &World) {
    world.emit((0..5).map(|_| world.sample("a"))).await;
    let broker = MemoryBroker::default();
    broker.block();
    let plan = world.relay(broker.clone());
    let relay = plan
        .config(|config| config.stop_timeout = Duration::from_millis(300))
        .start();
    until_held(&broker, 1).await;
    let start = Instant::now();
    relay.stop().await;
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );

    broker.release();
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(world.sample_ids(&broker).len(), 5);
}

/// An idle relay stops at once, and so does one that waits for its broker.
#[tokio::test]
async fn a_relay_with_nothing_in_flight_stops_at_once() {
    let world = World::new("packfinderz").await;
    let (idle, down) = (MemoryBroker::default(), MemoryBroker::default());
    let hour = Duration::from_secs(3600);
    let relay = world.relay(idle).config(|config| config.poll_min = hour);
    let relay = relay.config(|config| config.poll_max = hour).start();
    relay.until_ready().await;
    relay.stop().await;

    world.emit([license_event()]).await;
    down.stop();
    let relay = world.relay(down).config(|config| {
        (config.outage_backoff.base, config.outage_backoff.cap) = (hour, hour);
    });
    let relay = relay.start();
    relay.until_metric("postrider_breaker_open", 1.0).await;
    relay.stop().await;
}

/// A table that takes long to count does not hold up a stop.
#[tokio::test]
async fn a_stop_does_not_wait_for_the_backlog_to_be_counted() {
    let world = World::new("packfinderz").await;
    let (store, mut gate) = SlowCount::new(world.store());
    let relay = world.relay(MemoryBroker::default()).store(store).start();
    gate.changed().await.unwrap();
    let start = Instant::now();
    relay.stop().await;
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
}

/// A relay that was stopped before it began takes nothing.
#[tokio::test]
async fn a_relay_that_is_told_to_stop_before_it_starts_claims_nothing() {
    let world = World::new("packfinderz").await;
    world.emit([license_event()]).await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    relay.shutdown.cancel();
    relay.stop().await;
    assert_eq!(broker.accepted(&Topic::from(TOPIC)), 0);
}

async fn start_error(world: &World) -> String {
    let ended = world.relay(MemoryBroker::default()).start().end().await;
    match ended {
        Err(RelayError::Start {
            outbox,
            error: StoreError::Mismatch(reason),
        }) => {
            assert_eq!(outbox, "outbox");
            reason
        }
        other => panic!("{other:?}"),
    }
}

/// A table that does not fit its layout is refused at the start, by column.
#[tokio::test]
async fn a_table_that_does_not_fit_the_layout_is_refused_at_the_start() {
    let world = World::new("packfinderz").await;
    world
        .execute("ALTER TABLE outbox_events DROP COLUMN last_error")
        .await;
    let reason = start_error(&world).await;
    assert!(reason.contains("last_error"), "{reason}");
    world
        .execute("ALTER TABLE outbox_events ADD COLUMN last_error boolean")
        .await;
    let reason = start_error(&world).await;
    assert!(
        reason.contains("last_error") && reason.contains("boolean"),
        "{reason}"
    );
    world.execute("DROP TABLE outbox_events").await;
    let reason = start_error(&world).await;
    assert!(reason.contains("outbox_events"), "{reason}");
}

/// Two layouts share a table's name: each refuses the other's table.
#[tokio::test]
async fn a_layout_refuses_the_table_of_another_layout_with_the_same_name() {
    let mut world = World::new("polyshop").await;
    world.layout = postrider::core::Layout::preset("packfinderz").unwrap();
    let reason = start_error(&world).await;
    assert!(
        reason.contains("payload_json") || reason.contains("published_at"),
        "{reason}"
    );
}

/// A bug in a publisher must not leave a relay that half works.
#[tokio::test]
async fn a_panic_in_a_task_ends_the_relay_with_an_error() {
    let world = World::new("packfinderz").await;
    world.emit([license_event()]).await;
    let broker = Answering(|_: &Message| -> Result<(), PublishError> { panic!("a test's panic") });
    let ended = world.relay(broker).start().end().await;
    assert!(
        matches!(ended, Err(RelayError::Panicked { .. })),
        "{ended:?}"
    );
    assert_eq!(
        world
            .number("SELECT count(*) FROM outbox_events WHERE published_at IS NULL")
            .await,
        1
    );
}

/// Several outboxes of one process, in one registry of metrics, do not touch each other.
#[tokio::test]
async fn several_outboxes_in_one_process_keep_apart() {
    let (shop, pack) = tokio::join!(World::new("polyshop"), World::new("packfinderz"));
    shop.emit([numbered("a", 1), numbered("a", 2)]).await;
    pack.emit([license_event()]).await;
    let (up, down) = (MemoryBroker::default(), MemoryBroker::default());
    down.stop();
    let first = shop.relay(up.clone()).name("shop").start();
    let metrics = first.metrics.clone();
    let second = pack.relay(down).name("pack").metrics(&metrics).start();
    shop.until_drained().await;
    eventually(
        "the other outbox knows of its outage",
        async || match metric(&metrics, "postrider_breaker_open", "pack") {
            1.0 => Ok(()),
            value => Err(value),
        },
    )
    .await;
    assert_eq!(metric(&metrics, "postrider_breaker_open", "shop"), 0.0);
    assert_eq!(metric(&metrics, "postrider_published_total", "shop"), 2.0);
    assert_eq!(metric(&metrics, "postrider_published_total", "pack"), 0.0);
    first.stop().await;
    second.stop().await;
}

/// Two outboxes in one database take lanes and troubles of their own.
#[tokio::test]
async fn two_outboxes_of_one_database_do_not_wait_for_each_others_lanes() {
    let mut world = World::new("polyshop").await;
    let first = world.layout.clone();
    world.layout.table = "other_events".to_owned().try_into().unwrap();
    let init = InitOptions {
        claim_index: true,
        notify: false,
    };
    postgres::init(world.pool(), &world.layout, &init)
        .await
        .unwrap();
    world.emit([numbered("same-key", 1)]).await;
    let blocked = MemoryBroker::default();
    blocked.block();
    let other = world.relay(blocked.clone()).start();
    until_held(&blocked, 1).await;

    // The same key, hence the same lane, in the first table.
    world.layout = first;
    world.emit([numbered("same-key", 1)]).await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    blocked.release();
    other.stop().await;
}

/// A1-06: the database goes away while the relay runs: readiness fails and says why; when it is back,
/// readiness passes and everything is published.
#[tokio::test]
async fn a_relay_outlives_its_database() {
    for preset in ["packfinderz", "native"] {
        outlives_its_database_on(preset).await;
    }
}

async fn outlives_its_database_on(preset: &str) {
    let mut server = PrivateServer::start(Kind::Postgres).await;
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let pool = postgres::connect(&url, 8).unwrap();
    let layout = postrider::core::Layout::preset(preset).unwrap();
    let init = InitOptions {
        claim_index: true,
        notify: false,
    };
    postgres::init(&pool, &layout, &init).await.unwrap();
    let world = World::on(pool, layout);
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    relay.until_ready().await;
    world.emit([world.sample("a")]).await;
    until_accepted(&broker, world.sample_topic(), 1).await;

    server.kill();
    eventually("readiness fails", async || {
        match relay.health.report().database {
            Dependency::NotReady { reason } => Ok(reason),
            Dependency::Ready => Err("ready"),
        }
    })
    .await;
    server.restart().await;
    relay.until_ready().await;
    world.emit([world.sample("b")]).await;
    world.until_drained().await;
    relay.stop().await;
    let sent: std::collections::HashSet<String> = world.sample_ids(&broker).into_iter().collect();
    assert_eq!(sent.len(), 2, "{preset}");
}

/// The server ends the session of a claim while its messages are being sent: they are sent again, and the
/// relay goes on.
#[tokio::test]
async fn a_session_that_is_cut_under_a_claim_costs_a_duplicate_and_nothing_else() {
    for preset in ["packfinderz", "polyshop", "native"] {
        let world = World::new(preset).await;
        world.emit([world.sample("a")]).await;
        let broker = MemoryBroker::default();
        broker.block();
        let relay = world
            .relay(broker.clone())
            .config(|config| config.claims = 1)
            .start();
        until_held(&broker, 1).await;
        // The claim has written to the table's lock, or holds lanes; who only counts does neither.
        let table = world.layout.table.to_string();
        let cut = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM (SELECT DISTINCT pid FROM pg_locks \
             WHERE relation = '{table}'::regclass AND mode = 'RowExclusiveLock' \
             OR locktype = 'advisory' AND classid::int8 = \
               hashtext('postrider ' || '{table}'::regclass::oid::text)::int8 & 4294967295) AS claims"
        );
        assert_eq!(world.number(&cut).await, 1);
        broker.release();
        world.until_drained().await;
        world.emit([world.sample("b")]).await;
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(world.sample_ids(&broker).len(), 3);
        let distinct: std::collections::HashSet<String> =
            world.sample_ids(&broker).into_iter().collect();
        assert_eq!(distinct.len(), 2);
    }
}

/// A database whose host is gone without a word answers neither a claim nor a settle: after a while the relay asks again.
#[tokio::test]
async fn a_database_that_falls_silent_is_asked_again() {
    for when in [Silence::Claim, Silence::Settle] {
        let world = World::new("packfinderz").await;
        world.emit([world.sample("a")]).await;
        let broker = MemoryBroker::default();
        let plan = world
            .relay(broker.clone())
            .store(SilentOnce::new(world.store(), when))
            .config(|config| {
                (config.claims, config.answer_timeout) = (1, Duration::from_millis(200))
            });
        let relay = plan.start();
        world.until_drained().await;
        relay.stop().await;
        let times = if when == Silence::Claim { 1 } else { 2 };
        assert_eq!(world.sample_ids(&broker).len(), times, "{when:?}");
    }
}

/// An unreachable database at the start is no error: the relay waits for it.
#[tokio::test]
async fn a_relay_waits_for_a_database_that_is_not_there_yet() {
    let pool = postgres::connect("postgres://postgres@127.0.0.1:1/none", 2).unwrap();
    let layout = postrider::core::Layout::preset("packfinderz").unwrap();
    let store = PostgresStore::new(pool, Options::new(layout));
    let world = World::new("packfinderz").await;
    let plan = world.relay(MemoryBroker::default()).store(store);
    let relay = plan
        .config(|config| config.stop_timeout = Duration::from_millis(200))
        .start();
    eventually("the reason is told", async || {
        match relay.health.report().database {
            Dependency::NotReady { reason } if reason != "not asked yet" => Ok(()),
            other => Err(other),
        }
    })
    .await;
    relay.stop().await;
}

/// What was emitted while no relay ran is published by the first that does (P1).
#[tokio::test]
async fn events_wait_in_the_table_for_a_relay() {
    for preset in ["packfinderz", "native"] {
        let world = World::new(preset).await;
        let events = ["a", "b", "c"].map(|key| world.sample(key));
        world.emit(events.clone()).await;
        let broker = MemoryBroker::default();
        let relay = world.relay(broker.clone()).start();
        world.until_drained().await;
        relay.stop().await;
        let ids = events.each_ref().map(|event| event.id.as_str());
        assert_eq!(world.sample_ids(&broker), ids, "{preset}");
    }
}
