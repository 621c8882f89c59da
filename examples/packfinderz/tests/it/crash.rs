//! The publisher is killed between Pub/Sub's acknowledgement and its own update.

use std::collections::HashMap;

use example_packfinderz::settings::DATABASE_URL;
use postrider_testkit::eventually;
use rustix::process::Signal;
use serde_json::json;
use sqlx::AssertSqlSafe;

use crate::flow::{DUPLICATES, HANDLED};
use crate::world::{API, CONSUMER, PUBLISHER, World};

/// A0-07: killed after the broker accepted and before the update, the publisher leaves a row that looks unpublished.
/// Another publishes the same `event_id` again, and the consumer's effect exists once.
#[tokio::test(flavor = "multi_thread")]
async fn killed_between_acknowledgement_and_update_the_event_comes_twice_and_its_effect_once() {
    let world = World::new().await;
    let topic = format!("projects/{}/topics/pf-domain-events", world.project);
    world
        .create("subscriptions/pf-witness", &json!({ "topic": topic }))
        .await;
    let api = world.ready(API, &[]).await;
    world.upload(&api).await;
    // The update of a row waits for as long as this transaction is open.
    let key = format!("hashtext('{}')", world.database.schema);
    let wait = format!(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS \
         $$ BEGIN PERFORM pg_advisory_xact_lock_shared({key}); RETURN NEW; END $$; \
         CREATE TRIGGER wait BEFORE UPDATE ON outbox_events FOR EACH ROW EXECUTE FUNCTION wait()"
    );
    world.database.execute(&wait).await;
    let mut lock = world.database.pool.begin().await.unwrap();
    let take = AssertSqlSafe(format!("SELECT pg_advisory_xact_lock({key})"));
    sqlx::query(take).execute(&mut *lock).await.unwrap();
    let consumer = world.ready(CONSUMER, &[]).await;
    let name = format!("doomed-{}", world.project);
    let url = format!("{}&application_name={name}", world.database.url);
    let doomed = world.ready(PUBLISHER, &[(DATABASE_URL, &url)]).await;
    // Pub/Sub has acknowledged it, and even the consumer is done with it; the update waits.
    consumer.until_metric(HANDLED, 1).await;
    let sessions = format!("pg_stat_activity WHERE application_name = '{name}'");
    let waiting =
        format!("{sessions} AND wait_event_type = 'Lock' AND query LIKE 'UPDATE %published_at%'");
    world.until_count(&waiting, 1).await;
    doomed.signal(Signal::KILL);
    doomed.ended().await;
    // What it had asked for is not done behind its back either.
    world.until_count(&sessions, 0).await;
    lock.rollback().await.unwrap();
    let untouched =
        "outbox_events WHERE published_at IS NULL AND attempt_count = 0 AND last_error IS NULL";
    assert_eq!(world.database.count(untouched).await, 1);

    let next = world.ready(PUBLISHER, &[]).await;
    world.until_published(1).await;
    let id = world
        .database
        .text("SELECT id::text FROM outbox_events")
        .await
        .unwrap();
    assert_eq!(next.logged("published").await["event_id"], *id);
    let mut ids: HashMap<String, usize> = HashMap::new();
    for message in world.messages("pf-witness", 2).await {
        let header = message
            .headers
            .iter()
            .find(|header| &*header.name == "event_id");
        *ids.entry(header.unwrap().text().unwrap().to_owned())
            .or_default() += 1;
    }
    assert_eq!(ids, HashMap::from([(id, 2)]));
    consumer.until_metric(DUPLICATES, 1).await;
    assert_eq!(consumer.metric(HANDLED).await, 1);
    assert_eq!(world.database.count("notifications").await, 1);
    eventually("nothing more comes", async || {
        match consumer.metric(DUPLICATES).await {
            1 => Ok(()),
            found => Err(found),
        }
    })
    .await;
}
