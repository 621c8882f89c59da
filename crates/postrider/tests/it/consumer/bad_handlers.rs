//! Handlers and middlewares that panic or hang: the consumer goes on with the next message, and nothing is acknowledged
//! unhandled.

use async_trait::async_trait;
use postrider::Consumer;
use postrider::consumer::middleware::{Inbox, Transaction};
use postrider::consumer::{Context, HandlerFn, Middleware, Next};
use postrider::core::{Event, Handled, HandlerError};
use postrider::stores::postgres::Tx;

use super::acting::{Act, Acting, apply};
use super::bad_input::chain;
use super::settings::retry;
use super::world::{Placed, Running, World, until};
use crate::world::header;

fn troubled(world: &World, act: Act, bury: bool) -> (Consumer, Acting) {
    let acting = Acting::new(
        world,
        move |order, _| if order == 1 { act.clone() } else { Act::Apply },
    );
    let builder = world.consumer();
    let consumer = if bury {
        chain(
            world,
            builder
                .with(world.dead_letter().when_exhausted())
                .with(retry()),
        )
    } else {
        chain(world, builder)
    };
    (consumer.handle(acting.clone()), acting)
}

/// A handler that panics or hangs: its transaction is gone, its connection of use to others, the next message handled.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_or_hangs_is_given_up_and_the_next_message_handled() {
    for (act, error) in [
        (Act::Panic, "handler panicked: order 1 is a trap"),
        (Act::Hang, "not handled within 300ms"),
    ] {
        let world = World::new().await;
        world.place("k", 1..=5).await;
        let (consumer, acting) = troubled(&world, act.clone(), true);
        let running = Running::start(consumer);
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(
            (world.applied().await, acting.calls(1).len()),
            (vec![2, 3, 4, 5], 3),
            "{error}"
        );
        assert_eq!(header(&world.dead()[0], "dlt_error_message"), Some(error));
        assert_eq!(world.database.count("processed_messages").await, 4);
        until("no transaction is left open", 0, async || {
            let open = "pg_stat_activity WHERE state LIKE 'idle in transaction%' AND pid IN \
                        (SELECT pid FROM pg_locks WHERE relation = 'effects'::regclass)";
            world.database.count(open).await
        })
        .await;

        // Without a dead-letter topic it stays with the broker, and other keys go on.
        let world = World::new().await;
        world.place("k", [1, 2]).await;
        world.place("other", [3]).await;
        let (consumer, acting) = troubled(&world, act, false);
        let running = Running::start(consumer);
        world.until_effects(1).await;
        until("it comes again", true, async || acting.calls(1).len() >= 2).await;
        running.stop().await;
        assert_eq!(
            (world.applied().await, world.unacknowledged().await),
            (vec![3], 2),
            "{error}"
        );
    }
}

/// A statement of a handler's waits for a lock that somebody keeps: the event is given up in time all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_does_not_end_is_given_up_in_time() {
    let world = World::new().await;
    world.place("k", [1]).await;
    let mut other = world.database.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE effects IN EXCLUSIVE MODE")
        .execute(&mut *other)
        .await
        .unwrap();
    let (consumer, _) = troubled(&world, Act::Apply, true);
    let running = Running::start(consumer);
    until("it is dead-lettered", 1, async || world.dead().len()).await;
    other.rollback().await.unwrap();
    world.until_all_acknowledged().await;
    running.stop().await;
    assert!(world.applied().await.is_empty());
}

/// Panics for order 1, in either scope, before or after the rest has run.
struct Panics {
    after: bool,
}

#[async_trait]
impl<T: Send + 'static> Middleware<T> for Panics {
    async fn handle(
        &self,
        ctx: &mut Context<T>,
        next: Next<'_, T>,
    ) -> Result<Handled, HandlerError> {
        let order = ctx
            .opened()?
            .event::<Placed>(ctx.message())
            .map_err(HandlerError::permanent)?
            .payload
            .order;
        assert!(order != 1 || self.after, "a middleware's own bug");
        let result = next.run(ctx).await;
        assert!(order != 1, "a middleware's own bug");
        result
    }
}

/// A middleware that panics does not take the consumer with it, and its message is not acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_middleware_that_panics_loses_nothing_and_stops_nobody() {
    for (after, inside) in [(false, false), (true, false), (false, true), (true, true)] {
        let world = World::new().await;
        world.place("k", [1]).await;
        world.place("other", [2]).await;
        let transaction = Transaction::new(world.transactions()).batch(10);
        let consumer = if inside {
            world
                .consumer()
                .with(transaction)
                .with(Panics { after })
                .with(Inbox::new(world.inbox()))
                .handle(apply)
        } else {
            let builder = world.consumer().with(Panics { after }).with(transaction);
            builder.with(Inbox::new(world.inbox())).handle(apply)
        };
        let running = Running::start(consumer);
        world.until_metric("given_back_total", 2.0).await;
        until("the other is done", 1, async || {
            world.unacknowledged().await
        })
        .await;
        running.stop().await;
        // Outside and after, its effects were committed before it panicked; the inbox keeps it from having them again.
        let expected = if after && !inside {
            vec![1, 2]
        } else {
            vec![2]
        };
        let mut applied = world.applied().await;
        applied.sort_unstable();
        assert_eq!(applied, expected, "after: {after}, inside: {inside}");
        let running = Running::start(chain(&world, world.consumer()).handle(apply));
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(world.effects().await, 2, "after: {after}, inside: {inside}");
    }
}

/// Panics before it has a future to panic in.
struct Abrupt(Acting);

impl<'a> HandlerFn<'a, Tx, Placed, ()> for Abrupt {
    type Future = <Acting as HandlerFn<'a, Tx, Placed, ()>>::Future;

    fn call(&self, ctx: &'a mut Context<Tx>, event: Event<Placed>) -> Self::Future {
        assert!(event.payload.order != 1, "at the very start");
        self.0.call(ctx, event)
    }
}

/// A handler need not be an `async fn`; its panic is an error like another all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_panics_before_it_awaits_is_dead_lettered_too() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, _| Act::Apply);
    let builder = world
        .consumer()
        .with(world.dead_letter().when_exhausted())
        .with(retry());
    let running = Running::start(chain(&world, builder).handle(Abrupt(acting)));
    world.place("k", [1, 2]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    let dead = world.dead();
    assert_eq!(
        header(&dead[0], "dlt_error_message"),
        Some("handler panicked: at the very start")
    );
    assert_eq!(world.applied().await, [2]);
}
