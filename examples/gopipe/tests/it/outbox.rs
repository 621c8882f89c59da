//! Task 3: what a handler returns stands in the outbox, in its transaction, and goes nowhere else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use example_gopipe::orders::{OrderPlaced, PlaceOrder, place_order};
use postrider::consumer::{Context, Middleware, Next};
use postrider::core::{Event, Handled, HandlerError};
use postrider::stores::postgres::Tx;

use crate::world::{Running, World, until, worlds};

async fn two_events(
    ctx: &mut Context<Tx>,
    command: Event<PlaceOrder>,
) -> Result<Vec<Event>, HandlerError> {
    let quantity = command.payload.quantity;
    let mut events = place_order(ctx, command).await?;
    let packed = serde_json::json!({ "parcels": quantity });
    events.push(Event::json("order-packed", &packed)?.header("tenant", "t-1"));
    Ok(events)
}

/// A4-09: two outputs are two rows with topic, type, data and attributes as JSON, unpublished; nothing flows downstream.
#[tokio::test(flavor = "multi_thread")]
async fn two_outputs_are_two_rows_and_nothing_flows_downstream() {
    for world in worlds().await {
        two_outputs_are_two_rows_on(&world).await;
    }
}

async fn two_outputs_are_two_rows_on(world: &World) {
    let running = Running::consumer(world.router().handle(two_events));
    world.send("abc-123").await;
    world.until_all_acknowledged().await;
    running.stop().await;
    let rows = "SELECT concat_ws('|', event_type, data ->> 'item', data ->> 'parcels', attributes ->> 'tenant', \
                attributes ->> 'causation_id', published) FROM outbox ORDER BY id";
    let expected = [
        "order-placed|lamp|abc-123|f",
        "order-packed|3|t-1|abc-123|f",
    ];
    assert_eq!(
        world.database.texts(rows).await,
        expected.map(|row| Some(row.to_owned()))
    );
    // Ids are made at capture, so that a repeated send can be recognised.
    let ids = "SELECT count(DISTINCT attributes ->> 'id') FROM outbox";
    assert_eq!(world.database.number(ids).await, 2);
    let to_events = format!("outbox WHERE topic = '{}'", world.events);
    assert_eq!(world.database.count(&to_events).await, 2);
    assert_eq!(world.sent().await, []);
}

async fn no_events(_: &mut Context<Tx>, _: Event<PlaceOrder>) -> Result<Vec<Event>, HandlerError> {
    Ok(Vec::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_without_outputs_leaves_the_outbox_alone() {
    for world in worlds().await {
        let running = Running::consumer(world.router().handle(no_events));
        world.send("abc-123").await;
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(world.rows().await, "1 0 0");
    }
}

/// Fails once, after everything behind it was written.
struct FailsOnce(Arc<AtomicUsize>);

#[async_trait]
impl Middleware<Tx> for FailsOnce {
    async fn handle(
        &self,
        ctx: &mut Context<Tx>,
        next: Next<'_, Tx>,
    ) -> Result<Handled, HandlerError> {
        let handled = next.run(ctx).await?;
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(HandlerError::temporary("after the writes")),
            _ => Ok(handled),
        }
    }
}

async fn fails(
    ctx: &mut Context<Tx>,
    command: Event<PlaceOrder>,
) -> Result<Vec<Event>, HandlerError> {
    place_order(ctx, command).await?;
    Err(HandlerError::temporary("after its writes"))
}

/// A4-06: an error after the writes leaves no row of the three; the message is given back and can be handled later.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_writes_leaves_nothing_and_is_given_back() {
    for world in worlds().await {
        is_given_back_on(&world).await;
    }
}

async fn is_given_back_on(world: &World) {
    world.send("abc-123").await;
    let running = Running::consumer(world.router().handle(fails));
    until("it is given back", true, async || {
        world.figure("given_back_total") >= 1.0
    })
    .await;
    running.stop().await;
    assert_eq!(world.rows().await, "0 0 0");
    assert_eq!(world.unacknowledged().await, 1);

    let calls = Arc::<AtomicUsize>::default();
    let router = world.router().with(FailsOnce(calls.clone()));
    let running = Running::consumer(router.handle(place_order));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(world.rows().await, "1 1 1");
    let stored = world.database.text("SELECT data::text FROM outbox").await;
    let placed: OrderPlaced = serde_json::from_str(&stored.unwrap()).unwrap();
    assert_eq!(placed.quantity, 3);
}
