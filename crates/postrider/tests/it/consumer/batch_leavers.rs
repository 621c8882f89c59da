//! Deliveries that leave a batch before their turn in its transaction comes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use postrider::consumer::middleware::{Inbox, Transaction};
use postrider::consumer::{Config, Consumer, Context, Middleware, Next};
use postrider::core::{Handled, HandlerError};
use uuid::Uuid;

use super::acting::apply;
use super::settings::config;
use super::world::{Placed, Running, World};

/// Stands before the transaction and notes who passes. At its first delivery order 5 fails there, late; order 6 never
/// needs the transaction.
#[derive(Clone, Default)]
struct Door(Arc<Mutex<Vec<i64>>>);

#[async_trait]
impl Middleware for Door {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let event = ctx.opened()?.event::<Placed>(ctx.message());
        let order = event.map_err(HandlerError::permanent)?.payload.order;
        self.0.lock().unwrap().push(order);
        match order {
            5 if ctx.attempt() == 1 => {
                // By now those before it have run, and an inbox may have been asked about all.
                tokio::time::sleep(Duration::from_millis(300)).await;
                Err(HandlerError::temporary("at the door"))
            }
            6 => Ok(Handled::Applied),
            _ => next.run(ctx).await,
        }
    }
}

fn consumer(world: &World, door: &Door) -> Consumer {
    let one = Config {
        workers: 1,
        ..config()
    };
    let chain = world.consumer().config(one).with(door.clone());
    let transaction = Transaction::new(world.transactions()).batch(20);
    let inbox = Inbox::new(world.inbox());
    chain.with(transaction).with(inbox).handle(apply)
}

/// One that leaves was perhaps entered in the inbox with the others. It must not count as seen: it comes again, and has
/// its effect then.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_leaves_is_not_remembered_as_seen() {
    let world = World::new().await;
    let door = Door::default();
    for order in [1, 2, 5, 7] {
        let message = world.message(Uuid::now_v7(), &format!("k{order}"), order);
        world.publish(&[message]).await;
    }
    let running = Running::start(consumer(&world, &door));
    world.until_all_acknowledged().await;
    running.stop().await;
    let mut applied = world.applied().await;
    applied.sort_unstable();
    assert_eq!(applied, [1, 2, 5, 7]);
    assert_eq!(world.metric("duplicates_total"), 0.0);
}

/// What is done is not acknowledged while an earlier event of its key is not: it would be out of order.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_before_an_earlier_event_of_its_key() {
    let world = World::new().await;
    let door = Door::default();
    world.place("k", [5, 6]).await;
    let running = Running::start(consumer(&world, &door));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.applied().await, [5]);
    let passed = door.0.lock().unwrap().clone();
    assert_eq!(passed.last(), Some(&6), "{passed:?}");
    assert_eq!(passed.len(), 4, "{passed:?}");
}

/// 6 is done without the transaction, but 5 before it is not: so 7 waits for 5.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_handled_lets_nobody_pass_an_earlier_one_that_was_not() {
    let world = World::new().await;
    world.place("k", [5, 6, 7]).await;
    let running = Running::start(consumer(&world, &Door::default()));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.applied().await, [5, 7]);
}
