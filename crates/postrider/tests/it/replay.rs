//! What was published is sent again: all of it, in order, marked, and nothing in the outbox changes.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use postrider::Replay;
use postrider::brokers::memory::{Fault, MemoryBroker, MemoryConfig};
use postrider::core::{
    Actor, Audit as _, Backoff, Message, RecordFilter, RecordState, Router, Routes, Topic,
};
use postrider::replay::{Progress, REPLAY_HEADER, ReplayOptions, ReplayState};
use postrider_testkit::eventually;
use tokio_util::sync::CancellationToken;

use crate::world::{World, header, seen_sample};

const TOPIC: &str = "samples";

/// Layouts whose rows say that they were published, and one whose rows never change.
const LAYOUTS: [&str; 2] = ["polyshop", "native"];

/// An outbox with `count` published records of three keys, and the broker that has them.
async fn published(count: i64) -> (World, MemoryBroker) {
    published_on("polyshop", count).await
}

async fn published_on(preset: &str, count: i64) -> (World, MemoryBroker) {
    let world = World::new(preset).await;
    let numbers = 0..count;
    world
        .emit(numbers.map(|number| {
            let key = ["a", "b", "c"][number as usize % 3];
            world.numbered_sample(key, number)
        }))
        .await;
    let broker = MemoryBroker::default();
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    (world, broker)
}

fn options() -> ReplayOptions {
    ReplayOptions {
        batch: 5,
        publish_timeout: Duration::from_secs(5),
        backoff: Backoff::new(Duration::from_millis(10), Duration::from_millis(50)),
        ..ReplayOptions::default()
    }
}

fn replay(world: &World, to: &MemoryBroker, options: ReplayOptions) -> Replay {
    let router = Router::new(&world.layout, Routes::new(), None);
    Replay::new(
        Arc::new(world.store()),
        Arc::new(to.clone()),
        router,
        options,
    )
}

async fn run(world: &World, to: &MemoryBroker, options: ReplayOptions) -> Progress {
    let (by, stop) = (Actor("a test".into()), CancellationToken::new());
    replay(world, to, options).run(&by, stop).await
}

fn messages(broker: &MemoryBroker) -> Vec<Message> {
    broker.messages(&Topic::from(TOPIC))
}

fn numbers(broker: &MemoryBroker) -> Vec<i64> {
    let messages = messages(broker);
    messages.iter().map(|it| seen_sample(it).number).collect()
}

/// The whole table as text.
async fn rows(world: &World) -> Vec<Option<String>> {
    let (table, id) = (
        world.layout.table.quoted(),
        world.layout.columns.id.quoted(),
    );
    world
        .column(&format!("SELECT t::text FROM {table} t ORDER BY {id}"))
        .await
}

#[tokio::test]
async fn what_was_published_is_sent_again_in_order_and_marked() {
    for preset in LAYOUTS {
        is_sent_again_in_order_and_marked_on(preset).await;
    }
}

async fn is_sent_again_in_order_and_marked_on(preset: &str) {
    let (world, first) = published_on(preset, 23).await;
    let waits = world.numbered_sample("a", 99);
    world.emit([waits]).await;
    let before = rows(&world).await;
    let again = MemoryBroker::default();
    let ended = run(&world, &again, options()).await;
    assert_eq!((ended.state, ended.error), (ReplayState::Done, None));
    assert_eq!((ended.sent, ended.total, ended.skipped), (23, 23, 0));
    assert_eq!(numbers(&again), (0..23).collect::<Vec<i64>>());
    let began = ended.started_at.to_string();
    for (sent, original) in std::iter::zip(messages(&again), messages(&first)) {
        assert_eq!(header(&sent, REPLAY_HEADER), Some(began.as_str()));
        assert_eq!(header(&original, REPLAY_HEADER), None);
    }
    for sent in messages(&again) {
        let id = header(&sent, "event_id");
        let original = messages(&first)
            .into_iter()
            .find(|it| header(it, "event_id") == id)
            .unwrap();
        assert_eq!(
            (&sent.key, &sent.payload),
            (&original.key, &original.payload)
        );
    }
    assert_eq!(rows(&world).await, before);
    let acts = world.store().audited(None, 10).await.unwrap();
    let details: Vec<&str> = acts
        .iter()
        .filter_map(|it| it.act.detail.as_deref())
        .collect();
    assert_eq!(details.len(), 2);
    assert!(details[0].starts_with("done with 23 of 23"), "{details:?}");
    assert!(
        details[1].starts_with("begins with 23 records"),
        "{details:?}"
    );
}

#[tokio::test]
async fn a_filter_a_topic_and_one_record_of_it() {
    for preset in LAYOUTS {
        a_filter_a_topic_and_one_record_of_it_on(preset).await;
    }
}

async fn a_filter_a_topic_and_one_record_of_it_on(preset: &str) {
    let (world, _) = published_on(preset, 9).await;
    let again = MemoryBroker::default();
    let of_a_key = ReplayOptions {
        filter: RecordFilter {
            key: Some("b".into()),
            ..RecordFilter::default()
        },
        to_topic: Some("elsewhere".into()),
        ..options()
    };
    assert_eq!(run(&world, &again, of_a_key).await.sent, 3);
    assert_eq!(again.accepted(&"elsewhere".into()), 3);
    assert_eq!(messages(&again).len(), 0);
    let published = world.in_state(RecordState::Published).await;
    let one = ReplayOptions {
        filter: RecordFilter {
            ids: vec![published[0].id.clone()],
            ..RecordFilter::default()
        },
        ..options()
    };
    assert_eq!(run(&world, &again, one.clone()).await.sent, 1);
    let acts = world
        .store()
        .audited(one.filter.ids.first(), 10)
        .await
        .unwrap();
    assert_eq!(acts.len(), 2, "the record's own history knows");
}

/// P6: an outage is waited for, and what was not acknowledged goes again.
#[tokio::test]
async fn an_outage_is_waited_for() {
    let (world, _) = published(23).await;
    let again = MemoryBroker::default();
    again.stop();
    let replay = replay(&world, &again, options());
    let mut progress = replay.progress();
    let running = tokio::spawn(async move {
        let by = Actor("a test".into());
        replay.run(&by, CancellationToken::new()).await
    });
    let waits = progress
        .wait_for(|now| now.waiting.is_some())
        .await
        .unwrap()
        .clone();
    assert!(waits.waiting.unwrap().contains("stopped"));
    again.fail_next(1, Fault::AckLost, |message| {
        seen_sample(message).number == 12
    });
    again.start();
    let ended = running.await.unwrap();
    assert_eq!((ended.state, ended.sent), (ReplayState::Done, 23));
    assert_eq!(ended.waiting, None);
    let mut twice: Vec<i64> = numbers(&again);
    twice.sort_unstable();
    let expected: Vec<i64> = (0..=12).chain(12..23).collect();
    assert_eq!(
        twice, expected,
        "the one whose acknowledgement was lost is there twice"
    );
}

/// A later record of a key waits for an earlier one that failed.
#[tokio::test]
async fn order_per_key_is_kept_across_failures() {
    for preset in LAYOUTS {
        order_is_kept_across_failures_on(preset).await;
    }
}

async fn order_is_kept_across_failures_on(preset: &str) {
    let (world, _) = published_on(preset, 24).await;
    let again = MemoryBroker::default();
    for number in [3, 7, 16] {
        let hit = move |message: &Message| seen_sample(message).number == number;
        again.fail_next(2, Fault::Transient, hit);
    }
    let ended = run(&world, &again, options()).await;
    assert_eq!((ended.state, ended.sent), (ReplayState::Done, 24));
    for key in 0..3 {
        let of_key: Vec<i64> = numbers(&again)
            .into_iter()
            .filter(|n| n % 3 == key)
            .collect();
        assert_eq!(of_key, (0..8).map(|n| n * 3 + key).collect::<Vec<i64>>());
    }
}

/// Whatever it was doing when it ended, the next one goes on without loss, and repeats one batch at most.
#[tokio::test]
async fn a_replay_that_was_stopped_or_killed_goes_on() {
    for (killed, preset) in [(false, "polyshop"), (true, "polyshop"), (true, "native")] {
        let (world, _) = published_on(preset, 43).await;
        let again = MemoryBroker::default();
        let slow = ReplayOptions {
            rate: NonZeroU32::new(40),
            ..options()
        };
        let first = replay(&world, &again, slow);
        let (stop, mut progress) = (CancellationToken::new(), first.progress());
        let stopping = stop.clone();
        let running = tokio::spawn(async move {
            let by = Actor("a test".into());
            first.run(&by, stopping).await
        });
        progress.wait_for(|now| now.sent >= 11).await.unwrap();
        if killed {
            again.block();
            again.wait_until_held(1).await;
            running.abort();
        } else {
            stop.cancel();
        }
        let ended = running.await;
        let resume = progress.borrow().resume.clone();
        if let Ok(ended) = ended {
            assert_eq!(ended.state, ReplayState::Stopped);
            assert!(ended.sent < 43, "{ended:?}");
        }
        again.release();
        let next = ReplayOptions {
            from: Some(resume.unwrap().to_string().parse().unwrap()),
            ..options()
        };
        let ended = run(&world, &again, next).await;
        assert_eq!(
            (ended.state, ended.sent, ended.total),
            (ReplayState::Done, 43, 43)
        );
        let all = numbers(&again);
        let mut distinct = all.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct, (0..43).collect::<Vec<i64>>());
        assert!(all.len() <= 43 + 5, "{all:?}");
    }
}

#[tokio::test]
async fn a_stop_does_not_wait_for_an_outage_to_end() {
    let (world, _) = published(3).await;
    let again = MemoryBroker::default();
    again.stop();
    let replay = replay(&world, &again, options());
    let (stop, mut progress) = (CancellationToken::new(), replay.progress());
    let by = Actor("a test".into());
    let running = replay.run(&by, stop.clone());
    let (ended, ()) = tokio::join!(running, async {
        progress
            .wait_for(|now| now.waiting.is_some())
            .await
            .unwrap();
        stop.cancel();
    });
    assert_eq!((ended.state, ended.sent), (ReplayState::Stopped, 0));
}

#[tokio::test]
async fn a_record_that_is_refused_ends_the_replay_or_is_left_out() {
    let (world, _) = published(9).await;
    world
        .execute("UPDATE outbox_events SET payload = jsonb_set(payload::jsonb, '{key}', to_jsonb(repeat('x', 3000)))::json \
                  WHERE (payload->>'number')::int = 4")
        .await;
    let small = || {
        MemoryBroker::new(MemoryConfig {
            message_bytes_max: 2_000,
            ..MemoryConfig::default()
        })
    };
    let broker = small();
    let ended = run(&world, &broker, options()).await;
    let id = world
        .text("SELECT id::text FROM outbox_events WHERE (payload->>'number')::int = 4")
        .await;
    assert_eq!(ended.state, ReplayState::Failed);
    assert!(ended.error.as_ref().unwrap().contains(&id), "{ended:?}");
    let lenient = ReplayOptions {
        skip: true,
        ..options()
    };
    let broker = small();
    let ended = run(&world, &broker, lenient).await;
    assert_eq!(
        (ended.state, ended.sent, ended.skipped),
        (ReplayState::Done, 8, 1)
    );
    assert!(ended.error.unwrap().contains(&id));
    assert_eq!(numbers(&broker), [0, 1, 2, 3, 5, 6, 7, 8]);
}

/// A transient failure that never ends is told, with the record and the reason.
#[tokio::test]
async fn a_record_that_always_fails_ends_the_replay() {
    let (world, _) = published(3).await;
    let again = MemoryBroker::default();
    again.fail_next(1_000, Fault::Transient, |_| true);
    let ended = run(&world, &again, options()).await;
    assert_eq!((ended.state, ended.sent), (ReplayState::Failed, 0));
    assert!(ended.error.unwrap().contains("10 times in a row"));
}

#[tokio::test]
async fn without_the_audit_table_nothing_is_sent() {
    let (world, _) = published(3).await;
    world.execute("DROP TABLE postrider_audit").await;
    let again = MemoryBroker::default();
    let ended = run(&world, &again, options()).await;
    assert_eq!(
        (ended.state, messages(&again).len()),
        (ReplayState::Failed, 0)
    );
    assert!(ended.error.unwrap().contains("postrider init"));
}

/// A service that passes headers on must not make a record look replayed for ever, or twice.
#[tokio::test]
async fn a_mark_that_a_row_brings_along_is_replaced() {
    let world = World::new("gopipe").await;
    let event = world
        .sample("a")
        .header(REPLAY_HEADER, "2001-01-01T00:00:00Z");
    world.emit([event]).await;
    let relay = world.relay(MemoryBroker::default()).start();
    world.until_drained().await;
    relay.stop().await;
    let again = MemoryBroker::default();
    let ended = run(&world, &again, options()).await;
    let sent = again.messages(&Topic::from(TOPIC));
    let marks: Vec<&str> = sent[0]
        .headers
        .iter()
        .filter(|header| &*header.name == REPLAY_HEADER)
        .filter_map(|header| header.text())
        .collect();
    assert_eq!(marks, [ended.started_at.to_string()]);
}

/// What is published while a replay runs is not part of it, so that it ends.
#[tokio::test]
async fn what_is_created_later_is_not_part_of_it() {
    let (world, broker) = published(3).await;
    let again = MemoryBroker::default();
    let replay = replay(&world, &again, options());
    let relay = world.relay(broker).start();
    world.emit([world.numbered_sample("a", 50)]).await;
    world.until_drained().await;
    relay.stop().await;
    eventually("it is stored", async || match rows(&world).await.len() {
        4 => Ok(()),
        count => Err(count),
    })
    .await;
    let by = Actor("a test".into());
    let ended = replay.run(&by, CancellationToken::new()).await;
    assert_eq!((ended.sent, ended.total), (3, 3));
}
