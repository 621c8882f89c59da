//! Postrider's own outbox: append-only, read as a stream. What its table has in common with others is tested beside them; here are the
//! acceptance scripts that speak of a row's columns, on a table that has no column for its state.

use std::collections::HashSet;
use std::time::Duration;

use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{
    Actor, DeadLetters as _, Event, OutboxStore as _, Purge as _, RecordState, Route, Routes,
    StoredRecord,
};
use postrider::relay::Cleanup;
use postrider_testkit::eventually;
use postrider_testkit::kafka::Kafka;
use serde_json::json;
use sqlx::Row as _;

use crate::world::{Running, World, header, is_sample, until_accepted};

const HOUR: Duration = Duration::from_secs(3600);

async fn world() -> World {
    World::new("native").await
}

/// A relay that tries what fails again after an hour.
fn patient(world: &World, broker: &MemoryBroker) -> Running {
    let plan = world.relay(broker.clone()).config(|config| {
        (config.retry.backoff.base, config.retry.backoff.cap) = (HOUR, HOUR);
    });
    plan.start()
}

async fn until_waiting(world: &World, count: usize) -> Vec<StoredRecord> {
    eventually("records wait", async || {
        match world.in_state(RecordState::Waiting).await {
            waiting if waiting.len() == count => Ok(waiting),
            waiting => Err(waiting),
        }
    })
    .await
}

/// A0-01, A0-02, A2-01, A3-01: the domain's row and its event are there together, or neither is, and what was rolled back is never
/// published.
#[tokio::test]
async fn an_event_is_part_of_the_domains_transaction() {
    let world = world().await;
    world.execute("CREATE TABLE orders (id text)").await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    let event = world.sample("o-1");
    for commits in [false, true] {
        let mut tx = world.pool().begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES ('o-1')")
            .execute(&mut *tx)
            .await
            .unwrap();
        world.outbox().emit(&mut tx, event.clone()).await.unwrap();
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        for table in ["orders", "postrider_outbox"] {
            let count = world.number(&format!("SELECT count(*) FROM {table}")).await;
            assert_eq!(count, i64::from(commits), "{table}");
        }
    }
    until_accepted(&broker, world.sample_topic(), 1).await;
    world.until_drained().await;
    relay.stop().await;
    let rows = world
        .rows("SELECT event_id::text, type, topic, key, payload FROM postrider_outbox")
        .await;
    assert_eq!(rows[0].get::<&str, _>(0), event.id.as_str());
    assert_eq!(rows[0].get::<&str, _>(1), "sampled");
    assert_eq!(rows[0].get::<&str, _>(2), "samples");
    assert_eq!(rows[0].get::<&str, _>(3), "o-1");
    assert_eq!(rows[0].get::<&[u8], _>(4), event.payload);
    assert_eq!(world.sample_ids(&broker), [event.id.as_str()]);
}

/// A0-03, A2-02, A3-02, A3-15: what the library or plain SQL wrote stands on Kafka with its key, its bytes and its headers, whatever the
/// payload is stored as.
#[tokio::test]
async fn rows_of_any_language_stand_on_kafka_with_key_bytes_and_headers() {
    use postrider::core::layout::{PayloadType, State};
    let kafka = Kafka::shared();
    for wanted in [PayloadType::Bytea, PayloadType::Json] {
        let topic = kafka.fresh_topic(1).await;
        let world = World::with("native", |layout| {
            if let State::Append { payload, .. } = &mut layout.state {
                *payload = wanted;
            }
        })
        .await;
        let body = "{\"b\": 1,  \"a\": 2}";
        let event = Event::raw("order.placed", body).topic(&topic).key("o-1");
        let event = event.header("tenant", "t-1");
        world.emit([event.clone()]).await;
        let emit = format!(
            "SELECT postrider_emit('{topic}', 'o-1', 'order.paid', '{body}', '{{\"tenant\": \"t-2\"}}')::text"
        );
        let second = world.text(&emit).await;
        let publisher = KafkaPublisher::new(KafkaConfig::new(kafka.bootstrap())).unwrap();
        let relay = world.relay(publisher).start();
        world.until_drained().await;
        relay.stop().await;

        let records = kafka.records(&topic).await;
        assert_eq!(records.len(), 2, "{wanted:?}");
        let expected = [
            (event.id.to_string(), "order.placed", "t-1"),
            (second, "order.paid", "t-2"),
        ];
        for (record, (id, event_type, tenant)) in std::iter::zip(&records, expected) {
            assert_eq!(record.key.as_deref(), Some(&b"o-1"[..]));
            assert_eq!(record.value.as_deref(), Some(body.as_bytes()), "{wanted:?}");
            let header = |name: &str| {
                let found = record.headers.iter().find(|(header, _)| header == name);
                let value = found.and_then(|(_, value)| value.clone());
                String::from_utf8(value.unwrap_or_default()).unwrap()
            };
            assert_eq!(header("event_id"), id);
            assert_eq!(header("event_type"), event_type);
            assert_eq!(header("tenant"), tenant);
        }
    }
}

/// A0-04, A2-06: 10,000 rows and three relays without a crash: every event once.
#[tokio::test(flavor = "multi_thread")]
async fn three_relays_drain_ten_thousand_rows_without_a_duplicate() {
    let world = world().await;
    world
        .execute(
            "SELECT postrider_emit('samples', 'key-' || n % 500, 'sampled', '{}') FROM generate_series(1, 10000) AS n",
        )
        .await;
    let broker = MemoryBroker::default();
    let start = || {
        let plan = world.relay(broker.clone());
        plan.config(|config| config.batch = 50).start()
    };
    let relays = [start(), start(), start()];
    world.until_drained().await;
    for relay in relays {
        relay.stop().await;
    }
    let mut sent = world.sample_ids(&broker);
    sent.sort();
    let ids = "SELECT event_id::text FROM postrider_outbox ORDER BY 1";
    let rows: Vec<String> = world.column(ids).await.into_iter().flatten().collect();
    assert_eq!(sent.len(), 10_000);
    assert!(
        sent == rows,
        "the ids on the topic are not those of the table"
    );
}

/// A0-05, A2-03, A2-04, A3-04, A4-10: what the broker rejects is tried once and waits for its time with its error; the others go out. Once it
/// is taken, nothing is left of its trouble.
#[tokio::test]
async fn a_rejected_record_waits_with_its_error_and_the_others_go_out() {
    let world = world().await;
    world
        .emit(["a", "b", "c", "d", "e"].map(|key| world.sample(key)))
        .await;
    let broker = MemoryBroker::default();
    broker.fail_next(1, Fault::Transient, is_sample("c", 0));
    let relay = patient(&world, &broker);
    until_accepted(&broker, world.sample_topic(), 4).await;
    let waiting = until_waiting(&world, 1).await;
    relay.stop().await;
    assert_eq!(waiting[0].key.as_deref(), Some("c"));
    assert_eq!(waiting[0].attempts, 1);
    let error = waiting[0].error.as_deref().unwrap();
    assert!(error.contains("injected transient fault"), "{error}");
    let due = waiting[0].retry_at.unwrap().as_micros();
    let made = waiting[0].created_at.as_micros();
    assert!(due > made + 1_000_000 * 1_000, "it waits for its time");

    // A relay that starts before then leaves it alone; at its time it goes.
    let relay = world.relay(broker.clone()).start();
    world.emit([world.sample("f")]).await;
    until_accepted(&broker, world.sample_topic(), 5).await;
    assert!(world.sample_numbers(&broker, "c").is_empty());
    world
        .execute("UPDATE postrider_outbox_troubles SET next_attempt_at = now()")
        .await;
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(world.sample_numbers(&broker, "c"), [0]);
    let left = "SELECT count(*) FROM postrider_outbox_troubles";
    assert_eq!(world.number(left).await, 0);
    assert_eq!(world.in_state(RecordState::Published).await.len(), 6);
}

/// A0-06, A2-05: after as many failures as are allowed a record is dead, still stored, and never claimed again; waits grow until then.
#[tokio::test]
async fn a_record_is_dead_when_its_attempts_are_used_up() {
    let mut world = world().await;
    world.max_attempts = 3;
    world.emit([world.sample("a")]).await;
    let broker = MemoryBroker::default();
    broker.fail_next(3, Fault::Transient, is_sample("a", 0));
    let relay = world.relay(broker.clone()).start();
    let dead = world.until_dead(1).await;
    assert_eq!(dead[0].attempts, 3);
    // Another key arrives, so the relay goes on looking.
    world.emit([world.sample("b")]).await;
    until_accepted(&broker, world.sample_topic(), 1).await;
    relay.stop().await;
    assert!(world.sample_numbers(&broker, "a").is_empty());
    let kept = "SELECT count(*) FROM postrider_outbox_troubles WHERE dead AND attempts = 3";
    assert_eq!(world.number(kept).await, 1);
}

/// A0-08: what the routes refuse never reaches the topic, keeps its error, is not tried again, and later records flow.
#[tokio::test]
async fn what_the_routes_refuse_is_dead_at_once_and_holds_nothing_up() {
    let world = world().await;
    let to = |event: Event, key: &str| event.topic("samples").key(key);
    let schema = json!({ "required": ["number"] });
    let routes = Routes::new().with("sampled", Route::new().schema(&schema).unwrap());
    let misfits = [
        (
            to(Event::raw("unheard", "{}"), "a"),
            "no route for event type unheard",
        ),
        (to(Event::raw("sampled", "null"), "b"), "null"),
        (to(Event::raw("sampled", "{}"), "c"), "schema"),
        (to(Event::raw("sampled", "{"), "d"), "ends too early"),
    ];
    world
        .emit(misfits.iter().map(|(event, _)| event.clone()))
        .await;
    world.emit([world.sample("good")]).await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).routes(routes).start();
    let dead = world.until_dead(4).await;
    world.emit([world.sample("later")]).await;
    until_accepted(&broker, world.sample_topic(), 2).await;
    assert_eq!(relay.metric("postrider_failed_total"), 0.0);
    relay.stop().await;
    for (event, word) in &misfits {
        let row = dead.iter().find(|row| row.event_id == event.id).unwrap();
        let error = row.error.as_deref().unwrap();
        assert!(error.contains(word), "{error} does not say {word}");
        assert_eq!(row.attempts, 1);
    }
    assert_eq!(broker.messages(&"samples".into()).len(), 2);
}

/// A0-13, A4-14: the relay's cleanup removes what was published long ago, and neither what waits nor what is dead.
#[tokio::test]
async fn cleanup_removes_old_published_records_only() {
    let world = world().await;
    world
        .emit(["old", "refused"].map(|key| world.sample(key)))
        .await;
    let broker = MemoryBroker::default();
    broker.fail_next(1, Fault::Permanent, is_sample("refused", 0));
    let relay = world.relay(broker.clone()).start();
    world.until_dead(1).await;
    world.until_drained().await;
    relay.stop().await;
    let age = "UPDATE postrider_outbox SET created_at = created_at - interval '8 days'";
    world.execute(age).await;
    let keep = world.layout.defaults.keep().unwrap();
    // Ends the segment, so that what comes now is of the next one.
    assert_eq!(world.store().purge(keep, 100).await.unwrap(), 2);
    broker.stop();
    world.emit([world.sample("waiting")]).await;
    world.execute(age).await;
    let relay = world.relay(broker.clone()).config(|config| {
        config.cleanup = Some(Cleanup {
            keep,
            every: Duration::from_millis(50),
            batch: 100,
        });
    });
    let relay = relay.start();
    relay.until_metric("postrider_breaker_open", 1.0).await;
    let backlog = world.store().backlog().await.unwrap();
    assert_eq!((backlog.pending, backlog.dead), (1, 1));
    broker.start();
    // Published, it is old enough to go.
    world
        .until_count("it is gone", 0, "SELECT count(*) FROM postrider_outbox")
        .await;
    relay.stop().await;
    assert_eq!(world.sample_numbers(&broker, "waiting"), [0]);
    assert_eq!(world.dead().await.len(), 1);
}

/// A0-14: what is exposed equals the tables' own truth.
#[tokio::test]
async fn exposed_figures_equal_the_tables() {
    let world = world().await;
    let broker = MemoryBroker::default();
    broker.fail_next(1, Fault::Permanent, is_sample("dead", 0));
    broker.fail_next(1, Fault::Transient, is_sample("waits", 0));
    world
        .emit(["sent", "dead", "waits"].map(|key| world.sample(key)))
        .await;
    let relay = patient(&world, &broker);
    world.until_dead(1).await;
    until_waiting(&world, 1).await;
    relay.stop().await;
    broker.stop();
    world.emit([world.sample("new")]).await;
    world
        .execute("UPDATE postrider_outbox SET created_at = created_at - interval '90 minutes' WHERE key = 'new'")
        .await;
    let relay = patient(&world, &broker);
    relay.until_metric("postrider_backlog", 2.0).await;
    assert_eq!(relay.metric("postrider_dead_records"), 1.0);
    let age = relay.metric("postrider_oldest_age_seconds");
    assert!((age - 5400.0).abs() < 30.0, "{age}");
    relay.stop().await;
    for (state, count) in [
        (RecordState::Published, 1),
        (RecordState::Dead, 1),
        (RecordState::Waiting, 1),
        (RecordState::Pending, 1),
    ] {
        assert_eq!(world.in_state(state).await.len(), count, "{state:?}");
    }
}

/// A2-10, A3-03: what was known at emit arrives unchanged, in a message that is sent twice too; nothing is made up.
#[tokio::test]
async fn headers_arrive_as_they_were_emitted_each_time() {
    let world = world().await;
    let traced = world
        .sample("traced")
        .header("traceId", "4bf9")
        .header("userId", "u-1");
    world.emit([traced, world.sample("bare")]).await;
    let broker = MemoryBroker::default();
    broker.fail_next(1, Fault::AckLost, is_sample("traced", 0));
    let relay = world.relay(broker.clone()).start();
    until_accepted(&broker, world.sample_topic(), 3).await;
    world.until_drained().await;
    relay.stop().await;
    let messages = broker.messages(&world.sample_topic().into());
    for message in &messages {
        let is_traced = is_sample("traced", 0)(message);
        assert_eq!(header(message, "traceId"), is_traced.then_some("4bf9"));
        assert_eq!(header(message, "userId"), is_traced.then_some("u-1"));
        assert_eq!(message.headers.len(), if is_traced { 4 } else { 2 });
    }
    let twice: Vec<_> = messages
        .iter()
        .filter(|it| is_sample("traced", 0)(it))
        .collect();
    assert_eq!(twice.len(), 2);
    assert_eq!(header(twice[0], "event_id"), header(twice[1], "event_id"));
}

/// A2-11: a dead letter is resent, with its history visible until it is published, or purged and gone; nothing else touches it.
#[tokio::test]
async fn a_dead_letter_is_resent_or_purged_by_an_operator_and_by_nobody_else() {
    let world = world().await;
    world
        .emit(["resent", "purged", "kept"].map(|key| world.sample(key)))
        .await;
    let broker = MemoryBroker::default();
    broker.fail_next(3, Fault::Permanent, |_| true);
    let relay = world.relay(broker.clone()).start();
    let dead = world.until_dead(3).await;
    relay.stop().await;
    let (store, me) = (world.store(), Actor("me".into()));
    let id = |key: &str| {
        let found = dead.iter().find(|row| row.key.as_deref() == Some(key));
        [found.unwrap().id.clone()]
    };
    assert_eq!(store.resend(&id("resent"), &me).await.unwrap(), 1);
    assert_eq!(store.discard(&id("purged"), &me).await.unwrap(), 1);
    let pending = world.in_state(RecordState::Pending).await;
    let history = pending[0].error.as_deref().unwrap();
    assert!(history.contains("injected permanent fault"), "{history}");
    assert!(history.contains("resent"), "{history}");
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    assert_eq!(world.sample_ids(&broker).len(), 1);
    assert_eq!(world.sample_numbers(&broker, "resent"), [0]);
    let kept = world.dead().await;
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].key.as_deref(), Some("kept"));
    let purged = "SELECT count(*) FROM postrider_outbox WHERE key = 'purged'";
    assert_eq!(world.number(purged).await, 0);
    // What is not dead is neither resent nor purged.
    assert_eq!(store.resend(&id("resent"), &me).await.unwrap(), 0);
    assert_eq!(store.discard(&id("resent"), &me).await.unwrap(), 0);
}

/// While there is a backlog, a claim goes on to what was read meanwhile; it is settled many times less often than it publishes.
#[tokio::test]
async fn a_backlog_is_settled_in_fewer_steps_than_it_is_published() {
    const CLAIMS: i64 = 300;
    let world = world().await;
    let events = (0..CLAIMS * 10).map(|number| world.numbered_sample("k", number));
    world.emit(events).await;
    let saved = || world.number("SELECT max(version) FROM postrider_outbox_stream");
    let before = saved().await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone());
    let relay = relay.config(|config| config.batch = 10).start();
    world.until_drained().await;
    relay.stop().await;
    let numbers = world.sample_numbers(&broker, "k");
    assert_eq!(numbers, (0..CLAIMS * 10).collect::<Vec<_>>());
    let saves = saved().await - before;
    assert!(saves < CLAIMS / 2, "{saves} saves");
}

/// A relay that is alone on a backlog is cut short again and again, wherever its claims are: what comes twice does so in order, and nothing
/// is overtaken.
#[tokio::test]
async fn a_claim_that_goes_on_may_be_cut_short_anywhere() {
    const RECORDS: i64 = 4000;
    let world = world().await;
    world
        .emit((0..RECORDS).map(|number| world.numbered_sample("k", number)))
        .await;
    let broker = MemoryBroker::default();
    let start = || {
        let relay = world.relay(broker.clone());
        relay.config(|config| config.batch = 10).start()
    };
    for cut in 1..=8 {
        let relay = start();
        eventually("some are published", async || {
            let published = world.sample_numbers(&broker, "k");
            let furthest = published.into_iter().max();
            (furthest >= Some(cut * RECORDS / 10))
                .then_some(())
                .ok_or(furthest)
        })
        .await;
        relay.abort().await;
    }
    let relay = start();
    world.until_drained().await;
    relay.stop().await;
    let mut first_seen = world.sample_numbers(&broker, "k");
    let mut seen = HashSet::new();
    first_seen.retain(|number| seen.insert(*number));
    assert_eq!(first_seen, (0..RECORDS).collect::<Vec<_>>());
}
