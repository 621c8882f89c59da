//! The binary on Postrider's own outbox: every command, and relays that share one.

use std::time::{Duration, Instant};

use postrider::core::{Event, EventId};
use postrider::stores::postgres::Outbox;
use postrider_testkit::eventually;
use postrider_testkit::kafka::Kafka;
use rustix::process::Signal;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::binary::{Project, Relay};
use crate::outbox::TestOutbox;

/// A native outbox whose events go to a Kafka topic of its own.
struct Stream {
    outbox: TestOutbox,
    topic: String,
}

impl Stream {
    async fn new() -> Self {
        Self {
            outbox: TestOutbox::create("native").await,
            topic: Kafka::shared().fresh_topic(3).await,
        }
    }

    fn project(&self, lines: &str) -> Project {
        let kafka = Kafka::shared();
        let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", kafka.bootstrap());
        Project::new(&self.outbox.config_with(&broker, lines))
    }

    async fn emit(&self, event_type: &str, keys: impl IntoIterator<Item = String>) -> Vec<EventId> {
        let event = |key| Event::raw(event_type, "{}").topic(&self.topic).key(key);
        let events: Vec<Event> = keys.into_iter().map(event).collect();
        let mut tx = self.outbox.pool().begin().await.unwrap();
        let outbox = Outbox::new(self.outbox.layout.clone());
        outbox.emit_all(&mut tx, &events).await.unwrap();
        tx.commit().await.unwrap();
        events.into_iter().map(|event| event.id).collect()
    }

    async fn arrived(&self) -> usize {
        Kafka::shared().records(&self.topic).await.len()
    }
}

/// Waits until `status` counts so many.
async fn until_counted(project: &Project, pending: u64, dead: u64) -> Value {
    eventually("it is counted", async || {
        let status = project.run(&["status", "--json"]).ok().json();
        let outbox = &status["outboxes"][0];
        let as_wanted = outbox["pending"] == pending && outbox["dead"] == dead;
        as_wanted.then(|| outbox.clone()).ok_or(status)
    })
    .await
}

/// A0-13, A0-14, A2-11, P7: what an operator does to other outboxes works on a stream: check, status, dead letters, replay, verify,
/// cleanup.
#[tokio::test]
async fn every_command_works_on_a_stream() {
    let stream = Stream::new().await;
    let strict = stream.project("[[outbox.route]]\nevent_type = \"placed\"\n");
    strict.run(&["init"]).ok();
    strict.run(&["check"]).ok();
    stream.emit("placed", ["a", "b"].map(String::from)).await;
    let lost = stream.emit("lost", ["c".to_owned()]).await;
    stream.emit("placed", ["c", "d"].map(String::from)).await;
    until_counted(&strict, 5, 0).await;
    let relay = strict.relay().await;
    let counted = until_counted(&strict, 1, 1).await;
    assert_eq!(counted["parked"], 1, "c waits behind the dead one");
    drop(relay);

    let list = strict.run(&["dead", "list", "--json"]).ok().json();
    assert_eq!(list[0]["event_id"], lost[0].as_str());
    assert_eq!(list[0]["key"], "c");
    strict
        .run(&["dead", "show", "--key", "c"])
        .ok()
        .prints("no route for event type lost");
    let lenient = stream.project("[outbox.cleanup]\nkeep = \"7d\"\n");
    let resent = lenient.run(&["dead", "resend", "--key", "c", "--json"]);
    assert_eq!(resent.ok().json()["resent"], 1);
    let relay = lenient.relay().await;
    until_counted(&lenient, 0, 0).await;
    drop(relay);
    assert_eq!(stream.arrived().await, 5);

    lenient.run(&["verify", "--since", "1h"]).ok();
    let again = lenient.run(&["replay", "--key", "c", "--yes", "--json"]);
    assert_eq!(again.ok().json()["sent"], 2);
    assert_eq!(stream.arrived().await, 7);
    let age = "UPDATE postrider_outbox SET created_at = created_at - interval '8 days'";
    stream.outbox.database.execute(age).await;
    let cleanup = lenient.run(&["cleanup", "--once", "--json"]).ok().json();
    assert_eq!(cleanup[0]["deleted"], 5);
    assert_eq!(stream.outbox.database.count("postrider_outbox").await, 0);
    lenient.run(&["stream", "status"]).ok();
}

async fn published(relay: &Relay) -> u64 {
    let metrics = relay.get("/metrics").await.text().await.unwrap();
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("postrider_published_total{outbox=\"orders\"} "));
    line.and_then(|count| count.parse::<f64>().ok())
        .map_or(0, |count| count as u64)
}

/// Writes some events of many keys, again and again; how many in all.
async fn write(stream: &Stream, stop: &CancellationToken) -> usize {
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    let mut written = 0;
    while !stop.is_cancelled() {
        tick.tick().await;
        let keys = (0..10).map(|n| format!("key-{}", (written + n) % 97));
        written += stream.emit("placed", keys).await.len();
    }
    written
}

/// Two relays share an outbox; one is killed, and a third that was waiting goes on with what it held, in less than 5 s. Nothing
/// is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_third_relay_takes_over_from_one_that_is_killed() {
    let stream = Stream::new().await;
    let project = stream.project("poll_max = \"50ms\"\n");
    let (first, second) = (project.relay().await, project.relay().await);
    let stop = CancellationToken::new();
    let works = async {
        eventually("both relays publish", async || {
            let counts = (published(&first).await, published(&second).await);
            if counts.0 > 0 && counts.1 > 0 {
                Ok(())
            } else {
                Err(counts)
            }
        })
        .await;
        let third = project.relay().await;
        let before = published(&third).await;
        first.signal(Signal::KILL);
        let killed = Instant::now();
        // The groups that it held move, and they are the only ones that nobody holds.
        eventually("the third relay publishes", async || {
            match published(&third).await {
                now if now > before => Ok(()),
                now => Err((now, third.text())),
            }
        })
        .await;
        let took = killed.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        stop.cancel();
        third
    };
    let (third, written) = tokio::join!(works, write(&stream, &stop));
    until_counted(&project, 0, 0).await;
    drop((second, third));
    let mut ids: Vec<_> = Kafka::shared()
        .records(&stream.topic)
        .await
        .into_iter()
        .filter_map(|record| {
            let found = record
                .headers
                .into_iter()
                .find(|(name, _)| name == "event_id");
            found.and_then(|(_, value)| value)
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), written);
}
