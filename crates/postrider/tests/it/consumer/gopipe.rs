//! gopipe: inbox, business and outbox rows in one transaction, acknowledged after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use postrider::consumer::middleware::{CaptureOutbox, Inbox, Transaction};
use postrider::consumer::{Consumer, Context, Middleware, Next};
use postrider::core::{Handled, HandlerError, Topic};
use postrider::stores::postgres::Tx;
use uuid::Uuid;

use super::acting::{Act, Acting, FOLLOW_UPS, Gate, apply, follow_up};
use super::world::{Running, World, until};
use crate::world::header;

/// Rows of the inbox, of the business and of the outbox, as one look sees them.
async fn rows(world: &World) -> [i64; 3] {
    let seen = "SELECT (SELECT count(*) FROM processed_messages) || ',' || (SELECT count(*) FROM effects) \
                || ',' || (SELECT count(*) FROM outbox)";
    let seen = world.database.text(seen).await.unwrap();
    let counts: Vec<i64> = seen
        .split(',')
        .map(|count| count.parse().unwrap())
        .collect();
    counts.try_into().unwrap()
}

pub(super) fn consumer(world: &World) -> Consumer {
    world
        .consumer()
        .with(Transaction::new(world.transactions()))
        .with(Inbox::new(world.inbox()))
        .with(CaptureOutbox::new(world.outbox()))
        .handle(follow_up)
}

/// Makes every commit that has effects wait for the advisory lock that this connection holds.
async fn hold_commits(world: &World, lock: i64) -> sqlx::pool::PoolConnection<sqlx::Postgres> {
    world
        .database
        .execute(&format!(
            "CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$ \
             BEGIN PERFORM pg_advisory_xact_lock({lock}); RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION wait_for_test()"
        ))
        .await;
    let mut holder = world.database.pool.acquire().await.unwrap();
    sqlx::query("SELECT pg_advisory_lock($1)")
        .bind(lock)
        .execute(&mut *holder)
        .await
        .unwrap();
    holder
}

/// A4-03: the three rows appear together at commit, and the broker is told after it.
#[tokio::test(flavor = "multi_thread")]
async fn three_rows_appear_together_and_the_acknowledgement_comes_after() {
    let world = World::new().await;
    let lock = i64::from_ne_bytes(Uuid::now_v7().into_bytes()[8..].try_into().unwrap());
    let mut holder = hold_commits(&world, lock).await;
    let running = Running::start(consumer(&world));
    world
        .publish(&[world.message(Uuid::now_v7(), "abc-123", 1)])
        .await;
    let waiting = format!(
        "pg_locks WHERE locktype = 'advisory' AND NOT granted AND ((classid::int8 << 32) | objid::int8) = {lock}"
    );
    until("the commit waits", 1, async || {
        world.database.count(&waiting).await
    })
    .await;
    assert_eq!(rows(&world).await, [0, 0, 0]);
    assert_eq!(
        world.unacknowledged().await,
        1,
        "acknowledged before the commit"
    );

    sqlx::query("SELECT pg_advisory_unlock($1)")
        .bind(lock)
        .execute(&mut *holder)
        .await
        .unwrap();
    until("the commit", [1, 1, 2], async || {
        let seen = rows(&world).await;
        assert!(
            [[0, 0, 0], [1, 1, 2]].contains(&seen),
            "not together: {seen:?}"
        );
        seen
    })
    .await;
    world.until_all_acknowledged().await;
    running.stop().await;
}

/// A4-04: a duplicate is not handled and has no output; its commit succeeds and it is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_acknowledged_without_the_handler() {
    let world = World::new().await;
    let message = world.message(Uuid::now_v7(), "k", 1);
    let running = Running::start(consumer(&world));
    world.publish(std::slice::from_ref(&message)).await;
    world.until_all_acknowledged().await;
    world.publish(&[message.clone(), message]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(rows(&world).await, [1, 1, 2]);
    let figures = ["handled_total", "duplicates_total", "given_back_total"];
    assert_eq!(figures.map(|name| world.metric(name)), [1.0, 2.0, 0.0]);
}

/// A4-05: another subscriber handles the same id, whether it has a name of its own or that of its consumer.
#[tokio::test(flavor = "multi_thread")]
async fn another_subscriber_handles_the_same_message() {
    let world = World::new().await;
    world.place("k", [1]).await;
    for (wanted, group) in [(1, "payments"), (2, "shipping")] {
        let consumer = world
            .named(group)
            .with(Transaction::new(world.transactions()));
        let running = Running::start(consumer.with(Inbox::new(world.inbox())).handle(apply));
        world.until_effects(wanted).await;
        running.stop().await;
    }
    let again = world
        .named("audit")
        .with(Transaction::new(world.transactions()));
    let inbox = Inbox::new(world.inbox()).subscriber("ledger");
    let running = Running::start(again.with(inbox).handle(apply));
    world.until_effects(3).await;
    running.stop().await;
    let entries = world
        .database
        .texts("SELECT subscriber FROM processed_messages ORDER BY 1")
        .await;
    assert_eq!(
        entries,
        ["ledger", "payments", "shipping"].map(|name| Some(name.to_owned()))
    );
}

/// Fails once, after everything that stands behind it has been written.
struct FailsOnceAfterAll(Arc<AtomicUsize>);

#[async_trait]
impl Middleware<Tx> for FailsOnceAfterAll {
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

/// A4-06: an error after the writes leaves no row; the message is given back and handled later.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_writes_leaves_nothing_and_is_given_back() {
    let world = World::new().await;
    let (calls, gate) = (Arc::<AtomicUsize>::default(), Gate::new());
    let at_second = gate.clone();
    let acting = Acting::new(&world, move |_, call| {
        if call == 2 {
            Act::Wait(at_second.clone())
        } else {
            Act::Apply
        }
    });
    let consumer = world
        .consumer()
        .with(Transaction::new(world.transactions()))
        .with(FailsOnceAfterAll(calls.clone()))
        .with(Inbox::new(world.inbox()))
        .with(CaptureOutbox::new(world.outbox()));
    let running = Running::start(consumer.handle(acting.clone()));
    world.place("k", [1]).await;
    gate.reached().await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(rows(&world).await, [0, 0, 0]);
    assert_eq!(world.unacknowledged().await, 1);
    assert_eq!(world.metric("given_back_total"), 1.0);
    gate.open();
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(rows(&world).await, [1, 1, 0]);
    assert_eq!(acting.calls(1).len(), 2);
}

/// A4-06: the same with outputs, which stood in the outbox when the error came.
#[tokio::test(flavor = "multi_thread")]
async fn captured_outputs_go_with_the_transaction() {
    let world = World::new().await;
    let calls = Arc::<AtomicUsize>::default();
    let consumer = world
        .consumer()
        .with(Transaction::new(world.transactions()))
        .with(FailsOnceAfterAll(calls.clone()))
        .with(Inbox::new(world.inbox()))
        .with(CaptureOutbox::new(world.outbox()));
    let running = Running::start(consumer.handle(follow_up));
    world.place("k", [1]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(
        (rows(&world).await, calls.load(Ordering::SeqCst)),
        ([1, 1, 2], 2)
    );
}

/// A4-09: two outputs are two unpublished rows with all their columns, and nothing flows downstream.
#[tokio::test(flavor = "multi_thread")]
async fn two_outputs_are_two_rows_and_nothing_downstream() {
    let world = World::new().await;
    let message = world.message(Uuid::now_v7(), "k", 1);
    let cause = header(&message, "event_id").unwrap().to_owned();
    let running = Running::start(consumer(&world));
    world.publish(&[message]).await;
    world.until_all_acknowledged().await;
    running.stop().await;
    let select = "SELECT topic || '|' || event_type || '|' || (data ->> 'a') || '|' || published \
                  || '|' || (attributes::jsonb ->> 'causation_id') FROM outbox ORDER BY id";
    let row = |event_type| Some(format!("{FOLLOW_UPS}|{event_type}|1|false|{cause}"));
    assert_eq!(
        world.database.texts(select).await,
        [row("first"), row("second")]
    );
    let ids = "SELECT DISTINCT attributes::jsonb ->> 'id' FROM outbox";
    assert_eq!(world.database.texts(ids).await.len(), 2);
    for topic in [FOLLOW_UPS, "first", "second", "orders.dlt"] {
        assert_eq!(world.broker.accepted(&Topic::from(topic)), 0, "{topic}");
    }
    assert_eq!(world.broker.accepted(&world.topic), 1);
}
