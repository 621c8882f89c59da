//! Talkie: `outbox` with a status machine and retry columns, claimed by lease, Kafka.

use std::time::Duration;

use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{Event, Message, RecordState, Topic};
use postrider_testkit::kafka::Kafka;
use serde_json::json;
use sqlx::Row as _;
use uuid::Uuid;

use crate::witness::GatedStore;
use crate::world::{World, event_ids, header, until_accepted, until_held};

pub(crate) const TOPIC: &str = "talkie.messages";

fn event_to(topic: &str, key: &str) -> Event {
    Event::json("", &json!({ "text": "hello", "to": key }))
        .unwrap()
        .topic(topic)
        .key(key)
}

pub(crate) fn event(key: &str) -> Event {
    event_to(TOPIC, key)
}

pub(crate) fn has_key(message: &Message, key: &str) -> bool {
    message
        .key
        .as_ref()
        .is_some_and(|found| found.as_bytes() == key.as_bytes())
}

/// Notes every change of a row's status, and what the row looked like after it.
pub(crate) async fn note_changes(world: &World) {
    world
        .execute(
            "CREATE TABLE changes (n bigserial, id uuid, before text, after text, retry_count int, \
               last_error text, wait_ms float8, has_attempt bool); \
             CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$ \
             BEGIN \
               INSERT INTO changes (id, before, after, retry_count, last_error, wait_ms, has_attempt) \
               VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, NEW.status, \
                 NEW.retry_count, NEW.last_error, \
                 extract(epoch FROM NEW.next_attempt_at - NEW.last_attempt_at) * 1000, \
                 NEW.last_attempt_at IS NOT NULL); \
               RETURN NULL; \
             END $$; \
             CREATE TRIGGER note_change AFTER INSERT OR UPDATE ON outbox \
             FOR EACH ROW EXECUTE FUNCTION note_change()",
        )
        .await;
}

/// A2-01: the row is part of the domain's transaction.
#[tokio::test]
async fn an_insert_in_the_domain_transaction_is_one_pending_row_or_none() {
    let world = World::new("talkie").await;
    world.execute("CREATE TABLE chats (name text)").await;
    for commits in [false, true] {
        let mut tx = world.pool().begin().await.unwrap();
        sqlx::query("INSERT INTO chats VALUES ('lobby')")
            .execute(&mut *tx)
            .await
            .unwrap();
        world.outbox().emit(&mut tx, event("lobby")).await.unwrap();
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        let expected = i64::from(commits);
        assert_eq!(world.number("SELECT count(*) FROM chats").await, expected);
        assert_eq!(world.number("SELECT count(*) FROM outbox").await, expected);
    }
    let pending = "SELECT count(*) FROM outbox WHERE status = 'pending' AND retry_count = 0";
    assert_eq!(world.number(pending).await, 1);
}

/// A2-02: pending → publishing → published, and Kafka holds the row's key and payload.
#[tokio::test]
async fn a_due_row_goes_through_publishing_to_published_and_stands_on_its_kafka_topic() {
    let kafka = Kafka::shared();
    let topic = kafka.fresh_topic(3).await;
    let world = World::new("talkie").await;
    note_changes(&world).await;
    let event = event_to(&topic, "room-7").idempotency_key("once-7");
    world.emit([event.clone()]).await;
    let publisher = KafkaPublisher::new(KafkaConfig::new(kafka.bootstrap())).unwrap();
    let relay = world.relay(publisher).start();
    world.until_drained().await;
    relay.stop().await;

    let records = kafka.records(&topic).await;
    let [record] = &records[..] else {
        panic!("{records:?}")
    };
    assert_eq!(record.key.as_deref(), Some(&b"room-7"[..]));
    let stored = world.text("SELECT payload_json::text FROM outbox").await;
    assert_eq!(record.value.as_deref(), Some(stored.as_bytes()));
    let header = |name: &str| {
        let found = record.headers.iter().find(|(header, _)| header == name);
        found
            .and_then(|(_, value)| value.as_deref())
            .map(String::from_utf8_lossy)
    };
    assert_eq!(header("event_id").unwrap(), event.id.as_str());
    assert_eq!(header("idempotency_key").unwrap(), "once-7");
    let states = world.column("SELECT after FROM changes ORDER BY n").await;
    assert_eq!(
        states.iter().flatten().collect::<Vec<_>>(),
        ["pending", "publishing", "published"]
    );
    assert!(
        world
            .flag("SELECT published_at IS NOT NULL FROM outbox")
            .await
    );
}

/// A2-02: everybody sees `publishing` while the send is under way.
#[tokio::test]
async fn a_row_is_seen_as_publishing_during_the_send() {
    let world = World::new("talkie").await;
    world.emit([event("a")]).await;
    let broker = MemoryBroker::default();
    broker.block();
    let relay = world.relay(broker.clone()).start();
    until_held(&broker, 1).await;
    let row = "SELECT status || ' ' || (last_attempt_at IS NOT NULL)::text || ' ' \
               || (published_at IS NULL)::text FROM outbox";
    assert_eq!(world.text(row).await, "publishing true true");
    broker.release();
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(world.text(row).await, "published true false");
}

/// A2-03: a row is not claimed before its time.
#[tokio::test]
async fn a_row_is_not_claimed_before_its_next_attempt() {
    let world = World::new("talkie").await;
    let (waits, due) = (event("waits"), event("due"));
    world.emit([waits.clone()]).await;
    world
        .execute("UPDATE outbox SET next_attempt_at = now() + interval '1 hour'")
        .await;
    world.emit([due.clone()]).await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    until_accepted(&broker, TOPIC, 1).await;
    let untouched =
        "SELECT status = 'pending' AND last_attempt_at IS NULL FROM outbox WHERE key = 'waits'";
    assert!(world.flag(untouched).await);
    let soon = "UPDATE outbox SET next_attempt_at = clock_timestamp() + interval '300 ms' WHERE key = 'waits'";
    world.execute(soon).await;
    until_accepted(&broker, TOPIC, 2).await;
    world.until_drained().await;
    relay.stop().await;

    assert_eq!(
        event_ids(&broker, TOPIC, "event_id"),
        [due.id.as_str(), waits.id.as_str()]
    );
    let in_time = "SELECT last_attempt_at >= next_attempt_at FROM outbox WHERE key = 'waits'";
    assert!(world.flag(in_time).await, "it was claimed before its time");
}

/// A2-04: a failure is counted, kept and waits; the next wait is not shorter.
#[tokio::test]
async fn a_failure_is_counted_and_each_wait_is_at_least_as_long_as_the_last() {
    let world = World::new("talkie").await;
    note_changes(&world).await;
    world.emit([event("a")]).await;
    let broker = MemoryBroker::default();
    broker.fail_next(4, Fault::Transient, |_| true);
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;

    let failures = world
        .rows(
            "SELECT retry_count, last_error, wait_ms, has_attempt FROM changes \
             WHERE after = 'failed' AND before = 'publishing' ORDER BY n",
        )
        .await;
    let counts: Vec<i32> = failures.iter().map(|row| row.get(0)).collect();
    assert_eq!(counts, [1, 2, 3, 4]);
    for row in &failures {
        assert!(row.get::<&str, _>(1).contains("injected transient fault"));
        assert!(row.get::<bool, _>(3), "last_attempt_at is not set");
    }
    // From 20 ms to the cap of 100 ms, less up to a fifth, and with the send's own time on top.
    let waits: Vec<f64> = failures.iter().map(|row| row.get(2)).collect();
    assert!(
        waits[0] >= 16.0 && waits[1] >= 32.0 && waits[2] >= 64.0 && waits[3] >= 80.0,
        "{waits:?}"
    );
    let end = "SELECT status || ' ' || retry_count FROM outbox";
    assert_eq!(world.text(end).await, "published 4");
}

/// A2-05: past the last attempt a row is `dead_lettered`, never claimed again, and still stored.
#[tokio::test]
async fn a_row_that_fails_too_often_is_dead_lettered_and_left_alone() {
    let mut world = World::new("talkie").await;
    world.max_attempts = 3;
    note_changes(&world).await;
    world.emit([event("bad")]).await;
    let broker = MemoryBroker::default();
    broker.fail_next(u32::MAX, Fault::Transient, |message| {
        has_key(message, "bad")
    });
    let relay = world.relay(broker.clone()).start();
    let dead = "SELECT count(*) FROM outbox WHERE status = 'dead_lettered'";
    world.until_count("the row is dead", 1, dead).await;
    let changes = world.number("SELECT count(*) FROM changes").await;
    world.emit([event("good")]).await;
    until_accepted(&broker, TOPIC, 1).await;
    relay.stop().await;

    let of_bad =
        "SELECT count(*) FROM changes WHERE id = (SELECT id FROM outbox WHERE key = 'bad')";
    assert_eq!(
        world.number(of_bad).await,
        changes,
        "the dead row was touched"
    );
    let row = "SELECT status || ' ' || retry_count || ' ' || (last_error IS NOT NULL)::text \
               FROM outbox WHERE key = 'bad'";
    assert_eq!(world.text(row).await, "dead_lettered 3 true");
    let claims = "SELECT count(*) FROM changes WHERE after = 'publishing' AND \
                  id = (SELECT id FROM outbox WHERE key = 'bad')";
    assert_eq!(world.number(claims).await, 3);
}

/// A2-06: three relays and 10,000 rows without a crash: every message once.
#[tokio::test(flavor = "multi_thread")]
async fn three_relays_drain_ten_thousand_leased_rows_without_a_duplicate() {
    let world = World::new("talkie").await;
    world
        .execute(
            "INSERT INTO outbox (id, topic, key, payload_json, created_at) \
             SELECT gen_random_uuid(), 'talkie.messages', 'k' || n % 500, \
               jsonb_build_object('n', n), clock_timestamp() FROM generate_series(1, 10000) n",
        )
        .await;
    let broker = MemoryBroker::default();
    let start = || {
        world
            .relay(broker.clone())
            .config(|config| config.batch = 100)
            .start()
    };
    let relays = [start(), start(), start()];
    world.until_drained().await;
    for relay in relays {
        relay.stop().await;
    }
    let mut sent = event_ids(&broker, TOPIC, "event_id");
    sent.sort();
    assert_eq!(sent.len(), 10_000);
    let rows = world
        .column("SELECT id::text FROM outbox WHERE status = 'published' ORDER BY id::text")
        .await;
    assert!(
        rows.iter().flatten().eq(&sent),
        "the ids on the topic are not those of the table"
    );
}

/// A2-08: a relay whose lease ended finds its row in other hands and changes nothing.
#[tokio::test]
async fn a_stalled_relay_does_not_touch_rows_that_another_has_reclaimed() {
    let world = World::new("talkie").await;
    world.emit([event("a")]).await;
    let (failing, second) = (MemoryBroker::default(), MemoryBroker::default());
    failing.fail_next(1, Fault::Transient, |_| true);
    let (store, mut gate) = GatedStore::new(world.store());
    let stalled = world
        .relay(failing)
        .store(store)
        .config(|config| config.claims = 1)
        .start();
    gate.wait_until_reached(1).await;

    // An hour passes.
    world
        .execute("UPDATE outbox SET last_attempt_at = last_attempt_at - interval '1 hour'")
        .await;
    second.block();
    let relay = world.relay(second.clone()).start();
    until_held(&second, 1).await;
    let row = "SELECT status || ' ' || retry_count || ' ' || last_attempt_at || ' ' \
               || coalesce(last_error, '-') FROM outbox";
    let in_other_hands = world.text(row).await;
    assert!(
        in_other_hands.starts_with("publishing 0 "),
        "{in_other_hands}"
    );
    gate.open();
    stalled.until_metric("postrider_lapsed_total", 1.0).await;
    assert_eq!(world.text(row).await, in_other_hands);
    stalled.stop().await;

    second.release();
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(second.accepted(&Topic::from(TOPIC)), 1);
    assert_eq!(
        world
            .text("SELECT status || ' ' || retry_count FROM outbox")
            .await,
        "published 0"
    );
}

/// A2-10, A2-07: a crash after the broker accepted sends again once the lease has ended, and both
/// messages carry the same id and idempotency key.
#[tokio::test]
async fn a_send_repeated_after_a_crash_carries_the_same_id_and_idempotency_key() {
    let mut world = World::new("talkie").await;
    world.lease = Duration::from_secs(1);
    let event = event("a").idempotency_key("order-7-paid");
    world.emit([event.clone()]).await;
    let broker = MemoryBroker::default();
    let (store, mut gate) = GatedStore::new(world.store());
    let relay = world.relay(broker.clone()).store(store).start();
    gate.wait_until_reached(1).await;
    relay.abort().await;
    assert_eq!(
        world.text("SELECT status::text FROM outbox").await,
        "publishing"
    );

    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(
        event_ids(&broker, TOPIC, "event_id"),
        [event.id.as_str(), event.id.as_str()]
    );
    let messages = broker.messages(&Topic::from(TOPIC));
    for message in &messages {
        assert_eq!(header(message, "idempotency_key"), Some("order-7-paid"));
    }
    assert_eq!(
        world.text("SELECT status::text FROM outbox").await,
        "published"
    );
}

/// A2-13: the application writes on through an outage, and everything is published after it. (The real
/// Kafka is away for longer in postrider-cli's tests.)
#[tokio::test]
async fn the_application_writes_on_through_an_outage() {
    for preset in ["talkie", "native"] {
        the_application_writes_on_through_an_outage_on(&World::new(preset).await).await;
    }
}

async fn the_application_writes_on_through_an_outage_on(world: &World) {
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    world.emit([event("before")]).await;
    until_accepted(&broker, TOPIC, 1).await;
    broker.stop();
    for n in 0..50 {
        world.emit([event(&format!("during-{n}"))]).await;
    }
    relay.until_metric("postrider_breaker_open", 1.0).await;
    broker.start();
    until_accepted(&broker, TOPIC, 51).await;
    world.until_drained().await;
    relay.stop().await;
    let published = world.in_state(RecordState::Published).await;
    assert_eq!(published.len(), 51);
    assert!(published.iter().all(|row| row.attempts == 0));
}

/// Uuids are what the layout's id column takes; anything else is refused before it reaches the table.
#[tokio::test]
async fn an_id_that_is_no_uuid_is_refused_before_the_insert() {
    let world = World::new("talkie").await;
    let mut tx = world.pool().begin().await.unwrap();
    let refused = world
        .outbox()
        .emit(&mut tx, event("a").with_id("not-a-uuid"))
        .await;
    assert!(refused.is_err(), "{refused:?}");
    let id = Uuid::now_v7();
    world
        .outbox()
        .emit(&mut tx, event("a").with_id(id))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        world.text("SELECT id::text FROM outbox").await,
        id.to_string()
    );
}
