//! Captured outputs: what they carry of their cause, and how they leave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider::brokers::memory::{Fault, MemorySubscriptionConfig};
use postrider::consumer::middleware::{CaptureOutbox, Inbox, Trace, Transaction};
use postrider::consumer::{Config, Context};
use postrider::core::{
    Event, HandlerError, Header, Layout, Message, Opening, Router, Routes, Topic,
};
use postrider::relay::{self, Relay};
use postrider::stores::postgres::{self, InitOptions, Options, Outbox, PostgresStore, Tx};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::acting::{FOLLOW_UPS, follow_up};
use super::gopipe::consumer;
use super::settings::config;
use super::world::{Placed, Running, World, until};
use crate::world::header;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Where the outbox keeps headers, an output has its cause and its trace as headers.
#[tokio::test(flavor = "multi_thread")]
async fn an_output_carries_its_cause_and_trace_as_headers() {
    let world = World::new().await;
    let id = Uuid::now_v7();
    let mut message = world.message(id, "k", 1);
    message.headers.push(Header::new("traceparent", PARENT));
    let chain = world
        .consumer()
        .with(Trace)
        .with(Transaction::new(world.transactions()));
    let running = Running::start(
        chain
            .with(CaptureOutbox::new(world.outbox()))
            .handle(follow_up),
    );
    world.publish(&[message]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    let causes = "SELECT attributes::jsonb ->> 'causation_id' FROM outbox";
    let cause = Some(id.to_string());
    assert_eq!(world.database.texts(causes).await, [cause.clone(), cause]);
    // The trace goes on; the span may be one of ours in it.
    let parents = "outbox WHERE split_part(attributes::jsonb ->> 'traceparent', '-', 2) = ";
    let trace = PARENT.split('-').nth(1).unwrap();
    let in_trace = format!("{parents}'{trace}'");
    assert_eq!(world.database.count(&in_trace).await, 2);
}

async fn reply(_ctx: &mut Context<Tx>, event: Event<Placed>) -> Result<Event, HandlerError> {
    let order = event.payload.order.to_string();
    Ok(Event::json("payment.paid", &json!({ "paid": order }))?.aggregate_id(order))
}

/// Where it keeps metadata, they stand there, with the correlation id of the cause.
#[tokio::test(flavor = "multi_thread")]
async fn an_output_carries_its_cause_and_correlation_as_metadata() {
    let world = World::new().await;
    let layout = Layout::preset("polyshop").unwrap();
    let init = InitOptions {
        claim_index: false,
        notify: false,
    };
    postgres::init(&world.database.pool, &layout, &init)
        .await
        .unwrap();
    let id = Uuid::now_v7();
    let envelope = json!({
        "eventId": id, "timestamp": "2026-01-02T03:04:05Z", "eventType": "order.placed", "version": 1,
        "source": "order-service", "data": { "order": 7 }, "metadata": { "correlationId": "c-1", "traceparent": PARENT },
    });
    let message = Message {
        headers: Vec::new(),
        ..world.message_of(id, "k", serde_json::to_vec(&envelope).unwrap())
    };
    let strict = Config {
        opening: Opening::Polyshop,
        ..config()
    };
    let chain = world
        .consumer()
        .config(strict)
        .with(Transaction::new(world.transactions()));
    let running = Running::start(
        chain
            .with(CaptureOutbox::new(Outbox::new(layout)))
            .handle(reply),
    );
    world.publish(&[message]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    let metadata = world
        .database
        .text("SELECT metadata FROM outbox_events")
        .await
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["causationId"], id.to_string());
    assert_eq!(metadata["traceparent"], PARENT);
    assert_eq!(metadata["traceId"].as_str(), PARENT.split('-').nth(1));
    assert_eq!(metadata["correlationId"], "c-1");
    let row = "SELECT event_type || ' ' || aggregate_id || ' ' || processed FROM outbox_events";
    assert_eq!(
        world.database.text(row).await.as_deref(),
        Some("payment.paid 7 false")
    );
}

/// Consumer and relay in one process with one shutdown: an output leaves at once, long before the next poll.
#[tokio::test(flavor = "multi_thread")]
async fn an_output_leaves_at_once_by_a_relay_in_the_same_process() {
    let world = World::new().await;
    let (shutdown, wake) = (CancellationToken::new(), Arc::new(Notify::new()));
    let layout = Layout::preset("gopipe").unwrap();
    let store = PostgresStore::new(world.database.pool.clone(), Options::new(layout.clone()));
    let router = Router::new(&layout, Routes::new(), None);
    let sleepy = relay::Config {
        poll_min: Duration::from_secs(60),
        poll_max: Duration::from_secs(60),
        ..Default::default()
    };
    let relay = Relay::builder(Arc::new(store), Arc::new(world.broker.clone()), router)
        .config(sleepy)
        .wake(wake.clone())
        .build();
    let health = relay.health();
    let chain = world
        .consumer()
        .with(Transaction::new(world.transactions()));
    let consumer = chain
        .with(CaptureOutbox::new(world.outbox()).wake(wake))
        .handle(follow_up);
    let (relaying, consuming) = (
        tokio::spawn(relay.run(shutdown.clone())),
        tokio::spawn(consumer.run(shutdown.clone())),
    );
    until(
        "the relay has looked for the first time",
        true,
        async || health.report().is_ready(),
    )
    .await;
    let topic = Topic::from(FOLLOW_UPS);
    for round in 1..=3 {
        let began = Instant::now();
        world.place("k", [round]).await;
        let wanted = usize::try_from(round).unwrap() * 2;
        until("the outputs", wanted, async || {
            world.broker.messages(&topic).len()
        })
        .await;
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    shutdown.cancel();
    let both = async {
        (
            relaying.await.unwrap().unwrap(),
            consuming.await.unwrap().unwrap(),
        )
    };
    tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("both end");
    let types: Vec<_> = world
        .broker
        .messages(&topic)
        .iter()
        .map(|m| header(m, "id").is_some())
        .collect();
    assert_eq!(types, [true; 6]);
}

/// A4-13: what was published and not marked goes again with the same id, and the next inbox drops it.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_publish_is_dropped_by_the_next_inbox() {
    let world = World::new().await;
    world.place("k", [1]).await;
    let running = Running::start(consumer(&world));
    world.until_all_acknowledged().await;
    running.stop().await;

    let topic = Topic::from(FOLLOW_UPS);
    let lost = topic.clone();
    world
        .broker
        .fail_next(1, Fault::AckLost, move |message| message.topic == lost);
    let relay = crate::world::World::on(
        world.database.pool.clone(),
        Layout::preset("gopipe").unwrap(),
    );
    let relaying = relay.relay(world.broker.clone()).start();
    relay.until_drained().await;
    relaying.stop().await;
    let messages = world.broker.messages(&topic);
    let ids: Vec<_> = messages
        .iter()
        .map(|message| header(message, "id").unwrap())
        .collect();
    assert_eq!(ids.len(), 3, "one was published twice");
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 2);

    let next = world
        .broker
        .subscribe("next", &[topic], &MemorySubscriptionConfig::default());
    let consumer = world
        .on("next", Arc::new(next))
        .with(Transaction::new(world.transactions()));
    let consumer = consumer
        .with(Inbox::new(world.inbox()))
        .handle(postrider::consumer::raw(note_raw));
    let running = Running::start(consumer);
    until("all three", 3, async || {
        let handled = world
            .database
            .count("processed_messages WHERE subscriber = 'next'")
            .await;
        let text = world.metrics.encode();
        let duplicate = text.contains("postrider_consumer_duplicates_total{consumer=\"next\"} 1");
        handled + i64::from(duplicate)
    })
    .await;
    running.stop().await;
    assert_eq!(
        world.effects().await,
        3,
        "one of the order and one of each follow-up"
    );
}

async fn note_raw(
    ctx: &mut Context<Tx>,
    event: postrider::core::Event<bytes::Bytes>,
) -> Result<(), HandlerError> {
    super::acting::note(ctx.tx(), event.id.as_str(), 0).await
}

async fn reply_outside(_ctx: &mut Context, event: Event<Placed>) -> Result<Event, HandlerError> {
    Ok(Event::json("payment.paid", &event.payload)?)
}

/// Without a transaction nothing can capture an output: it is an error, and not lost in silence.
#[tokio::test(flavor = "multi_thread")]
async fn an_output_without_a_transaction_is_an_error() {
    let world = World::new().await;
    let chain = world.consumer().with(world.dead_letter());
    let running = Running::start(chain.handle(reply_outside));
    world.place("k", [1]).await;
    let dead = world.until_dead(1).await;
    running.stop().await;
    let error = header(&dead[0], "dlt_error_message").unwrap();
    assert!(error.contains("CaptureOutbox required"), "{error}");
}
