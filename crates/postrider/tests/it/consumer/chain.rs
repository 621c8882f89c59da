//! The chain's shape: order, compositions, what may stand where.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use postrider::consumer::middleware::{CaptureOutbox, Inbox, Transaction};
use postrider::consumer::{ChainError, Context, Handlers, Middleware, Next, Part, raw};
use postrider::core::{Event, Handled, HandlerError};
use postrider::stores::postgres::{Outbox, PgInbox, PgTransactions, Tx};
use uuid::Uuid;

use super::acting::{Act, Acting, apply, follow_up, note};
use super::settings::retry;
use super::world::{Placed, Running, World, json};

/// A4-08: a transaction alone, with an inbox, with inbox and captured outbox.
#[tokio::test(flavor = "multi_thread")]
async fn each_composition_works() {
    let world = World::new().await;
    let alone = world
        .consumer()
        .with(retry())
        .with(Transaction::new(world.transactions()));
    let running = Running::start(alone.handle(apply));
    world.place("k", [1]).await;
    world.until_effects(1).await;
    running.stop().await;
    assert_eq!(world.database.count("processed_messages").await, 0);

    let inbox = world
        .consumer()
        .with(Transaction::new(world.transactions()))
        .with(Inbox::new(world.inbox()));
    let running = Running::start(inbox.handle(apply));
    world.place("k", [2]).await;
    world.until_effects(2).await;
    running.stop().await;
    assert_eq!(world.database.count("processed_messages").await, 1);
    assert_eq!(world.database.count("outbox").await, 0);

    let all = world
        .consumer()
        .with(Transaction::new(world.transactions()))
        .with(Inbox::new(world.inbox()))
        .with(CaptureOutbox::new(world.outbox()));
    let running = Running::start(all.handle(follow_up));
    world.place("k", [3]).await;
    world.until_effects(3).await;
    running.stop().await;
    assert_eq!(world.database.count("processed_messages").await, 2);
    assert_eq!(world.database.count("outbox").await, 2);
    assert_eq!(world.unacknowledged().await, 0);
}

/// What a user writes for a middleware of their own: it stands in either scope.
#[derive(Clone)]
struct Told(&'static str, Arc<Mutex<Vec<String>>>);

#[async_trait]
impl<T: Send + 'static> Middleware<T> for Told {
    async fn handle(
        &self,
        ctx: &mut Context<T>,
        next: Next<'_, T>,
    ) -> Result<Handled, HandlerError> {
        self.1.lock().unwrap().push(format!("to {}", self.0));
        let result = next.run(ctx).await;
        self.1.lock().unwrap().push(format!("from {}", self.0));
        result
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_written_is_the_order_met() {
    let world = World::new().await;
    let told = Arc::<Mutex<Vec<String>>>::default();
    let tell = |name| Told(name, told.clone());
    let consumer = world
        .consumer()
        .with(tell("a"))
        .with(tell("b"))
        .with(Transaction::new(world.transactions()))
        .with(tell("c"))
        .with(tell("d"))
        .handle(apply);
    let running = Running::start(consumer);
    world.place("k", [1]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    let expected = [
        "to a", "to b", "to c", "to d", "from d", "from c", "from b", "from a",
    ];
    assert_eq!(*told.lock().unwrap(), expected);
}

type PgPart = Part<PgTransactions>;

fn refusal(world: &World, acting: &Acting, parts: Vec<PgPart>) -> ChainError {
    match world.consumer().handle_dynamic(parts, acting.clone()) {
        Ok(_) => panic!("is no chain"),
        Err(error) => error,
    }
}

/// A4-07: without a transaction inbox and outbox are refused, in the stated words, before anything runs.
#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_transaction_is_refused_without_one() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, _| Act::Apply);
    world.place("k", [1]).await;
    let inbox = || PgPart::Inside("inbox", Arc::new(Inbox::new(world.inbox())));
    let outbox = || PgPart::Inside("outbox", Arc::new(CaptureOutbox::new(world.outbox())));
    let transaction = || PgPart::Transaction(Transaction::new(world.transactions()));
    let retry = || PgPart::Outside(Arc::new(retry()));
    let refused = |parts| refusal(&world, &acting, parts).to_string();
    for before in [vec![], vec![retry()]] {
        let parts = before.into_iter().chain([inbox(), transaction()]).collect();
        assert_eq!(
            refused(parts),
            "inbox: no transaction in context (TxMiddleware required)"
        );
    }
    let expected = "outbox: no transaction in context (TxMiddleware required)";
    assert_eq!(refused(vec![outbox()]), expected);
    let without = refusal(&world, &acting, vec![retry()]);
    assert_eq!(without, ChainError::HandlerWithoutTransaction);
    let misplaced = refusal(&world, &acting, vec![transaction(), retry()]);
    assert_eq!(misplaced, ChainError::Misplaced);
    let twice = refusal(&world, &acting, vec![transaction(), transaction()]);
    assert_eq!(twice, ChainError::SecondTransaction);
    assert!(acting.calls(1).is_empty());

    let parts = vec![retry(), transaction(), inbox(), outbox()];
    let whole = world
        .consumer()
        .handle_dynamic(parts, acting.clone())
        .unwrap();
    let running = Running::start(whole);
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(acting.calls(1).len(), 1);
    assert_eq!(world.database.count("processed_messages").await, 1);
}

/// A4-07: the compiler says the same where it can see the chain. This does not compile if the middleware stands
/// outside a transaction, because there would be two functions of this name.
#[test]
fn an_inbox_outside_a_transaction_does_not_compile() {
    trait Outside<Marker> {
        fn is_refused() {}
    }
    impl<M> Outside<()> for M {}
    impl<M: Middleware<()>> Outside<u8> for M {}
    <Inbox<PgInbox> as Outside<_>>::is_refused();
    <CaptureOutbox<Outbox> as Outside<_>>::is_refused();
}

/// A4-07: a message without an id is refused before the handler.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_an_id_is_refused_by_the_inbox() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, _| Act::Apply);
    let consumer = world
        .consumer()
        .with(world.dead_letter())
        .with(Transaction::new(world.transactions()))
        .with(Inbox::new(world.inbox()))
        .handle(acting.clone());
    let running = Running::start(consumer);
    let mut message = world.message(Uuid::now_v7(), "k", 1);
    message.headers.retain(|header| &*header.name != "event_id");
    world.publish(&[message]).await;
    let dead = world.until_dead(1).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(
        json(&dead[0])["errorMessage"],
        "inbox: message has no ID attribute"
    );
    assert_eq!(json(&dead[0])["eventId"], serde_json::Value::Null);
    assert!(acting.calls(1).is_empty());
    assert_eq!(world.effects().await, 0);
}

async fn untyped(ctx: &mut Context<Tx>, event: Event<bytes::Bytes>) -> Result<(), HandlerError> {
    note(
        ctx.tx(),
        event.id.as_str(),
        i64::try_from(event.payload.len())?,
    )
    .await
}

async fn counted(ctx: &mut Context<Tx>, event: Event<Placed>) -> Result<(), HandlerError> {
    note(ctx.tx(), event.id.as_str(), event.payload.order).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_may_take_bytes_or_one_of_several_types() {
    let world = World::new().await;
    let bytes = world
        .consumer()
        .with(Transaction::new(world.transactions()))
        .handle(raw(untyped));
    let running = Running::start(bytes);
    world
        .publish(&[world.message_of(Uuid::now_v7(), "k", *b"not json")])
        .await;
    world.until_effects(1).await;
    running.stop().await;

    let several = Handlers::new().on(counted).ignore("order.shipped");
    let typed = world
        .consumer()
        .with(Transaction::new(world.transactions()))
        .handle(several);
    let running = Running::start(typed);
    let mut shipped = world.message(Uuid::now_v7(), "k", 2);
    shipped.headers[1] = postrider::core::Header::new("event_type", "order.shipped");
    world
        .publish(&[shipped, world.message(Uuid::now_v7(), "k", 3)])
        .await;
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.applied().await, [8, 3]);
}

/// Outputs that would get lost are an error, and nothing of the delivery remains.
#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_nothing_captures_are_a_permanent_error() {
    let world = World::new().await;
    let consumer = world
        .consumer()
        .with(world.dead_letter())
        .with(Transaction::new(world.transactions()))
        .handle(follow_up);
    let running = Running::start(consumer);
    world.place("k", [1]).await;
    let dead = world.until_dead(1).await;
    running.stop().await;
    let error = json(&dead[0])["errorMessage"].to_string();
    assert!(error.contains("CaptureOutbox required"), "{error}");
    assert_eq!(world.effects().await, 0);
}
