//! What becomes of records that were given up: listed, resent, discarded, and the keys they park.

use std::time::Duration;

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{Actor, DeadLetters as _, Event, OnDead, RecordId, Route, Routes};
use serde_json::json;
use sqlx::Row as _;

use crate::talkie::{TOPIC, event, has_key};
use crate::world::{World, event_ids, is_sample, until_accepted};

/// A2-11: a dead letter is resent and its history stays visible, or purged and gone; nothing else
/// touches it.
#[tokio::test]
async fn a_dead_letter_is_resent_or_purged_by_an_operator_and_by_nobody_else() {
    let mut world = World::new("talkie").await;
    world.max_attempts = 2;
    let (resent, purged, kept) = (event("resent"), event("purged"), event("kept"));
    world
        .emit([resent.clone(), purged.clone(), kept.clone()])
        .await;
    let broker = MemoryBroker::default();
    broker.fail_next(6, Fault::Transient, |_| true);
    let relay = world.relay(broker.clone()).start();
    let dead = world.until_dead(3).await;
    let id_of = |event: &Event| {
        dead.iter()
            .find(|row| row.id.to_string() == event.id.as_str())
            .unwrap()
            .id
            .clone()
    };
    let store = world.store();
    assert_eq!(
        store
            .resend(&[id_of(&resent)], &Actor("me".into()))
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        store
            .discard(&[id_of(&purged)], &Actor("me".into()))
            .await
            .unwrap(),
        1
    );
    until_accepted(&broker, TOPIC, 1).await;
    world.until_drained().await;
    relay.stop().await;

    assert_eq!(event_ids(&broker, TOPIC, "event_id"), [resent.id.as_str()]);
    let row = |event: &Event| {
        format!(
            "SELECT status || ' ' || coalesce(last_error, '') FROM outbox WHERE id = '{}'",
            event.id
        )
    };
    let history = world.text(&row(&resent)).await;
    assert!(history.starts_with("published"), "{history}");
    assert!(
        history.contains("injected transient fault"),
        "its history is gone: {history}"
    );
    assert!(
        history.contains("resent"),
        "nothing says that it was resent: {history}"
    );
    assert!(world.column(&row(&purged)).await.is_empty());
    assert!(world.text(&row(&kept)).await.starts_with("dead_lettered"));
    // What is not dead is neither resent nor purged.
    assert_eq!(
        store
            .resend(&[id_of(&resent)], &Actor("me".into()))
            .await
            .unwrap(),
        0
    );
    assert_eq!(
        store
            .discard(&[id_of(&resent)], &Actor("me".into()))
            .await
            .unwrap(),
        0
    );
    assert_eq!(world.number("SELECT count(*) FROM outbox").await, 2);
}

/// A2-12: the two operational queries run as they are written and find what they should.
#[tokio::test]
async fn the_operational_queries_run_verbatim() {
    let mut world = World::new("talkie").await;
    world.max_attempts = 2;
    let keys = ["published", "failed", "failed-later", "dead"];
    world.emit(keys.map(event)).await;
    let broker = MemoryBroker::default();
    broker.fail_next(1, Fault::Transient, |message| has_key(message, "failed"));
    broker.fail_next(1, Fault::Transient, |message| {
        has_key(message, "failed-later")
    });
    broker.fail_next(1, Fault::Permanent, |message| has_key(message, "dead"));
    let relay = world
        .relay(broker.clone())
        .config(|config| config.retry.backoff.base = Duration::from_secs(60))
        .config(|config| config.retry.backoff.cap = Duration::from_secs(60))
        .start();
    world
        .until_count(
            "all were tried",
            0,
            "SELECT count(*) FROM outbox WHERE status IN ('pending', 'publishing')",
        )
        .await;
    relay.stop().await;
    world
        .execute("UPDATE outbox SET next_attempt_at = now() - interval '1 s' WHERE key = 'failed'")
        .await;
    world.emit([event("pending")]).await;
    world.emit([event("publishing")]).await;
    world.execute("UPDATE outbox SET status = 'publishing', last_attempt_at = now() WHERE key = 'publishing'").await;

    let keys = |rows: Vec<sqlx::postgres::PgRow>| -> Vec<String> {
        rows.iter().map(|row| row.get("key")).collect()
    };
    let troubled = world
        .rows("SELECT * FROM outbox WHERE status IN ('failed', 'dead_lettered') ORDER BY next_attempt_at")
        .await;
    let mut troubled = keys(troubled);
    assert_eq!(troubled[0], "failed");
    troubled.sort();
    assert_eq!(troubled, ["dead", "failed", "failed-later"]);
    let due = world
        .rows("SELECT * FROM outbox WHERE status = 'failed' AND next_attempt_at <= now()")
        .await;
    assert_eq!(keys(due), ["failed"]);
}

/// A resent event is published; nobody else touches a dead one.
#[tokio::test]
async fn a_resent_row_is_published_with_its_attempts_counted_from_zero() {
    for preset in ["packfinderz", "native"] {
        let mut world = World::new(preset).await;
        world.max_attempts = 2;
        let event = world.sample("a");
        world.emit([event.clone()]).await;
        let broker = MemoryBroker::default();
        broker.fail_next(3, Fault::Transient, |_| true);
        let relay = world.relay(broker.clone()).start();
        let dead = world.until_dead(1).await;
        assert_eq!(dead[0].attempts, 2, "{preset}");
        assert_eq!(resend(&world, &dead[0].id).await, 1, "{preset}");
        // It fails once more, and is not dead by that.
        until_accepted(&broker, world.sample_topic(), 1).await;
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(world.sample_ids(&broker), [event.id.as_str()], "{preset}");
        assert!(world.dead().await.is_empty(), "{preset}");
    }
}

async fn resend(world: &World, id: &RecordId) -> u64 {
    let (ids, by) = ([id.clone()], Actor("me".into()));
    world.store().resend(&ids, &by).await.unwrap()
}

/// Layouts with order per key, of both ways to keep what failed.
const BY_KEY: [&str; 2] = ["polyshop", "native"];

/// A world of one key with a dead head and two events behind it, and its relay.
async fn parked(preset: &str, on_dead: OnDead) -> (World, MemoryBroker, crate::world::Running) {
    let mut world = World::new(preset).await;
    world.on_dead = on_dead;
    world
        .emit((1..=3).map(|number| world.numbered_sample("a", number)))
        .await;
    world.emit([world.numbered_sample("b", 1)]).await;
    let broker = MemoryBroker::default();
    broker.fail_next(1, Fault::Permanent, is_sample("a", 1));
    let relay = world.relay(broker.clone()).start();
    world.until_dead(1).await;
    (world, broker, relay)
}

/// P3: a dead record parks its key until it is resent; then the key goes on in order.
#[tokio::test]
async fn a_parked_key_goes_on_in_order_once_its_dead_event_is_resent() {
    for preset in BY_KEY {
        let (world, broker, relay) = parked(preset, OnDead::Park).await;
        let topic = world.sample_topic();
        until_accepted(&broker, topic, 1).await;
        world
            .emit([("b", 2), ("a", 4)].map(|(key, number)| world.numbered_sample(key, number)))
            .await;
        until_accepted(&broker, topic, 2).await;
        assert!(
            world.sample_numbers(&broker, "a").is_empty(),
            "{preset}: a later event of a parked key was sent"
        );
        let dead = world.dead().await;
        assert_eq!(resend(&world, &dead[0].id).await, 1, "{preset}");
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(world.sample_numbers(&broker, "a"), [1, 2, 3, 4], "{preset}");
        assert_eq!(world.sample_numbers(&broker, "b"), [1, 2], "{preset}");
    }
}

/// P3: discarding the dead event frees its key.
#[tokio::test]
async fn a_parked_key_goes_on_without_its_dead_event_once_that_is_discarded() {
    for preset in BY_KEY {
        let (world, broker, relay) = parked(preset, OnDead::Park).await;
        let (dead, by) = (world.dead().await, Actor("me".into()));
        let discarded = world.store().discard(&[dead[0].id.clone()], &by).await;
        assert_eq!(discarded.unwrap(), 1, "{preset}");
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(world.sample_numbers(&broker, "a"), [2, 3], "{preset}");
    }
}

/// With `on_dead = "skip"` a key does not wait for its dead.
#[tokio::test]
async fn with_skip_a_key_goes_on_past_its_dead_event() {
    for preset in BY_KEY {
        let (world, broker, relay) = parked(preset, OnDead::Skip).await;
        world.until_drained().await;
        relay.stop().await;
        assert_eq!(world.sample_numbers(&broker, "a"), [2, 3], "{preset}");
        assert_eq!(world.dead().await.len(), 1, "{preset}");
    }
}

/// An event that the routes refuse parks its key as one that the broker refuses does, within its batch too.
#[tokio::test]
async fn an_event_without_a_valid_payload_parks_its_key_within_its_own_batch() {
    for preset in BY_KEY {
        let world = World::new(preset).await;
        let events = [("a", 1), ("a", 2), ("b", 2)].map(|(key, n)| world.numbered_sample(key, n));
        let event_type = events[0].event_type.clone();
        world.emit(events).await;
        let schema = json!({ "properties": { "number": { "minimum": 2 } } });
        let routes = Routes::new().with(event_type, Route::new().schema(&schema).unwrap());
        let broker = MemoryBroker::default();
        let relay = world.relay(broker.clone()).routes(routes).start();
        let dead = world.until_dead(1).await;
        world.emit([world.numbered_sample("b", 3)]).await;
        until_accepted(&broker, world.sample_topic(), 2).await;
        relay.stop().await;
        assert_eq!(dead[0].key.as_deref(), Some("a"), "{preset}");
        assert!(
            world.sample_numbers(&broker, "a").is_empty(),
            "{preset}: a later event of a parked key was sent"
        );
        assert_eq!(world.sample_numbers(&broker, "b"), [2, 3], "{preset}");
    }
}
