//! PolyShop and Talkie: `processed_events`, retries, dead letters on Kafka.

use std::time::Duration;

use postrider::brokers::memory::Fault;
use postrider::consumer::Builder;
use postrider::consumer::middleware::{Inbox, Retry, Transaction};
use postrider::core::{Backoff, Event, Layout};
use postrider::stores::postgres::{self, InboxLayout, PgInbox, Tx};
use uuid::Uuid;

use super::acting::{Act, Acting, Gate};
use super::world::{Placed, Running, World, until};
use crate::world::header;

pub(super) async fn shop() -> World {
    let world = World::new().await;
    postgres::inbox::init(&world.database.pool, &InboxLayout::polyshop())
        .await
        .unwrap();
    world
}

pub(super) fn in_transaction(world: &World, builder: Builder) -> Builder<Tx> {
    let inbox = Inbox::new(PgInbox::new(InboxLayout::polyshop()));
    builder
        .with(Transaction::new(world.transactions()))
        .with(inbox)
}

/// A3-09: the same event twice has one effect and one `processed_events` row.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_event_twice_is_processed_once() {
    let world = shop().await;
    let (id, acting) = (Uuid::now_v7(), Acting::new(&world, |_, _| Act::Apply));
    let running = Running::start(in_transaction(&world, world.consumer()).handle(acting.clone()));
    world
        .publish(&[world.message(id, "k", 1), world.message(id, "k", 1)])
        .await;
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, acting.calls(1).len()), (1, 1));
    let entry = "SELECT event_id || ' ' || (processed_at BETWEEN now() - interval '1 min' AND now()) FROM processed_events";
    assert_eq!(
        world.database.texts(entry).await,
        [Some(format!("{id} true"))]
    );
}

/// A3-09: also when both are handled at the same time, in two consumers.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_event_in_two_consumers_at_once_is_processed_once() {
    let world = shop().await;
    let gate = Gate::new();
    let hold = gate.clone();
    let acting = Acting::new(&world, move |_, _| Act::Wait(hold.clone()));
    // Two groups, so that each has a copy.
    let running = ["payments", "payments-2"].map(|group| {
        Running::start(in_transaction(&world, world.named(group)).handle(acting.clone()))
    });
    world.place("k", [1]).await;
    gate.reached().await;
    let waiting = format!(
        "pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%processed_events%' \
         AND pid IN (SELECT pid FROM pg_locks WHERE relation = '{}.processed_events'::regclass)",
        world.database.schema
    );
    until("the other waits for the first", 1, async || {
        world.database.count(&waiting).await
    })
    .await;
    gate.open();
    until("both are done", 2, async || {
        let text = world.metrics.encode();
        let done = |line: &&str| {
            line.ends_with("} 1")
                && (line.contains("_duplicates_total") || line.contains("_handled_total"))
        };
        text.lines().filter(done).count()
    })
    .await;
    for consumer in running {
        consumer.stop().await;
    }
    assert_eq!((world.effects().await, acting.calls(1).len()), (1, 1));
    assert_eq!(world.database.count("processed_events").await, 1);
}

/// A3-10: an error in the transaction leaves neither effect nor entry, and the retry succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_the_transaction_leaves_nothing_and_the_retry_succeeds() {
    let world = shop().await;
    let gate = Gate::new();
    let hold = gate.clone();
    let acting = Acting::new(&world, move |_, call| match call {
        1 => Act::Temporary,
        _ => Act::Wait(hold.clone()),
    });
    let chain = world.consumer().with(super::settings::retry());
    let running = Running::start(in_transaction(&world, chain).handle(acting.clone()));
    world.place("k", [1]).await;
    gate.reached().await;
    assert_eq!(
        world.effects().await + world.database.count("processed_events").await,
        0
    );
    gate.open();
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(
        (
            world.effects().await,
            world.database.count("processed_events").await
        ),
        (1, 1)
    );
    assert_eq!(
        (
            world.metric("retried_total"),
            world.metric("given_back_total")
        ),
        (1.0, 0.0)
    );
}

/// A3-11: a temporary error twice, then success: the wait grows, one effect, no dead letter.
#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_error_is_tried_again_after_a_growing_wait() {
    let world = shop().await;
    let acting = Acting::new(&world, |_, call| {
        if call <= 2 {
            Act::Temporary
        } else {
            Act::Apply
        }
    });
    let base = Duration::from_millis(250);
    let retry = Retry {
        tries: 3,
        backoff: Backoff::new(base, Duration::from_secs(5)),
    };
    let chain = world
        .consumer()
        .with(retry)
        .with(world.dead_letter().when_exhausted());
    let running = Running::start(in_transaction(&world, chain).handle(acting.clone()));
    world.place("k", [1]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    let calls = acting.calls(1);
    assert_eq!(
        (calls.len(), world.effects().await, world.dead().len()),
        (3, 1, 0)
    );
    let waits = [calls[1] - calls[0], calls[2] - calls[1]];
    assert!(
        waits[0] >= base.mul_f64(0.8) && waits[1] >= base.mul_f64(1.6),
        "{waits:?}"
    );
    assert!(waits[1] > waits[0], "{waits:?}");
}

/// A2-10: a send that is repeated after a crash carries the same id and idempotency key, so the inbox drops one.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_send_carries_the_same_id_and_is_dropped() {
    let world = shop().await;
    let layout = Layout::preset("talkie").unwrap();
    let outbox = crate::world::World::with("talkie", |_| {}).await;
    let event = Event::json("", &Placed { order: 1 })
        .unwrap()
        .topic("orders")
        .key("k")
        .idempotency_key("once");
    outbox.emit([event.clone()]).await;
    world.broker.fail_next(1, Fault::AckLost, |_| true);
    let relay = outbox.relay(world.broker.clone()).start();
    outbox.until_drained().await;
    relay.stop().await;
    let sent = world.broker.messages(&world.topic);
    assert_eq!(sent.len(), 2, "{}", layout.name);
    for message in &sent {
        assert_eq!(header(message, "event_id"), Some(event.id.as_str()));
        assert_eq!(header(message, "idempotency_key"), Some("once"));
    }
    let acting = Acting::new(&world, |_, _| Act::Apply);
    let running = Running::start(in_transaction(&world, world.consumer()).handle(acting.clone()));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, acting.calls(1).len()), (1, 1));
    assert_eq!(world.metric("duplicates_total"), 1.0);
}
