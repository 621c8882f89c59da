//! PackFinderz: `outbox_events` with state in `published_at`, the envelope written at emit, Pub/Sub.

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::text::ERROR_BYTES_MAX;
use postrider::core::{Event, Route, Routes, StoredRecord, Topic};
use serde_json::{Value, json};
use sqlx::Row as _;
use uuid::Uuid;

use crate::world::{World, event_ids, header, until_accepted};

pub(crate) const TOPIC: &str = "pf-domain-events";

/// A licence that was approved.
pub(crate) fn license_event() -> Event {
    let license = Uuid::now_v7();
    let data = json!({ "licenseId": license, "storeId": Uuid::now_v7(), "status": "verified" });
    Event::json("license_status_changed", &data)
        .unwrap()
        .aggregate("license", license.to_string())
}

pub(crate) fn is_event(message: &postrider::core::Message, id: &str) -> bool {
    header(message, "event_id") == Some(id)
}

/// The part of the catalogue that these tests need.
fn catalogue() -> Routes {
    let license = json!({
        "type": "object",
        "required": ["licenseId", "storeId", "status"],
        "properties": { "status": { "enum": ["pending", "verified", "rejected"] } },
    });
    let license = Route::new()
        .aggregate_type("license")
        .schema(&license)
        .unwrap();
    Routes::new()
        .with("license_status_changed", license.topic(TOPIC))
        .with(
            "order_created",
            Route::new().topic(TOPIC).aggregate_type("vendor_order"),
        )
}

async fn world_with_licenses() -> World {
    let world = World::new("packfinderz").await;
    world
        .execute("CREATE TABLE licenses (id uuid PRIMARY KEY, status text NOT NULL)")
        .await;
    world
}

/// A0-01: one transaction writes the licence and its event; one row stands for it.
#[tokio::test]
async fn a_committed_emit_is_one_unpublished_row_beside_the_domain_row() {
    let world = world_with_licenses().await;
    let event = license_event();
    let license: Uuid = event.aggregate_id.as_deref().unwrap().parse().unwrap();
    let mut tx = world.pool().begin().await.unwrap();
    sqlx::query("INSERT INTO licenses VALUES ($1, 'verified')")
        .bind(license)
        .execute(&mut *tx)
        .await
        .unwrap();
    world.outbox().emit(&mut tx, event.clone()).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(world.number("SELECT count(*) FROM licenses").await, 1);
    let rows = world
        .rows(
            "SELECT id, event_type::text, aggregate_type::text, aggregate_id, payload_json::text, \
             created_at::text, published_at::text, attempt_count, last_error FROM outbox_events",
        )
        .await;
    let [row] = &rows[..] else {
        panic!("{} rows", rows.len())
    };
    assert_eq!(row.get::<Uuid, _>(0).to_string(), event.id.as_str());
    assert_eq!(row.get::<&str, _>(1), "license_status_changed");
    assert_eq!(row.get::<&str, _>(2), "license");
    assert_eq!(row.get::<Uuid, _>(3), license);
    let payload: Value = serde_json::from_str(row.get(4)).unwrap();
    assert_eq!(payload["data"]["licenseId"], license.to_string());
    assert!(row.get::<Option<&str>, _>(5).is_some());
    assert_eq!(row.get::<Option<&str>, _>(6), None);
    assert_eq!(row.get::<i32, _>(7), 0);
    assert_eq!(row.get::<Option<&str>, _>(8), None);
}

/// A0-02: after a rollback there is neither row, and nothing is ever published.
#[tokio::test]
async fn a_rolled_back_emit_leaves_nothing_and_is_never_published() {
    let world = world_with_licenses().await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    let mut tx = world.pool().begin().await.unwrap();
    sqlx::query("INSERT INTO licenses VALUES (gen_random_uuid(), 'verified')")
        .execute(&mut *tx)
        .await
        .unwrap();
    world.outbox().emit(&mut tx, license_event()).await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(world.number("SELECT count(*) FROM licenses").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM outbox_events").await, 0);
    // What is emitted later arrives, so the relay has looked.
    let later = license_event();
    world.emit([later.clone()]).await;
    until_accepted(&broker, TOPIC, 1).await;
    relay.stop().await;
    assert_eq!(event_ids(&broker, TOPIC, "event_id"), [later.id.as_str()]);
}

/// A0-04: 10,000 rows and three relays without a crash: every event once.
#[tokio::test(flavor = "multi_thread")]
async fn three_relays_drain_ten_thousand_rows_without_a_duplicate() {
    let world = World::new("packfinderz").await;
    world.insert_licenses(10_000).await;
    let broker = MemoryBroker::default();
    let relays: Vec<_> = (0..3)
        .map(|_| {
            world
                .relay(broker.clone())
                .config(|config| config.batch = 50)
                .start()
        })
        .collect();
    world.until_drained().await;
    for relay in relays {
        relay.stop().await;
    }

    let mut sent = event_ids(&broker, TOPIC, "event_id");
    sent.sort();
    let rows = world
        .column("SELECT id::text FROM outbox_events ORDER BY id::text")
        .await;
    assert_eq!(sent.len(), 10_000);
    assert!(
        rows.iter().flatten().eq(&sent),
        "the ids on the topic are not those of the table"
    );
    let unpublished = "SELECT count(*) FROM outbox_events WHERE published_at IS NULL";
    assert_eq!(world.number(unpublished).await, 0);
}

/// A0-05: one row that the broker rejects is tried and kept with its error; the others go out.
#[tokio::test]
async fn a_rejected_row_keeps_its_error_and_the_others_are_published() {
    let world = World::new("packfinderz").await;
    let events: Vec<Event> = (0..5).map(|_| license_event()).collect();
    let rejected = events[2].id.to_string();
    world.emit(events).await;
    let broker = MemoryBroker::default();
    let matching = rejected.clone();
    broker.fail_next(u32::MAX, Fault::Transient, move |message| {
        is_event(message, &matching)
    });
    let relay = world
        .relay(broker.clone())
        .config(|config| config.claims = 4)
        .config(|config| config.retry.backoff.base = std::time::Duration::from_secs(3600))
        .config(|config| config.retry.backoff.cap = std::time::Duration::from_secs(3600))
        .start();
    until_accepted(&broker, TOPIC, 4).await;
    world
        .until_count(
            "the rejected row is tried once",
            1,
            "SELECT count(*) FROM outbox_events WHERE attempt_count = 1",
        )
        .await;
    relay.stop().await;

    let left = "SELECT id::text FROM outbox_events WHERE published_at IS NULL";
    assert_eq!(world.column(left).await, [Some(rejected)]);
    let error = world
        .text("SELECT last_error FROM outbox_events WHERE attempt_count = 1")
        .await;
    assert!(error.contains("injected transient fault"), "{error}");
    assert!(error.len() <= ERROR_BYTES_MAX);
    let others = "SELECT count(*) FROM outbox_events WHERE published_at IS NOT NULL \
                  AND attempt_count = 0 AND last_error IS NULL";
    assert_eq!(world.number(others).await, 4);
}

/// A0-06: the border of `attempt_count` is the maximum: 25 by default, 3 where it is set to 3.
#[tokio::test]
async fn a_row_below_the_maximum_is_published_and_one_at_it_is_skipped() {
    for (max_attempts, set) in [(25, None), (3, Some(3))] {
        let mut world = World::new("packfinderz").await;
        assert_eq!(world.max_attempts, 25);
        world.max_attempts = set.unwrap_or(world.max_attempts);
        let (below, at) = (license_event(), license_event());
        world.emit([at.clone(), below.clone()]).await;
        for (event, attempts) in [(&below, max_attempts - 1), (&at, max_attempts)] {
            let id = &event.id;
            let set =
                format!("UPDATE outbox_events SET attempt_count = {attempts} WHERE id = '{id}'");
            world.execute(&set).await;
        }
        let broker = MemoryBroker::default();
        let relay = world.relay(broker.clone()).start();
        until_accepted(&broker, TOPIC, 1).await;
        // A later one arrives, so the other was passed over and not only slow.
        let later = license_event();
        world.emit([later.clone()]).await;
        until_accepted(&broker, TOPIC, 2).await;
        relay.stop().await;

        assert_eq!(
            event_ids(&broker, TOPIC, "event_id"),
            [below.id.as_str(), later.id.as_str()]
        );
        let left =
            "SELECT id::text || ' ' || attempt_count FROM outbox_events WHERE published_at IS NULL";
        assert_eq!(
            world.column(left).await,
            [Some(format!("{} {max_attempts}", at.id))]
        );
    }
}

/// Rows that the catalogue refuses, and a word that each one's error must hold.
async fn insert_misfits(world: &World) -> Vec<(String, &'static str)> {
    let uncatalogued = Event::json("ad_created", &json!({})).unwrap();
    let uncatalogued = uncatalogued.aggregate("ad", Uuid::now_v7().to_string());
    let null = Event {
        payload: b"null".to_vec(),
        ..license_event()
    };
    let incomplete = Event {
        payload: br#"{"licenseId": 7}"#.to_vec(),
        ..license_event()
    };
    let wrong_aggregate = Event {
        aggregate_type: Some("store".into()),
        ..license_event()
    };
    let mut misfits = vec![
        (
            uncatalogued.id.to_string(),
            "no route for event type ad_created",
        ),
        (null.id.to_string(), "null"),
        (incomplete.id.to_string(), "schema"),
        (
            wrong_aggregate.id.to_string(),
            "aggregate type license, not store",
        ),
    ];
    world
        .emit([uncatalogued, null, incomplete, wrong_aggregate])
        .await;
    // What another language may write: no envelope at all, and an envelope of another event.
    let stranger = Uuid::now_v7();
    for (payload, word) in [
        ("null".to_owned(), "envelope"),
        (
            json!({ "version": 1, "eventId": stranger, "occurredAt": "2026-01-01T00:00:00Z", "data": {} })
                .to_string(),
            "is not the record's id",
        ),
    ] {
        let id = Uuid::now_v7();
        world
            .execute(&format!(
                "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
                 VALUES ('{id}', 'order_created', 'vendor_order', gen_random_uuid(), '{payload}')"
            ))
            .await;
        misfits.push((id.to_string(), word));
    }
    misfits
}

/// A0-08: what the catalogue refuses never reaches the topic, keeps its error, is not tried again, and
/// later rows flow.
#[tokio::test]
async fn rows_that_the_catalogue_refuses_are_dead_at_once_and_hold_nothing_up() {
    let world = World::new("packfinderz").await;
    let misfits = insert_misfits(&world).await;
    let good = license_event();
    world.emit([good.clone()]).await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).routes(catalogue()).start();
    world.until_drained().await;
    let dead = world.dead().await;
    // Dead at the first try: no failure was followed by another attempt.
    assert_eq!(relay.metric("postrider_failed_total"), 0.0);
    let later = license_event();
    world.emit([later.clone()]).await;
    world.until_drained().await;
    relay.stop().await;

    assert_eq!(
        event_ids(&broker, TOPIC, "event_id"),
        [good.id.as_str(), later.id.as_str()]
    );
    assert_eq!(dead.len(), misfits.len());
    for (id, word) in &misfits {
        let row = dead
            .iter()
            .find(|row| row.id.to_string() == *id)
            .expect("is dead");
        let error = row.error.as_deref().unwrap();
        assert!(error.contains(word), "{error} does not say {word}");
    }
    // Not tried again: nothing about them has changed since.
    let again = world.dead().await;
    let figures = |rows: &[StoredRecord]| -> Vec<_> {
        rows.iter()
            .map(|row| (row.id.clone(), row.attempts, row.error.clone()))
            .collect()
    };
    assert_eq!(figures(&again), figures(&dead));
    let unpublished = "SELECT count(*) FROM outbox_events WHERE published_at IS NULL \
                       AND attempt_count >= 25 AND last_error IS NOT NULL";
    assert_eq!(world.number(unpublished).await, misfits.len() as i64);
}

/// A1-04: the envelope has exactly four fields, and a fifth where there is an actor; `eventId`, the row's
/// id and the attribute are the same.
#[tokio::test]
async fn the_envelope_holds_what_was_emitted_and_one_id_throughout() {
    let world = World::new("packfinderz").await;
    let (plain, acted) = (
        license_event(),
        license_event().actor(json!({ "userId": "u-7" })),
    );
    world.emit([plain.clone(), acted.clone()]).await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    until_accepted(&broker, TOPIC, 2).await;
    relay.stop().await;

    let messages = broker.messages(&Topic::from(TOPIC));
    let expected: [(&Event, &[&str]); 2] = [
        (&plain, &["data", "eventId", "occurredAt", "version"]),
        (
            &acted,
            &["actor", "data", "eventId", "occurredAt", "version"],
        ),
    ];
    for (event, fields) in expected {
        let stored = world
            .text(&format!(
                "SELECT payload_json::text FROM outbox_events WHERE id = '{}'",
                event.id
            ))
            .await;
        let envelope: Value = serde_json::from_str(&stored).unwrap();
        let mut names: Vec<&String> = envelope.as_object().unwrap().keys().collect();
        names.sort();
        assert_eq!(names, fields);
        assert_eq!(envelope["eventId"], event.id.as_str());
        assert_eq!(envelope["version"], 1);
        assert_eq!(
            envelope["data"],
            serde_json::from_slice::<Value>(&event.payload).unwrap()
        );
        let message = messages
            .iter()
            .find(|message| is_event(message, event.id.as_str()))
            .unwrap();
        assert_eq!(message.payload.as_deref(), Some(stored.as_bytes()));
    }
    assert_eq!(messages.len(), 2);
}
