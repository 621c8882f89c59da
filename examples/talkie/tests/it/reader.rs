//! One logical event: what was sent twice is shown once.

use postrider_testkit::eventually;
use postrider_testkit::kafka::Kafka;

use crate::binary::{SettingsOnDisk, Talkie};
use crate::world::{World, message};

/// Makes whoever marks a record as published wait, until the lock is let go.
const HOLD_UP: &str = "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
       PERFORM pg_advisory_xact_lock_shared(hashtext(current_schema())); RETURN NULL; END $$; \
     CREATE TRIGGER hold_up AFTER UPDATE ON outbox FOR EACH ROW WHEN (NEW.status = 'published') EXECUTE FUNCTION hold_up()";
const HELD_UP: &str = "pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ShareLock' \
     AND objid::int8 = hashtext(current_schema())::int8 & 4294967295";

/// A2-07, A2-10: the application is killed after Kafka has taken a message and before that is written down. When the lease
/// ends another process sends it again, with the same id and idempotency key, and the reader's inbox drops one of both.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_was_sent_twice_is_shown_once() {
    let (world, kafka) = (World::new().await, Kafka::shared());
    let topic = kafka.fresh_topic(1).await;
    let settings = SettingsOnDisk::new("interval_ms = 20\nlease_secs = 5");
    world.database.execute(HOLD_UP).await;
    let mut guard = world.database.pool.begin().await.unwrap();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtext(current_schema()))")
        .execute(&mut *guard)
        .await
        .unwrap();
    let killed = Talkie::spawn(&world, &settings, &topic, &["app"]);
    let message = message("lobby", "hello");
    assert_eq!(killed.post(&message).await.0, 202);
    until(1, async || world.database.count(HELD_UP).await).await;
    killed.kill();
    guard.rollback().await.unwrap();
    assert_eq!(world.state("lobby").await.as_deref(), Some("publishing 0"));
    assert_eq!(kafka.records(&topic).await.len(), 1);

    let reader = Talkie::spawn(&world, &settings, &topic, &["reader"]);
    let publisher = Talkie::spawn(&world, &settings, &topic, &["publisher"]);
    world.until_state("lobby", "published 0").await;
    let records = kafka.records(&topic).await;
    let [first, second] = &records[..] else {
        panic!("{records:?}")
    };
    assert_eq!(first.headers, second.headers);
    let key = (
        "idempotency_key".to_owned(),
        Some(message.id.to_string().into_bytes()),
    );
    assert!(first.headers.contains(&key), "{:?}", first.headers);

    let group = format!("{}.{topic}", example_talkie::reader::NAME);
    until(2, async || {
        kafka.committed(&group, &topic).await.values().sum()
    })
    .await;
    let shown = world
        .database
        .texts("SELECT concat_ws(' ', room, author, text) FROM feed")
        .await;
    assert_eq!(shown, [Some("lobby ada hello".to_owned())]);
    assert_eq!(world.database.count("processed_messages").await, 1);
    for running in [reader, publisher] {
        assert_eq!(running.interrupt().await, Some(0));
    }
}

/// What is on the topic and no chat message holds up nothing that is behind it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_chat_message_is_passed_over() {
    let (world, kafka) = (World::new().await, Kafka::shared());
    let topic = kafka.fresh_topic(1).await;
    let settings = SettingsOnDisk::new("interval_ms = 20");
    let app = Talkie::spawn(&world, &settings, &topic, &["app", "--no-publisher"]);
    for (room, text) in [("odd", "hello"), ("lobby", "hello again")] {
        assert_eq!(app.post(&message(room, text)).await.0, 202);
    }
    let odd = "UPDATE outbox SET payload_json = '{}' WHERE key = 'odd'";
    world.database.execute(odd).await;
    let reader = Talkie::spawn(&world, &settings, &topic, &["reader"]);
    let publisher = Talkie::spawn(&world, &settings, &topic, &["publisher"]);
    reader.logged("not a chat message, passed over").await;
    until(1, async || {
        world.database.count("feed WHERE room = 'lobby'").await
    })
    .await;
    for running in [app, reader, publisher] {
        assert_eq!(running.interrupt().await, Some(0));
    }
}

async fn until(wanted: i64, mut look: impl AsyncFnMut() -> i64) {
    eventually("it has happened", async || match look().await {
        found if found == wanted => Ok(()),
        found => Err(found),
    })
    .await;
}
