//! Task 2: a message is handled once per subscriber, in the transaction of its effects.

use std::sync::Arc;

use example_gopipe::orders::{PlaceOrder, place_order};
use postrider::consumer::middleware::{Ack, Transaction};
use postrider::consumer::{Consumer, Context, Part};
use postrider::core::{Event, HandlerError, Header, Message, Topic};
use postrider::stores::postgres::{PgTransactions, Tx};

use crate::world::{Running, World, until, worlds};

type PgPart = Part<PgTransactions>;

async fn save_only(ctx: &mut Context<Tx>, command: Event<PlaceOrder>) -> Result<(), HandlerError> {
    place_order(ctx, command).await.map(drop)
}

/// A4-03, A4-04: a new message passes to the handler and its three rows are of one transaction; again, it is skipped in
/// silence, and acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_message_is_handled_and_a_duplicate_is_skipped_and_acknowledged() {
    for world in worlds().await {
        is_handled_once_on(&world).await;
    }
}

async fn is_handled_once_on(world: &World) {
    let running = Running::consumer(world.router().handle(place_order));
    world.send("abc-123").await;
    world.until_all_acknowledged().await;
    assert_eq!(world.rows().await, "1 1 1");
    let entry = "SELECT subscriber || ' ' || message_id FROM processed_messages";
    assert_eq!(
        world.database.text(entry).await.as_deref(),
        Some("order-service abc-123")
    );
    let transactions = "SELECT count(DISTINCT xmin::text) FROM (SELECT xmin FROM processed_messages \
                        UNION ALL SELECT xmin FROM orders UNION ALL SELECT xmin FROM outbox) AS rows";
    assert_eq!(world.database.number(transactions).await, 1);

    world.send("abc-123").await;
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.rows().await, "1 1 1");
    let figures = ["handled_total", "duplicates_total", "given_back_total"];
    assert_eq!(figures.map(|name| world.figure(name)), [1.0, 1.0, 0.0]);
}

/// A4-05: the same id is new for another subscriber.
#[tokio::test(flavor = "multi_thread")]
async fn another_subscriber_handles_the_same_message() {
    for world in worlds().await {
        is_handled_by_another_on(world).await;
    }
}

async fn is_handled_by_another_on(mut world: World) {
    world.send("abc-123").await;
    for (number, name) in [(1, "order-service"), (2, "audit")] {
        world.inbox.subscriber = name.into();
        let running = Running::consumer(world.router().handle(place_order));
        until("it is handled", number, async || {
            world.database.count("orders").await
        })
        .await;
        running.stop().await;
    }
    assert_eq!(world.rows().await, "2 2 2");
}

/// A4-07: without a transaction inbox and outbox are refused before any message is read; where the chain is written in
/// code, it does not compile (see `router`).
#[tokio::test(flavor = "multi_thread")]
async fn inbox_and_outbox_need_a_transaction() {
    for world in worlds().await {
        need_a_transaction_on(&world).await;
    }
}

async fn need_a_transaction_on(world: &World) {
    let ack = || PgPart::Outside(Arc::new(Ack::default()));
    let inbox = || PgPart::Inside("inbox", Arc::new(world.inbox.middleware()));
    let outbox = || PgPart::Inside("outbox", Arc::new(world.outbox.middleware()));
    for (part, parts) in [
        ("inbox", vec![ack(), inbox(), outbox()]),
        ("outbox", vec![ack(), outbox()]),
    ] {
        let refused = world.consumer().handle_dynamic(parts, place_order).err();
        assert_eq!(
            refused.unwrap().to_string(),
            format!("{part}: no transaction in context (TxMiddleware required)")
        );
    }
}

/// A4-07: a message without an id is given back, in the stated words, and the handler does not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_id_is_not_handled() {
    for world in worlds().await {
        is_not_handled_on(&world).await;
    }
}

async fn is_not_handled_on(world: &World) {
    let running = Running::consumer(world.router().handle(place_order));
    let message = Message {
        topic: Topic::from(world.commands.as_str()),
        key: None,
        ordered: false,
        payload: Some(bytes::Bytes::from_static(
            br#"{"item":"lamp","quantity":3}"#,
        )),
        headers: vec![Header::new("event_type", "place-order")],
    };
    let timeout = std::time::Duration::from_secs(5);
    for outcome in world.broker.publisher().publish(&[message], timeout).await {
        outcome.unwrap();
    }
    until("it is given back", true, async || {
        world.figure("given_back_total") >= 1.0
    })
    .await;
    running.stop().await;
    assert_eq!(world.rows().await, "0 0 0");
}

/// A4-08: transaction alone, with an inbox, with inbox and outbox.
#[tokio::test(flavor = "multi_thread")]
async fn every_composition_works() {
    for world in worlds().await {
        every_composition_works_on(&world).await;
    }
}

async fn every_composition_works_on(world: &World) {
    let transaction = || Transaction::new(PgTransactions::new(world.database.pool.clone()));
    let begin = || world.consumer().with(Ack::default()).with(transaction());
    let with_inbox = || begin().with(world.inbox.middleware());
    // Made one at a time: a consumer takes its part of the messages from the start.
    let compositions: [(&dyn Fn() -> Consumer, &str); 3] = [
        (&|| begin().handle(save_only), "0 1 0"),
        (&|| with_inbox().handle(save_only), "1 2 0"),
        (
            &|| {
                with_inbox()
                    .with(world.outbox.middleware())
                    .handle(place_order)
            },
            "2 3 1",
        ),
    ];
    for (number, (consumer, rows)) in compositions.iter().enumerate() {
        let running = Running::consumer(consumer());
        world.send(&format!("message-{number}")).await;
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(world.rows().await, *rows);
    }
}
