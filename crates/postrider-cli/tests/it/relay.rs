use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use postrider_testkit::eventually;
use postrider_testkit::kafka::Kafka;
use postrider_testkit::services::{Kind, PrivateServer};
use rustix::process::Signal;

use crate::binary::{Project, Relay};
use crate::outbox::TestOutbox;

#[tokio::test]
async fn events_of_two_outboxes_reach_two_brokers() {
    let (orders, payments) = (
        TestOutbox::create("polyshop").await,
        TestOutbox::create("polyshop").await,
    );
    let kafka = Kafka::shared();
    let topic = kafka.fresh_topic(3).await;
    let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", kafka.bootstrap());
    let config = orders.config_with(&broker, &format!("topic = \"{topic}\""))
        + &format!(
            "[broker.spare]\nkind = \"memory\"\n[[outbox]]\nname = \"payments\"\n\
             database = \"{}\"\nlayout = \"polyshop\"\nbroker = \"spare\"\n",
            payments.url()
        );
    let project = Project::new(&config);
    let relay = project.relay().await;
    orders.emit("order.placed", "7").await;
    payments.emit("payment.made", "7").await;
    eventually("both are published", async || {
        let status = project.run(&["status", "--json"]).ok().json();
        let waiting = |n: usize| status["outboxes"][n]["pending"] != 0;
        if waiting(0) || waiting(1) {
            Err(status)
        } else {
            Ok(())
        }
    })
    .await;
    let records = kafka.records(&topic).await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].key.as_deref(), Some(&b"7"[..]));

    relay.becomes(200).await;
    let metrics = relay.get("/metrics").await.text().await.unwrap();
    for outbox in ["orders", "payments"] {
        let line = format!("postrider_published_total{{outbox=\"{outbox}\"}} 1");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

/// Polling alone would take an hour.
#[tokio::test]
async fn a_notified_relay_does_not_wait_for_its_next_poll() {
    let outbox = TestOutbox::empty("polyshop").await;
    let project = outbox.project("notify = true\npoll_min = \"1h\"");
    project.run(&["init", "--claim-index", "--notify"]).ok();
    let relay = project.relay().await;
    relay.becomes(200).await;
    for key in 0..20 {
        outbox.emit("order.placed", &key.to_string()).await;
    }
    eventually("all are published", async || {
        match outbox
            .database
            .count("outbox_events WHERE NOT processed")
            .await
        {
            0 => Ok(()),
            waiting => Err(waiting),
        }
    })
    .await;
}

#[tokio::test]
async fn a_signal_stops_the_relay_with_exit_code_0() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    for signal in [Signal::TERM, Signal::INT] {
        let relay = project.relay().await;
        relay.becomes(200).await;
        relay.signal(signal);
        assert_eq!(relay.exit().await.code(), Some(0), "{:#?}", relay.text());
    }
}

#[tokio::test]
async fn a_stop_waits_for_a_claim_within_its_limit() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("stop_timeout = \"300ms\"");
    let relay = project.relay().await;
    relay.becomes(200).await;
    let mut lock = outbox.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE outbox_events")
        .execute(&mut *lock)
        .await
        .unwrap();
    let waiting =
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'outbox_events'::regclass";
    eventually("claims hang", async || {
        let count: i64 = sqlx::query_scalar(waiting)
            .fetch_one(&mut *lock)
            .await
            .unwrap();
        if count > 0 { Ok(()) } else { Err(count) }
    })
    .await;
    relay.signal(Signal::TERM);
    assert_eq!(relay.exit().await.code(), Some(0), "{:#?}", relay.text());
    drop(lock);
}

/// A relay in the middle of publishing to a broker that has taken a batch and does not answer, for a minute.
async fn publishing_to_a_frozen_broker(
    outbox: &TestOutbox,
    stop_timeout: &str,
) -> (Relay, PrivateServer) {
    let server = PrivateServer::start(Kind::Kafka).await;
    let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", server.address());
    let lines = format!("stop_timeout = \"{stop_timeout}\"\npublish_timeout = \"1m\"");
    let project = Project::new(&outbox.config_with(&broker, &lines));
    let relay = project.relay().await;
    relay.becomes(200).await;
    outbox.emit("order.placed", "7").await;
    eventually("the connection is in use", async || {
        let waiting = outbox
            .database
            .count("outbox_events WHERE NOT processed")
            .await;
        if waiting == 0 {
            Ok(())
        } else {
            Err(relay.text())
        }
    })
    .await;

    server.pause();
    outbox.emit("order.placed", "8").await;
    let free = "SELECT count(*) FROM (SELECT FROM outbox_events WHERE NOT processed FOR UPDATE SKIP LOCKED) _";
    eventually("the claim is open", async || {
        match outbox.database.number(free).await {
            0 => Ok(()),
            free => Err(free),
        }
    })
    .await;
    (relay, server)
}

/// A broker that takes a batch and never answers keeps a stop waiting no longer than its limit.
#[tokio::test]
async fn a_stop_keeps_its_limit_while_the_broker_is_frozen() {
    let outbox = TestOutbox::create("polyshop").await;
    let (relay, server) = publishing_to_a_frozen_broker(&outbox, "1s").await;
    relay.signal(Signal::TERM);
    let stopping = Instant::now();
    assert_eq!(relay.exit().await.code(), Some(0), "{:#?}", relay.text());
    let took = stopping.elapsed();
    assert!(
        took < Duration::from_secs(10),
        "{took:?}: {:#?}",
        relay.text()
    );
    server.resume();
}

/// The first signal waits for the batch in flight, which has nearly a minute to go.
#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let outbox = TestOutbox::create("polyshop").await;
    let (relay, server) = publishing_to_a_frozen_broker(&outbox, "10m").await;
    relay.signal(Signal::TERM);
    relay
        .logged("stopping; a second signal stops at once")
        .await;
    assert_eq!(relay.readyz().await.1["stopping"], true);
    relay.signal(Signal::TERM);
    let status = relay.exit().await;
    assert_eq!((status.code(), status.signal()), (Some(143), None));
    server.resume();
}

#[tokio::test]
async fn a_table_that_does_not_fit_is_refused() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("[outbox.columns]\npayload = \"body\"");
    let ran = project.run(&["relay"]).exits(1);
    ran.says("error: outbox orders does not fit its layout")
        .says("body");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let outbox = TestOutbox::create("polyshop").await;
    let relay = outbox.project("").relay().await;
    let config = outbox
        .config("")
        .replace("127.0.0.1:0", &relay.address().await);
    let ran = Project::new(&config).run(&["relay"]).exits(1);
    ran.says("admin.listen 127.0.0.1")
        .says("cannot be opened")
        .says("in use");
}
