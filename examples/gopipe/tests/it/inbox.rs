//! Task 2: a message is handled once per subscriber, in the transaction of its effects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use example_gopipe::orders::{PlaceOrder, place_order};
use example_gopipe::router;
use postrider::consumer::middleware::{Ack, Transaction};
use postrider::consumer::{Consumer, Context, Middleware, Next, Part};
use postrider::core::{Event, Handled, HandlerError, Header, Message, Topic};
use postrider::stores::postgres::{PgTransactions, Tx};

use crate::world::{Running, World, until, worlds};

type PgPart = Part<PgTransactions>;

async fn save_only(ctx: &mut Context<Tx>, command: Event<PlaceOrder>) -> Result<(), HandlerError> {
    place_order(ctx, command).await.map(drop)
}

/// A4-03, A4-04: a new message passes to the handler and its three rows are of one transaction;
/// again, the handler is not called, there is no output, and the commit succeeds: it is
/// acknowledged, and not given back.
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

/// A4-03: inbox row, business row and outbox row appear together at commit, and the broker is told
/// after it. While the commit waits none of the three is seen, and what the broker knows by then
/// does not include this message.
#[tokio::test(flavor = "multi_thread")]
async fn three_rows_appear_together_and_the_acknowledgement_comes_after_the_commit() {
    for world in worlds().await {
        is_acknowledged_after_the_commit_on(&world).await;
    }
}

async fn is_acknowledged_after_the_commit_on(world: &World) {
    let commit = world.hold_up_commit("lamp").await;
    let running = Running::consumer(world.router().handle(place_order));
    world.send("abc-123").await;
    commit.until_waiting(&world.database, 1).await;
    world.until_later_ones_are_acknowledged().await;
    assert!(!world.is_acknowledged("abc-123").await);
    let rows = "SELECT \
                (SELECT count(*) FROM processed_messages WHERE message_id = 'abc-123')::text \
                || (SELECT count(*) FROM orders WHERE item = 'lamp') \
                || (SELECT count(*) FROM outbox WHERE data ->> 'item' = 'lamp')";
    assert_eq!(world.database.text(rows).await.as_deref(), Some("000"));

    commit.let_go().await;
    until("the commit", Some("111".to_owned()), async || {
        let seen = world.database.text(rows).await;
        let together = ["000", "111"].contains(&seen.as_deref().unwrap_or_default());
        assert!(together, "not together: {seen:?}");
        seen
    })
    .await;
    world.until_all_acknowledged().await;
    assert!(world.is_acknowledged("abc-123").await);
    running.stop().await;
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

/// Counts how often the handler behind it is called.
struct Calls(Arc<AtomicUsize>);

#[async_trait]
impl Middleware<Tx> for Calls {
    async fn handle(
        &self,
        ctx: &mut Context<Tx>,
        next: Next<'_, Tx>,
    ) -> Result<Handled, HandlerError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        next.run(ctx).await
    }
}

/// Notes the words in which the chain behind it fails.
struct Words(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Middleware for Words {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let result = next.run(ctx).await;
        if let Err(error) = &result {
            self.0.lock().unwrap().push(error.to_string());
        }
        result
    }
}

/// A4-07: without a transaction inbox and outbox fail in the stated words, before any message is
/// read: the handler has not run, and the message waits for a chain that has one. Where the chain
/// is written in code, it does not compile (see `router`).
#[tokio::test(flavor = "multi_thread")]
async fn inbox_and_outbox_need_a_transaction() {
    for world in worlds().await {
        need_a_transaction_on(&world).await;
    }
}

async fn need_a_transaction_on(world: &World) {
    let calls = Arc::<AtomicUsize>::default();
    let ack = || PgPart::Outside(Arc::new(Ack::default()));
    let inbox = || PgPart::Inside("inbox", Arc::new(world.inbox.middleware()));
    let outbox = || PgPart::Inside("outbox", Arc::new(world.outbox.middleware()));
    let counted = || PgPart::Inside("calls", Arc::new(Calls(calls.clone())));
    world.send("abc-123").await;
    for (part, parts) in [
        ("inbox", vec![ack(), inbox(), outbox(), counted()]),
        ("outbox", vec![ack(), outbox(), counted()]),
    ] {
        let refused = world.consumer().handle_dynamic(parts, place_order).err();
        assert_eq!(
            refused.unwrap().to_string(),
            format!("{part}: no transaction in context (TxMiddleware required)")
        );
        assert_eq!(calls.load(Ordering::SeqCst), 0);
        assert_eq!(world.rows().await, "0 0 0");
        assert!(!world.is_acknowledged("abc-123").await);
    }

    let transactions = PgTransactions::new(world.database.pool.clone());
    let transaction = PgPart::Transaction(Transaction::new(transactions));
    let parts = vec![ack(), transaction, inbox(), outbox(), counted()];
    let consumer = world.consumer().handle_dynamic(parts, place_order);
    let running = Running::consumer(consumer.unwrap());
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(world.rows().await, "1 1 1");
}

/// A4-07: a message without an id fails in the stated words, at every delivery. It is given back,
/// and the handler does not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_id_is_not_handled() {
    for world in worlds().await {
        is_not_handled_on(&world).await;
    }
}

async fn is_not_handled_on(world: &World) {
    let (calls, words) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<_>>::default());
    let begin = world.consumer().with(Words(words.clone()));
    let chain = router(begin, &world.database.pool, &world.inbox, &world.outbox);
    let running = Running::consumer(chain.with(Calls(calls.clone())).handle(place_order));
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
    // It comes again, so it was given back.
    until("it failed twice", true, async || {
        words.lock().unwrap().len() >= 2
    })
    .await;
    running.stop().await;
    for words in words.lock().unwrap().iter() {
        assert_eq!(words, "inbox: message has no ID attribute");
    }
    assert!(world.figure("given_back_total") >= 2.0);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    assert_eq!(world.rows().await, "0 0 0");
    assert_eq!(world.unacknowledged().await, 1);
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
