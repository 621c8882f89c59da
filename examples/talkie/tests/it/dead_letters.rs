//! The state machine to its end, and what an operator does there.

use clap::Parser;
use example_talkie::{OutboxModule, OutboxSettings, dead, operational};
use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::{Message, MessageKey};
use postrider_testkit::eventually;

use crate::world::{World, quick};

/// The operator's words, as the binary reads them.
#[derive(Parser)]
struct Words {
    #[command(subcommand)]
    command: dead::Command,
}

async fn operate(world: &World, words: &[&str]) -> String {
    let words = Words::parse_from([&["dead"], words].concat());
    let store = OutboxModule::store(world.database.pool.clone(), &quick()).unwrap();
    let mut printed = Vec::new();
    dead::run(&words.command, &store, &mut printed)
        .await
        .unwrap();
    String::from_utf8(printed).unwrap()
}

fn in_room(message: &Message, room: &str) -> bool {
    message.key == Some(MessageKey::from(room))
}

/// A2-11: dead after the last retry; inspected, then resent or purged by command, and by nothing else.
#[tokio::test]
async fn a_dead_letter_is_inspected_resent_and_purged_by_command() {
    let world = World::new().await;
    let settings = OutboxSettings {
        max_retries: 2,
        ..quick()
    };
    let broker = MemoryBroker::default();
    broker.fail_next(u32::MAX, Fault::Transient, |message| {
        in_room(message, "purged")
    });
    broker.fail_next(3, Fault::Transient, |message| in_room(message, "resent"));
    let module = world.start(&broker, &settings);
    for room in ["good", "purged", "resent"] {
        world.post(room).await;
    }
    // Tried once and then twice again: dead when the count exceeds the retries.
    world.until_state("good", "published 0").await;
    world.until_state("purged", "dead_lettered 3").await;
    world.until_state("resent", "dead_lettered 3").await;

    let shown = operate(&world, &["inspect"]).await;
    assert!(shown.contains("key=purged attempts=3"), "{shown}");
    assert!(shown.contains("injected transient fault"), "{shown}");
    assert!(shown.ends_with("2 dead\n"), "{shown}");

    let id = async |room: &str| {
        let sql = format!("SELECT id FROM outbox WHERE key = '{room}'");
        world.database.text(&sql).await.unwrap()
    };
    let (resent, purged) = (id("resent").await, id("purged").await);
    assert_eq!(
        operate(&world, &["resend", "--id", &resent]).await,
        "1 resent\n"
    );
    world.until_state("resent", "published 0").await;
    assert_eq!(
        operate(&world, &["purge", "--id", &purged]).await,
        "1 purged\n"
    );
    assert_eq!(world.state("purged").await, None);
    // What is not dead is not touched.
    assert_eq!(
        operate(&world, &["purge", "--id", &resent]).await,
        "0 purged\n"
    );
    assert_eq!(operate(&world, &["resend", "--all"]).await, "0 resent\n");
    assert_eq!(
        world.database.count("messages").await,
        3,
        "the chat has lost a message"
    );
    module.stop().await.unwrap();
}

/// "All" are all, on however many pages, in either command; what is not dead stays as it is.
#[tokio::test]
async fn all_dead_letters_are_all_of_them() {
    let world = World::new().await;
    let die = "INSERT INTO outbox (topic, key, payload_json, status, retry_count, last_error) \
               SELECT 't', 'dead ' || n, '{}', 'dead_lettered', 3, 'no' FROM generate_series(1, 2500) n";
    world.database.execute(die).await;
    world.post("good").await;
    let shown = operate(&world, &["inspect"]).await;
    assert!(shown.ends_with("\n2500 dead\n"), "{}", shown.len());
    assert_eq!(shown.lines().count(), 2501);
    assert_eq!(operate(&world, &["resend", "--all"]).await, "2500 resent\n");
    let pending = "outbox WHERE status = 'pending'";
    assert_eq!(world.database.count(pending).await, 2501);

    let die = "UPDATE outbox SET status = 'dead_lettered', retry_count = 3 WHERE topic = 't'";
    world.database.execute(die).await;
    assert_eq!(operate(&world, &["purge", "--all"]).await, "2500 purged\n");
    assert_eq!(world.state("good").await.as_deref(), Some("pending 0"));
    assert_eq!(world.database.count("outbox").await, 1);
}

/// A2-12: the document's two queries, letter by letter, on rows in every state.
#[tokio::test]
async fn the_operational_queries_run_as_they_are_written() {
    let world = World::new().await;
    for room in ["pending", "publishing", "published", "due", "later", "dead"] {
        world.post(room).await;
    }
    world
        .database
        .execute(
            "UPDATE outbox SET status = key WHERE key IN ('publishing', 'published'); \
             UPDATE outbox SET status = 'dead_lettered', retry_count = 11, last_error = 'too large' WHERE key = 'dead'; \
             UPDATE outbox SET status = 'failed', retry_count = 1, next_attempt_at = \
             now() + CASE key WHEN 'due' THEN -1 ELSE 1 END * interval '1 hour' WHERE key IN ('due', 'later')",
        )
        .await;
    let [troubled, due] = operational::queries().collect::<Vec<_>>()[..] else {
        panic!("two queries")
    };
    assert_eq!(world.database.texts(troubled).await.len(), 3);
    assert_eq!(world.database.texts(due).await.len(), 1);

    let mut printed = Vec::new();
    operational::print(&world.database.pool, &mut printed)
        .await
        .unwrap();
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("(3 rows)") && printed.contains("(1 rows)"));
    assert_eq!(printed.matches("key=due").count(), 2, "{printed}");
    assert_eq!(printed.matches("key=later").count(), 1, "{printed}");
    assert!(printed.contains("last_error=too large"), "{printed}");
}

/// The module stops with the application: what is in flight is finished, and the rest waits for the next start.
#[tokio::test]
async fn a_stop_finishes_what_is_in_flight() {
    let world = World::new().await;
    let broker = MemoryBroker::default();
    broker.block();
    let module = world.start(&broker, &quick());
    world.post("in flight").await;
    broker.wait_until_held(1).await;
    let stopping = tokio::spawn(module.stop());
    world.post("later").await;
    broker.release();
    stopping.await.unwrap().unwrap();
    assert_eq!(
        world.state("in flight").await.as_deref(),
        Some("published 0")
    );
    assert_eq!(world.state("later").await.as_deref(), Some("pending 0"));

    let module = world.start(&broker, &quick());
    world.until_state("later", "published 0").await;
    let encoded = eventually("it is counted", async || {
        let encoded = world.metrics.encode();
        match encoded.contains("postrider_published_total{outbox=\"talkie\"} 2") {
            true => Ok(encoded),
            false => Err(encoded),
        }
    })
    .await;
    assert!(encoded.contains("postrider_publish_seconds_count{outbox=\"talkie\"}"));
    module.stop().await.unwrap();
}
