//! `outbox-publisher`, configured by its environment alone.

use std::process::Command;

use example_packfinderz::settings::{
    BATCH_SIZE, DOMAIN_TOPIC, HEALTH_LISTEN, MAX_ATTEMPTS, POLL_MS,
};
use rustix::process::Signal;
use serde_json::Value;

use crate::program::Program;
use crate::world::{API, CLEANUP, CONSUMER, PUBLISHER, World};

const BATCHES: &str = "postrider_batch_seconds_count";

/// A1-05: `make run-outbox-publisher` in a shell that has nothing but the variables starts the worker, and with the
/// tuning ones unset the defaults apply.
#[tokio::test]
async fn make_starts_the_publisher_from_its_environment_with_the_defaults() {
    let world = World::new().await;
    let publisher = world.make_run_publisher(&[]).await;
    let starts = publisher.logged("outbox-publisher starts").await;
    assert_eq!(starts["batch_size"], 50);
    assert_eq!(starts["poll_ms"], 500);
    assert_eq!(starts["max_attempts"], 25);
    assert_eq!(starts["domain_topic"], "pf-domain-events");
    world.insert(1, 0).await;
    world.until_published(1).await;

    let url = publisher.url("/livez").await;
    publisher.signal(Signal::TERM);
    publisher.ended().await;
    let text = publisher.text().join("\n");
    assert!(text.contains("relay stopped"), "{text}");
    reqwest::get(url).await.unwrap_err();
}

/// A1-05: the batch size is how many rows a poll claims: 50, or what the variable says. The first polls claim fewer, until
/// the publisher knows how large rows are.
#[tokio::test]
async fn the_batch_size_says_how_many_rows_a_poll_claims() {
    // What one transaction has settled was claimed by it.
    let most = "SELECT max(rows) FROM (SELECT count(*) AS rows FROM outbox_events GROUP BY xmin::text) of_one";
    for (set, batch_size) in [("", 50), ("7", 7)] {
        let world = World::new().await;
        world.insert(200, 0).await;
        let _publisher = world.make_run_publisher(&[(BATCH_SIZE, set)]).await;
        world.until_published(200).await;
        assert_eq!(world.database.number(most).await, batch_size, "{set:?}");
    }
}

/// A1-05, A0-06: a row at the maximum of attempts is skipped: 25, or what the variable says.
#[tokio::test]
async fn the_maximum_of_attempts_says_which_rows_are_skipped() {
    for (set, max) in [("", 25), ("3", 3)] {
        let world = World::new().await;
        world.insert(1, max).await;
        world.insert(1, max - 1).await;
        let _publisher = world.make_run_publisher(&[(MAX_ATTEMPTS, set)]).await;
        world.until_published(1).await;
        // A later one leaves too, so the other was passed over and not only slow.
        world.insert(1, 0).await;
        world.until_published(2).await;
        let left = "SELECT attempt_count::text FROM outbox_events WHERE published_at IS NULL";
        assert_eq!(world.database.texts(left).await, [Some(max.to_string())]);
    }
}

/// A1-05: a publisher that polls once an hour has not seen what one that polls every 20 ms has published many times.
#[tokio::test]
async fn the_poll_interval_says_how_soon_a_new_row_is_seen() {
    let (lazy, eager) = (World::new().await, World::new().await);
    lazy.insert(1, 0).await;
    let once_an_hour = lazy.make_run_publisher(&[(POLL_MS, "3600000")]).await;
    lazy.until_published(1).await;
    let often = eager.make_run_publisher(&[(POLL_MS, "20")]).await;
    // The lazy one looks once more after what it has published, and has long done so when these are through.
    eager.publish_one_by_one(10).await;
    lazy.insert(1, 0).await;
    eager.publish_one_by_one(20).await;
    often.until_metric(BATCHES, 30).await;
    assert_eq!(once_an_hour.metric(BATCHES).await, 1);
    let waiting = "outbox_events WHERE published_at IS NULL AND attempt_count = 0";
    assert_eq!(lazy.database.count(waiting).await, 1);
}

/// A1-05: the topic variable names where events go. Nothing else has a subscription, so what arrives came from there.
#[tokio::test]
async fn the_topic_variable_says_where_events_go() {
    let world = World::new().await;
    world
        .subscribe("pf-elsewhere", "pf-elsewhere-compliance")
        .await;
    let elsewhere = [
        (DOMAIN_TOPIC, "pf-elsewhere"),
        (
            "PACKFINDERZ_PUBSUB_DOMAIN_SUBSCRIPTION",
            "pf-elsewhere-compliance",
        ),
    ];
    let publisher = world.make_run_publisher(&elsewhere[..1]).await;
    let consumer = world.ready(CONSUMER, &elsewhere).await;
    let idle = world.ready(CONSUMER, &[]).await;
    world.insert(1, 0).await;
    consumer
        .until_metric("postrider_consumer_handled_total", 1)
        .await;
    assert_eq!(idle.metric("postrider_consumer_handled_total").await, 0);
    let starts = publisher.logged("outbox-publisher starts").await;
    assert_eq!(starts["domain_topic"], "pf-elsewhere");
}

/// A1-05: what cannot be, or is missing, is said by name before anything starts, and no secret with it.
#[tokio::test]
async fn a_setting_that_cannot_work_ends_the_publisher_with_its_name() {
    let world = World::new().await;
    for (name, value) in [
        (BATCH_SIZE, "0"),
        (POLL_MS, "soon"),
        (MAX_ATTEMPTS, "-1"),
        (HEALTH_LISTEN, "everywhere"),
        ("PACKFINDERZ_DATABASE_URL", ""),
        ("PACKFINDERZ_PUBSUB_PROJECT", ""),
    ] {
        let variables = world.variables(&[(name, value)]);
        let publisher = Program::start(Command::new(PUBLISHER), &variables);
        assert_eq!(publisher.ended().await.code(), Some(1), "{name}");
        let text = publisher.text().join("\n");
        assert!(text.contains(name), "{text}");
        assert!(!text.contains(&world.database.url), "{text}");
    }
}

/// A1-06: readiness names the dependency that does not answer, and liveness does not care.
#[tokio::test]
async fn a_publisher_without_pubsub_is_alive_and_not_ready() {
    let world = World::new().await;
    // Nobody listens on port 9, discard.
    let variables = world.variables(&[("PUBSUB_EMULATOR_HOST", "127.0.0.1:9")]);
    let publisher = Program::start(Command::new(PUBLISHER), &variables);
    let report = postrider_testkit::eventually("the database answers", async || {
        match publisher.becomes(503).await {
            report if report["database"]["ready"] == true => Ok(report),
            report => Err(report),
        }
    })
    .await;
    assert_eq!(report["broker"]["ready"], false, "{report}");
    assert_eq!(publisher.get("/livez").await.0, 200);
}

/// A0-13: the cleanup, a program of its own, deletes what was published more than 30 days ago, and nothing else: not what
/// is newer, at the maximum of attempts, or 60 days old and not published. The publisher deletes nothing.
#[tokio::test]
async fn published_rows_are_deleted_after_thirty_days() {
    let world = World::new().await;
    world.insert(1, 25).await;
    world.insert(3, 0).await;
    let ages = [
        "published_at = now() - interval '31 days'",
        "published_at = now() - interval '29 days'",
        "created_at = now() - interval '60 days'",
    ];
    for (nth, age) in ages.iter().enumerate() {
        let sql = format!(
            "UPDATE outbox_events SET {age}, last_error = '{nth}' WHERE id = (SELECT id FROM outbox_events \
             WHERE attempt_count = 0 AND last_error IS NULL ORDER BY id LIMIT 1)"
        );
        world.database.execute(&sql).await;
    }
    let variables = world.variables(&[]);
    let cleanup = Program::start(Command::new(CLEANUP), &variables);
    let line = cleanup.logged("deleted").await;
    assert_eq!(line["rows"], 1);
    let left = "SELECT coalesce(last_error, 'at the maximum') FROM outbox_events ORDER BY 1";
    let left: Vec<_> = world
        .database
        .texts(left)
        .await
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(left, ["1", "2", "at the maximum"]);
    cleanup.signal(Signal::TERM);
    assert_eq!(cleanup.ended().await.code(), Some(0));

    // S0-14: what the publisher has done many times over, it has not done to the row that is old enough.
    let age =
        "UPDATE outbox_events SET published_at = now() - interval '31 days' WHERE last_error = '1'";
    world.database.execute(age).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    // The one that was not published before is now.
    for published in 3..6 {
        world.insert(1, 0).await;
        world.until_published(published).await;
    }
    assert_eq!(
        world
            .database
            .count("outbox_events WHERE last_error = '1'")
            .await,
        1
    );
}

/// A1-07: a published event's line has what an operator searches for, and never the payload.
#[tokio::test]
async fn every_published_event_has_a_log_line() {
    let world = World::new().await;
    let publisher = world.ready(PUBLISHER, &[]).await;
    world.insert(1, 0).await;
    let line = publisher.logged("published").await;
    let id = world
        .database
        .text("SELECT id::text FROM outbox_events")
        .await;
    assert_eq!(line["event_id"].as_str(), id.as_deref());
    assert_eq!(line["event_type"], "ad_paused");
    assert_eq!(line["aggregate_type"], "ad");
    assert!(line["aggregate_id"].is_string());
    let lines: Vec<Value> = publisher.log();
    assert!(!format!("{lines:?}").contains("occurredAt"));
}

/// SIGTERM, as Heroku sends it, and Ctrl-C.
#[tokio::test]
async fn a_signal_ends_every_program_with_exit_code_0() {
    let world = World::new().await;
    for signal in [Signal::TERM, Signal::INT] {
        for program in [API, PUBLISHER, CONSUMER] {
            let running = world.ready(program, &[]).await;
            running.signal(signal);
            let code = running.ended().await.code();
            assert_eq!(code, Some(0), "{program}: {:#?}", running.text());
        }
    }
}
