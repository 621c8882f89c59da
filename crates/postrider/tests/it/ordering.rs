//! P3, order per key, on each kind of table: a flag, a status, a time, a stream.

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{Message, Ordering, PublishError, RecordState, Topic};
use postrider::relay::Config;
use postrider_testkit::eventually;
use postrider_testkit::history::{Seen, Verdict};

use crate::witness::{Answering, NotedStore};
use crate::world::{World, seen_sample, until_accepted, until_held};

const ENTITIES: usize = 30;
const EVENTS: i64 = 15;

/// The preset's table with order per key.
async fn ordered(preset: &str) -> World {
    World::with(preset, |layout| layout.ordering = Ordering::Key).await
}

fn log(world: &World, broker: &MemoryBroker) -> Vec<Seen> {
    let messages = broker.messages(&Topic::from(world.sample_topic()));
    messages.iter().map(seen_sample).collect()
}

/// Emits the events of all entities, each entity's in order, in transactions of random size.
async fn write_all(world: &World) -> Vec<Seen> {
    let mut next = [0; ENTITIES];
    let mut committed = Vec::new();
    while committed.len() < ENTITIES * EVENTS as usize {
        let mut batch = Vec::new();
        for _ in 0..fastrand::usize(1..20) {
            let entity = fastrand::usize(..next.len());
            if next[entity] < EVENTS {
                let key = format!("entity-{entity}");
                batch.push(Seen {
                    key,
                    number: next[entity],
                });
                next[entity] += 1;
            }
        }
        let event = |seen: &Seen| world.numbered_sample(&seen.key, seen.number);
        world.emit(batch.iter().map(event)).await;
        committed.extend(batch);
    }
    committed
}

/// Three relays, a broker that fails at random and goes away once, and a writer.
async fn order_is_kept_on(preset: &str) {
    let mut world = ordered(preset).await;
    world.max_attempts = 1000;
    let broker = MemoryBroker::default();
    broker.fail_next(u32::MAX, Fault::Transient, |_| fastrand::u32(..12) == 0);
    broker.fail_next(20, Fault::AckLost, |_| fastrand::u32(..30) == 0);
    let start = || {
        world
            .relay(broker.clone())
            .config(|config| config.batch = 30)
            .start()
    };
    let relays = [start(), start(), start()];
    let outage = async {
        until_accepted(&broker, world.sample_topic(), 100).await;
        broker.stop();
        relays[0].until_metric("postrider_breaker_open", 1.0).await;
        broker.start();
    };
    let (committed, ()) = tokio::join!(write_all(&world), outage);
    world.until_drained().await;
    for relay in relays {
        relay.stop().await;
    }
    Verdict::of(&committed, &log(&world, &broker)).assert_clean();
}

/// A3-07: many entities, random failures, an outage, several relays: each entity's events appear in
/// order on their topic.
#[tokio::test(flavor = "multi_thread")]
async fn each_entitys_events_appear_in_order_under_failures_and_several_relays() {
    order_is_kept_on("polyshop").await;
}

/// A3-07 on a table that is claimed by lease.
#[tokio::test(flavor = "multi_thread")]
async fn each_keys_events_appear_in_order_with_leases() {
    order_is_kept_on("talkie").await;
}

/// A3-07 on a table that has no column for the time of the next attempt.
#[tokio::test(flavor = "multi_thread")]
async fn each_aggregates_events_appear_in_order_without_a_retry_column() {
    order_is_kept_on("packfinderz").await;
}

/// A3-07 on a table that is never written again, read as a stream.
#[tokio::test(flavor = "multi_thread")]
async fn each_keys_events_appear_in_order_in_a_stream() {
    order_is_kept_on("native").await;
}

/// What commits first comes first, whatever its transaction's age: a long transaction is open, one began
/// early and wrote late, and one did both quickly.
#[tokio::test]
async fn the_first_to_commit_on_a_key_comes_first_though_its_transaction_began_last() {
    for preset in ["polyshop", "talkie", "packfinderz", "native"] {
        let world = ordered(preset).await;
        world
            .execute("CREATE TABLE keys (key text); INSERT INTO keys VALUES ('k')")
            .await;
        world.execute("CREATE TABLE elsewhere (n int)").await;
        let broker = MemoryBroker::default();
        let relay = world.relay(broker.clone()).start();
        let outbox = world.outbox();
        let lock = "SELECT 1 FROM keys WHERE key = 'k' FOR UPDATE";
        let write = "INSERT INTO elsewhere VALUES (1)";

        let mut early = world.pool().begin().await.unwrap();
        sqlx::query(write).execute(&mut *early).await.unwrap();
        let mut open = world.pool().begin().await.unwrap();
        sqlx::query(write).execute(&mut *open).await.unwrap();
        let mut quick = world.pool().begin().await.unwrap();
        sqlx::query(lock).execute(&mut *quick).await.unwrap();
        outbox
            .emit(&mut quick, world.numbered_sample("k", 1))
            .await
            .unwrap();
        quick.commit().await.unwrap();
        sqlx::query(lock).execute(&mut *early).await.unwrap();
        outbox
            .emit(&mut early, world.numbered_sample("k", 2))
            .await
            .unwrap();
        early.commit().await.unwrap();

        until_accepted(&broker, world.sample_topic(), 2).await;
        open.commit().await.unwrap();
        world.until_drained().await;
        relay.stop().await;
        let numbers: Vec<i64> = log(&world, &broker)
            .iter()
            .map(|seen| seen.number)
            .collect();
        assert_eq!(numbers, [1, 2], "{preset}");
    }
}

/// Both were there before the relay looked; the one that began last still comes first.
#[tokio::test]
async fn a_backlog_is_read_in_the_order_of_its_inserts_not_of_its_transactions() {
    for preset in ["polyshop", "talkie", "packfinderz", "native"] {
        let world = ordered(preset).await;
        let outbox = world.outbox();
        let mut early = world.pool().begin().await.unwrap();
        sqlx::query("SELECT now()")
            .execute(&mut *early)
            .await
            .unwrap();
        world.emit([world.numbered_sample("k", 1)]).await;
        outbox
            .emit(&mut early, world.numbered_sample("k", 2))
            .await
            .unwrap();
        early.commit().await.unwrap();
        let broker = MemoryBroker::default();
        let relay = world.relay(broker.clone()).start();
        world.until_drained().await;
        relay.stop().await;
        let numbers: Vec<i64> = log(&world, &broker)
            .iter()
            .map(|seen| seen.number)
            .collect();
        assert_eq!(numbers, [1, 2], "{preset}");
    }
}

/// While one relay sends a key's first events, another is given none of its later ones, and is not kept
/// waiting for an answer.
#[tokio::test]
async fn a_key_is_in_one_relays_hands_at_a_time() {
    for preset in ["polyshop", "talkie", "packfinderz", "native"] {
        let world = ordered(preset).await;
        world
            .emit((1..=4).map(|number| world.numbered_sample("k", number)))
            .await;
        let (slow, quick) = (MemoryBroker::default(), MemoryBroker::default());
        slow.block();
        let small = |config: &mut Config| (config.batch, config.claims) = (2, 1);
        let first = world.relay(slow.clone()).config(small).start();
        until_held(&slow, 1).await;
        let (store, asked) = NotedStore::new(world.store());
        let second = world
            .relay(quick.clone())
            .store(store)
            .config(small)
            .start();
        eventually("the second relay has asked often", async || {
            if asked.count() >= 10 {
                Ok(())
            } else {
                Err(asked.count())
            }
        })
        .await;
        assert!(
            asked.all().iter().all(|asked| asked.records.is_empty()),
            "{preset}"
        );
        slow.release();
        world.until_drained().await;
        first.stop().await;
        second.stop().await;
        let numbers = |broker| log(&world, broker).into_iter().map(|seen| seen.number);
        let (mut of_first, of_second) = (numbers(&slow), numbers(&quick));
        assert_eq!(
            (of_first.next(), of_first.next()),
            (Some(1), Some(2)),
            "{preset}"
        );
        assert_eq!(of_first.len() + of_second.len(), 2, "{preset}");
    }
}

/// A broker that fails every message of a batch is believed for the first of a key only: the others were not
/// tried in their turn, and are not counted.
#[tokio::test]
async fn what_fails_behind_a_failed_event_of_its_key_is_not_counted() {
    for preset in ["packfinderz", "native"] {
        let world = ordered(preset).await;
        world
            .emit((1..=3).map(|number| world.numbered_sample("k", number)))
            .await;
        let broker = Answering(|_: &Message| {
            Err(PublishError::Failed {
                reason: "no".into(),
            })
        });
        let relay = world.relay(broker).start();
        let left = async || {
            let mut left = world.in_state(RecordState::Waiting).await;
            left.append(&mut world.in_state(RecordState::Pending).await);
            left
        };
        eventually("the first is tried three times", async || {
            let left = left().await;
            let tried = left.iter().any(|row| row.attempts >= 3);
            tried.then_some(()).ok_or(left)
        })
        .await;
        relay.stop().await;
        let mut attempts: Vec<u32> = left().await.iter().map(|row| row.attempts).collect();
        attempts.sort_unstable();
        assert_eq!(attempts[..2], [0, 0], "{preset}");
        assert_eq!(attempts.len(), 3, "{preset}");
    }
}

/// Somebody else's lock on a row may hold its key up, but lets no later row of the key pass.
#[tokio::test]
async fn a_locked_row_is_not_overtaken_by_its_key() {
    for preset in ["polyshop", "talkie", "packfinderz"] {
        let world = ordered(preset).await;
        let first = world.numbered_sample("a", 1);
        world
            .emit([first.clone(), world.numbered_sample("a", 2)])
            .await;
        let mut tx = world.pool().begin().await.unwrap();
        let table = world.layout.table.quoted();
        let lock = format!("SELECT 1 FROM {table} WHERE id = '{}' FOR UPDATE", first.id);
        sqlx::query(sqlx::AssertSqlSafe(lock))
            .execute(&mut *tx)
            .await
            .unwrap();
        let pid = sqlx::query_scalar("SELECT pg_backend_pid()")
            .fetch_one(&mut *tx)
            .await;
        let locker: i32 = pid.unwrap();
        let broker = MemoryBroker::default();
        let relay = world.relay(broker.clone()).start();
        let waiting = format!(
            "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND {locker} = ANY(pg_blocking_pids(pid))"
        );
        eventually("the relay has met the lock", async || {
            world.flag(&waiting).await.then_some(()).ok_or("not yet")
        })
        .await;
        assert!(log(&world, &broker).is_empty(), "{preset}");
        tx.rollback().await.unwrap();
        world.until_drained().await;
        relay.stop().await;
        let numbers: Vec<i64> = log(&world, &broker)
            .iter()
            .map(|seen| seen.number)
            .collect();
        assert_eq!(numbers, [1, 2], "{preset}");
    }
}
