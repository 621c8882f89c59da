//! What the consumer fails at comes again, until it succeeds or is a dead letter.

use std::process::Command;

use postrider_testkit::eventually;
use postrider_testkit::redis::Redis;
use postrider_testkit::services::services;
use serde_json::Value;

use crate::flow::{DUPLICATES, FORGET, HANDLED};
use crate::world::{API, CONSUMER, PUBLISHER, World, root};

const GIVEN_BACK: &str = "postrider_consumer_given_back_total";

/// The value of the only event's key in Redis.
async fn value(world: &World) -> Option<String> {
    Redis::shared().command(&["GET", &key(world).await]).await
}

async fn key(world: &World) -> String {
    let id = world
        .database
        .text("SELECT id::text FROM outbox_events")
        .await
        .unwrap();
    format!("pf:evt:processed:compliance:{id}")
}

/// A0-11: a handler that fails takes its key away; the message is redelivered once the dependency has recovered, and the
/// effect exists once.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_takes_the_key_away_and_the_effect_comes_once() {
    let world = World::new().await;
    let api = world.ready(API, &[]).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    let consumer = world.ready(CONSUMER, &[]).await;
    world
        .database
        .execute("ALTER TABLE notifications RENAME TO away")
        .await;
    world.upload(&api).await;
    consumer.until_metric(GIVEN_BACK, 1).await;
    // Until it comes again, after a second or more, there is no key.
    eventually("the key is gone", async || match value(&world).await {
        None => Ok(()),
        found => Err(found),
    })
    .await;
    assert_eq!(consumer.metric(HANDLED).await, 0);
    world
        .database
        .execute("ALTER TABLE away RENAME TO notifications")
        .await;
    world.until_count("notifications", 1).await;
    consumer.until_metric(HANDLED, 1).await;
    eventually("the key is confirmed", async || {
        match value(&world).await.as_deref() {
            Some("done") => Ok(()),
            found => Err(found.map(str::to_owned)),
        }
    })
    .await;
    assert_eq!(world.database.count("notifications").await, 1);
    Redis::shared().command(&["DEL", &key(&world).await]).await;
}

/// A0-11: a redelivery during a running handler is not acknowledged. That handler then fails, and the effect comes all
/// the same, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_redelivery_during_a_running_handler_is_not_acknowledged() {
    let world = World::new().await;
    let api = world.ready(API, &[]).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    let consumer = world.ready(CONSUMER, &[]).await;
    let mut lock = world.database.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE notifications")
        .execute(&mut *lock)
        .await
        .unwrap();
    world.upload(&api).await;
    let handler = "pg_locks WHERE relation = 'notifications'::regclass AND NOT granted";
    world.until_count(handler, 1).await;
    assert!(value(&world).await.unwrap().starts_with("reserved:"));
    world.until_published(1).await;

    world.database.execute(FORGET).await;
    consumer.until_metric(GIVEN_BACK, 1).await;
    assert_eq!(
        world.database.count(handler).await,
        1,
        "the first one still runs"
    );
    assert_eq!(
        (
            consumer.metric(HANDLED).await,
            consumer.metric(DUPLICATES).await
        ),
        (0, 0)
    );
    let kill = format!("SELECT pg_terminate_backend(pid)::text FROM {handler}");
    assert_eq!(world.database.texts(&kill).await, [Some("true".to_owned())]);
    lock.rollback().await.unwrap();
    world.until_count("notifications", 1).await;
    consumer.until_metric(HANDLED, 1).await;
    consumer.until_metric(DUPLICATES, 1).await;
    assert_eq!(consumer.metric(HANDLED).await, 1);
    assert_eq!(world.database.count("notifications").await, 1);
    Redis::shared().command(&["DEL", &key(&world).await]).await;
}

/// Runs the set-up of topics and subscriptions, and gives the dead-letter policy that came of it.
async fn policy(world: &World, more: &[(&str, &str)]) -> Value {
    let mut variables = world.variables(more);
    variables.push(("PATH".into(), std::env::var("PATH").unwrap()));
    let set_up = Command::new(root().join("examples/packfinderz/pubsub"))
        .env_clear()
        .envs(variables)
        .status();
    assert!(set_up.unwrap().success());
    let answer = reqwest::get(world.pubsub_url("subscriptions/pf-compliance"))
        .await
        .unwrap();
    let subscription: Value = answer.json().await.unwrap();
    subscription["deadLetterPolicy"].clone()
}

/// A0-11, S0-60: a message that its consumer always fails at is redelivered as often as the subscription's policy says,
/// and is then on the dead-letter topic, unchanged; the others are handled.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_always_fails_becomes_a_dead_letter() {
    let other = World::without_topics(services().pubsub.clone()).await;
    assert_eq!(policy(&other, &[]).await["maxDeliveryAttempts"], 100);
    let world = World::without_topics(services().pubsub.clone()).await;
    let twice = [("PACKFINDERZ_PUBSUB_MAX_DELIVERY_ATTEMPTS", "2")];
    let found = policy(&world, &twice).await;
    let topic = format!("projects/{}/topics/pf-compliance-dead", world.project);
    assert_eq!(
        (&found["deadLetterTopic"], &found["maxDeliveryAttempts"]),
        (&topic.into(), &2.into())
    );

    let api = world.ready(API, &[]).await;
    let bad = world.upload(&api).await;
    let never = format!("ALTER TABLE notifications ADD CHECK (license_id <> '{bad}')");
    world.database.execute(&never).await;
    world.upload(&api).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    let consumer = world.ready(CONSUMER, &[]).await;
    let dead = world.messages("pf-compliance-dead", 1).await;
    let of_bad = format!("FROM outbox_events WHERE aggregate_id = '{bad}'");
    let (id, body) = (
        world
            .database
            .text(&format!("SELECT id::text {of_bad}"))
            .await
            .unwrap(),
        world
            .database
            .text(&format!("SELECT payload_json::text {of_bad}"))
            .await
            .unwrap(),
    );
    assert_eq!(dead[0].payload.as_deref(), Some(body.as_bytes()));
    let header = dead[0]
        .headers
        .iter()
        .find(|header| &*header.name == "event_id");
    assert_eq!(header.unwrap().text(), Some(&*id));
    assert_eq!(consumer.metric(GIVEN_BACK).await, 2);
    consumer.until_metric(HANDLED, 1).await;
    assert_eq!(world.database.count("notifications").await, 1);
    // Its key is gone, so that it is handled when it is sent again.
    let key = format!("pf:evt:processed:compliance:{id}");
    assert_eq!(
        Redis::shared().command(&["EXISTS", &key]).await.as_deref(),
        Some("0")
    );
}
