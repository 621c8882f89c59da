//! A delivery that fails among others that share its transaction: it alone bears the consequences.

use std::time::Duration;

use async_trait::async_trait;
use postrider::Consumer;
use postrider::consumer::middleware::{Inbox, Retry, Timeout, Transaction};
use postrider::consumer::{Config, Context, Middleware, Next};
use postrider::core::{Handled, HandlerError};
use uuid::Uuid;

use super::acting::{Act, Acting, apply};
use super::settings::{config, quick};
use super::world::{Placed, Running, World, json};

fn one_worker() -> Config {
    Config {
        workers: 1,
        ..config()
    }
}

/// Retries and dead-letters in front of a batch of 20, with a time limit inside the transaction.
fn consumer(world: &World, acting: &Acting) -> Consumer {
    let tries = Retry {
        tries: 3,
        backoff: quick(),
    };
    world
        .consumer()
        .config(one_worker())
        .with(world.dead_letter().when_exhausted())
        .with(tries)
        .with(Transaction::new(world.transactions()).batch(20))
        .with(Timeout(Duration::from_millis(300)))
        .with(Inbox::new(world.inbox()))
        .handle(acting.clone())
}

/// Ten orders, each of a key of its own unless `key` says otherwise.
async fn place_ten(world: &World, key: impl Fn(i64) -> String) {
    let messages: Vec<_> = (1..=10)
        .map(|order| world.message(Uuid::now_v7(), &key(order), order))
        .collect();
    world.publish(&messages).await;
}

async fn applied_but_five(world: &World) {
    let mut applied = world.applied().await;
    applied.sort_unstable();
    assert_eq!(applied, [1, 2, 3, 4, 6, 7, 8, 9, 10]);
}

/// Whatever order 5 does for good, it alone is dead-lettered, and all others are applied exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_for_good_is_dead_lettered_alone() {
    for (act, error) in [
        (Act::Permanent, "order 5 is impossible"),
        (Act::Temporary, "order 5 fails for now"),
        (Act::Panic, "handler panicked: order 5 is a trap"),
        (Act::Hang, "not handled within 300ms"),
    ] {
        let world = World::new().await;
        let acting = Acting::new(
            &world,
            move |order, _| if order == 5 { act.clone() } else { Act::Apply },
        );
        place_ten(&world, |order| format!("k{order}")).await;
        let running = Running::start(consumer(&world, &acting));
        world.until_all_acknowledged().await;
        running.stop().await;
        applied_but_five(&world).await;
        assert_eq!(world.dead().len(), 1, "{error}");
        assert_eq!(json(&world.dead()[0])["errorMessage"], error);
        assert_eq!(world.database.count("processed_messages").await, 9);
        assert!(world.metric("batch_fallbacks_total") > 0.0);
    }
}

/// One that fails twice and then succeeds is retried alone: all ten are applied once, and in order where they share
/// a key.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_fails_for_a_while_is_retried_alone() {
    for one_key in [false, true] {
        let world = World::new().await;
        let acting = Acting::new(&world, |order, call| {
            if order == 5 && call <= 3 {
                Act::Temporary
            } else {
                Act::Apply
            }
        });
        place_ten(&world, |order| {
            if one_key {
                "k".into()
            } else {
                format!("k{order}")
            }
        })
        .await;
        let running = Running::start(consumer(&world, &acting));
        world.until_all_acknowledged().await;
        running.stop().await;
        let mut applied = world.applied().await;
        if !one_key {
            applied.sort_unstable();
        }
        assert_eq!((applied, world.dead().len()), (Vec::from_iter(1..=10), 0));
        assert_eq!(
            acting.calls(5).len(),
            4,
            "in the batch, and three times alone"
        );
    }
}

/// While an earlier event of a key is not handled, the later ones of its key wait with it; other keys go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_event_defers_the_later_ones_of_its_key() {
    let world = World::new().await;
    let acting = Acting::new(&world, |order, call| {
        if order == 3 && call <= 6 {
            Act::Temporary
        } else {
            Act::Apply
        }
    });
    place_ten(&world, |order| {
        if order % 2 == 1 {
            "odd".into()
        } else {
            "even".into()
        }
    })
    .await;
    let chain = world
        .consumer()
        .config(one_worker())
        .with(Transaction::new(world.transactions()).batch(20));
    let running = Running::start(chain.with(Inbox::new(world.inbox())).handle(acting.clone()));
    world.until_all_acknowledged().await;
    running.stop().await;
    let applied = world.applied().await;
    let of = |odd: i64| {
        applied
            .iter()
            .copied()
            .filter(|order| order % 2 == odd)
            .collect::<Vec<_>>()
    };
    assert_eq!((of(1), of(0)), (vec![1, 3, 5, 7, 9], vec![2, 4, 6, 8, 10]));
    let place = |order| applied.iter().position(|found| *found == order).unwrap();
    assert!(
        place(10) < place(3),
        "the even ones did not wait: {applied:?}"
    );
}

/// A user's own middleware that leaves early, fails or panics for one order, before the transaction.
struct Trouble(&'static str);

#[async_trait]
impl Middleware for Trouble {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let order = ctx
            .opened()?
            .event::<Placed>(ctx.message())
            .map_err(HandlerError::permanent)?
            .payload
            .order;
        match self.0 {
            _ if order != 5 => next.run(ctx).await,
            "skips" => Ok(Handled::Applied),
            "panics" if ctx.attempt() == 1 => panic!("before the transaction"),
            "fails" => Err(HandlerError::permanent("before the transaction")),
            "is slow" => {
                // It arrives when the others have been waiting for a while.
                tokio::time::sleep(Duration::from_millis(200)).await;
                next.run(ctx).await
            }
            "gives up" => {
                match tokio::time::timeout(Duration::from_millis(200), next.run(ctx)).await {
                    Ok(result) => result,
                    Err(_) => Err(HandlerError::temporary("gave up")),
                }
            }
            _ => next.run(ctx).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_before_the_transaction_does_not_hold_up_the_batch() {
    for (trouble, applied, dead) in [
        ("skips", 9, 0),
        ("panics", 10, 0),
        ("fails", 9, 1),
        ("is slow", 10, 0),
    ] {
        let world = World::new().await;
        place_ten(&world, |order| format!("k{order}")).await;
        let chain = world
            .consumer()
            .config(one_worker())
            .with(world.dead_letter())
            .with(Trouble(trouble));
        let chain = chain
            .with(Transaction::new(world.transactions()).batch(20))
            .with(Inbox::new(world.inbox()));
        let running = Running::start(chain.handle(apply));
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(
            (world.effects().await, world.dead().len()),
            (applied, dead),
            "{trouble}"
        );
    }
}

/// A time limit outside the transaction counts the wait for the others too; what it breaks off is done again.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_outside_the_transaction_breaks_the_batch_and_loses_nothing() {
    let world = World::new().await;
    let acting = Acting::new(&world, |order, call| {
        if order == 5 && call == 1 {
            Act::Hang
        } else {
            Act::Apply
        }
    });
    place_ten(&world, |order| format!("k{}", order % 3)).await;
    let chain = world
        .consumer()
        .config(one_worker())
        .with(Timeout(Duration::from_millis(500)));
    let chain = chain
        .with(Transaction::new(world.transactions()).batch(20))
        .with(Inbox::new(world.inbox()));
    let running = Running::start(chain.handle(acting));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.effects().await, 10);
    for key in 0..3 {
        let of_key: Vec<i64> = world
            .applied()
            .await
            .into_iter()
            .filter(|order| order % 3 == key)
            .collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
}

/// One that gives up while the commit of all is under way does not make the others run again.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_gives_up_during_the_commit_does_not_double_the_others() {
    let world = World::new().await;
    // The commit takes a second; there is no inbox that would hide a second run.
    world
        .database
        .execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW WHEN (NEW.order_id = 1) EXECUTE FUNCTION slow()",
        )
        .await;
    place_ten(&world, |order| format!("k{order}")).await;
    let chain = world
        .consumer()
        .config(one_worker())
        .with(Trouble("gives up"));
    let running = Running::start(
        chain
            .with(Transaction::new(world.transactions()).batch(20))
            .handle(apply),
    );
    world.until_all_acknowledged().await;
    running.stop().await;
    let mut applied = world.applied().await;
    applied.retain(|order| *order != 5);
    applied.sort_unstable();
    assert_eq!(applied, [1, 2, 3, 4, 6, 7, 8, 9, 10]);
}
