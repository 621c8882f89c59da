//! The program behind a PgBouncer in transaction mode, of a version that does not track prepared statements.

use std::time::Duration;

use postrider_testkit::pooler::Pooler;
use postrider_testkit::{eventually, eventually_within};
use rustix::process::Signal;

use crate::binary::Project;
use crate::outbox::TestOutbox;

/// A config of which the outbox is reached through a pooler, though events are written directly.
async fn behind(outbox: &TestOutbox, lines: &str) -> (Pooler, Project) {
    let pooler = Pooler::before(&outbox.database).await;
    let config = outbox.config(lines).replace(outbox.url(), &pooler.url());
    assert!(config.contains(&pooler.url()), "{config}");
    (pooler, Project::new(&config))
}

async fn all_are_published(outbox: &TestOutbox) {
    eventually("all are published", async || {
        let waiting = "outbox_events WHERE NOT processed";
        match outbox.database.count(waiting).await {
            0 => Ok(()),
            waiting => Err(waiting),
        }
    })
    .await;
}

#[tokio::test]
async fn relays_and_every_other_verb_work_behind_a_pooler() {
    let outbox = TestOutbox::empty("polyshop").await;
    let lines = "[outbox.cleanup]\nkeep = \"0s\"";
    let (_pooler, project) = behind(&outbox, lines).await;
    project.run(&["init", "--claim-index"]).ok();
    project.run(&["check"]).ok();
    let relays = [project.relay().await, project.relay().await];
    for key in 0..60 {
        outbox.emit("order.placed", &(key % 7).to_string()).await;
    }
    all_are_published(&outbox).await;
    for relay in &relays {
        relay.becomes(200).await;
    }
    for _ in 0..3 {
        let status = project.run(&["status", "--json"]).ok().json();
        assert_eq!(status["outboxes"][0]["pending"], 0, "{status}");
        project.run(&["dead", "list", "--json"]).ok();
        project.run(&["dead", "discard", "--all", "--dry-run"]).ok();
        project.run(&["check"]).ok();
    }
    project.run(&["cleanup", "--once"]).ok();
    assert_eq!(outbox.database.count("outbox_events").await, 0);
    for relay in &relays {
        relay.signal(Signal::TERM);
        assert_eq!(relay.exit().await.code(), Some(0), "{:#?}", relay.text());
    }
}

#[tokio::test]
async fn a_relay_behind_a_pooler_polls_and_says_that_it_is_not_notified() {
    let outbox = TestOutbox::empty("polyshop").await;
    let (_pooler, project) = behind(&outbox, "notify = true").await;
    project.run(&["init", "--claim-index", "--notify"]).ok();
    let relay = project.relay().await;
    eventually("it says so", async || {
        let log = relay.text();
        match log.iter().any(|line| line.contains("found by polling")) {
            true => Ok(()),
            false => Err(log),
        }
    })
    .await;
    outbox.emit("order.placed", "7").await;
    all_are_published(&outbox).await;
}

/// While its claim waits for a trigger that takes ten minutes.
#[tokio::test]
async fn a_relay_that_is_killed_in_mid_claim_frees_its_lanes_in_seconds() {
    let outbox = TestOutbox::create("talkie").await;
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'; \
                CREATE TRIGGER slow BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION slow()";
    outbox.database.execute(slow).await;
    let insert = "INSERT INTO outbox (topic, key, payload_json) VALUES ('t', 'k', '{}')";
    outbox.database.execute(insert).await;
    let project = outbox.project("ordering = \"key\"");
    let relay = project.relay().await;
    let asleep = "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid \
                  WHERE l.relation = 'outbox'::regclass AND a.wait_event = 'PgSleep'";
    eventually("a claim is in mid statement", async || {
        match outbox.database.number(asleep).await {
            0 => Err(relay.text()),
            _ => Ok(()),
        }
    })
    .await;
    relay.signal(Signal::KILL);
    let patience = Duration::from_secs(20);
    eventually_within(patience, "its session ends", async || {
        match outbox.database.number(asleep).await {
            0 => Ok(()),
            sessions => Err(sessions),
        }
    })
    .await;
}
