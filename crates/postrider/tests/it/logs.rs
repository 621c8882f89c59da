//! What the log says of each event.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use postrider::brokers::memory::{Fault, MemoryBroker};
use postrider::core::Event;
use serde_json::Value;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::packfinderz::{TOPIC, is_event, license_event};
use crate::world::{World, until_accepted};

/// Keeps the lines that are written to it.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn buffer(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> Vec<Value> {
        let text = String::from_utf8(self.buffer().clone()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// While there is but one subscriber, `tracing` asks the thread that first comes to a line whether anybody
/// wants it, and remembers the answer for all threads. Other tests' threads have none. With a second
/// subscriber it asks each of them.
fn keep_a_second_subscriber() {
    static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
    SECOND.get_or_init(|| tracing::Dispatch::new(tracing_subscriber::registry()));
}

/// Captures this thread's log while the guard lives. The test's runtime has one thread.
pub(crate) fn capture(filter: &str) -> (Lines, tracing::subscriber::DefaultGuard) {
    keep_a_second_subscriber();
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(lines.clone())
        .finish();
    (lines, tracing::subscriber::set_default(subscriber))
}

fn assert_names(line: &Value, event: &Event) {
    assert_eq!(line["event_id"], event.id.as_str());
    assert_eq!(line["event_type"], event.event_type);
    assert_eq!(
        line["aggregate_type"],
        *event.aggregate_type.as_ref().unwrap()
    );
    assert_eq!(line["aggregate_id"], *event.aggregate_id.as_ref().unwrap());
    assert_eq!(line["outbox"], "licences");
}

/// Publishes one event, fails one and then publishes it, and lets one die.
async fn run_all_fates(world: &World) -> [Event; 3] {
    let events = [license_event(), license_event(), license_event()];
    world.emit(events.clone()).await;
    let broker = MemoryBroker::default();
    let [_, retried, dead] = events.clone().map(|event| event.id.to_string());
    broker.fail_next(1, Fault::Transient, move |message| {
        is_event(message, &retried)
    });
    broker.fail_next(1, Fault::Permanent, move |message| is_event(message, &dead));
    let relay = world.relay(broker.clone()).name("licences").start();
    until_accepted(&broker, TOPIC, 2).await;
    world.until_drained().await;
    relay.stop().await;
    events
}

/// A1-07: every publish and every failure has a structured line with the event's id and type and its
/// aggregate's type and id.
#[tokio::test]
async fn every_publish_and_every_failure_has_a_line_that_names_the_event() {
    let world = World::new("packfinderz").await;
    let (lines, _guard) = capture("postrider=debug");
    let [published, retried, dead] = run_all_fates(&world).await;

    let lines = lines.read();
    let of = |event: &Event| -> Vec<&Value> {
        lines
            .iter()
            .filter(|line| line["event_id"] == event.id.as_str())
            .collect()
    };
    let said = |lines: &[&Value]| -> Vec<(String, String)> {
        let text = |line: &Value, name: &str| line[name].as_str().unwrap().to_owned();
        lines
            .iter()
            .map(|line| (text(line, "level"), text(line, "message")))
            .collect()
    };
    let pair = |level: &str, message: &str| (level.to_owned(), message.to_owned());
    assert_eq!(said(&of(&published)), [pair("DEBUG", "published")]);
    assert_eq!(
        said(&of(&retried)),
        [
            pair("WARN", "failed, will be tried again"),
            pair("DEBUG", "published")
        ]
    );
    assert_eq!(said(&of(&dead)), [pair("ERROR", "dead")]);
    for event in [&published, &retried, &dead] {
        of(event)
            .into_iter()
            .for_each(|line| assert_names(line, event));
    }
    assert!(
        of(&retried)[0]["error"]
            .as_str()
            .unwrap()
            .contains("injected transient fault")
    );
    assert_eq!(of(&retried)[0]["attempts"], 1);
}

/// A payload may hold what nobody should read in a log.
#[tokio::test]
async fn no_line_holds_a_payload() {
    let world = World::new("packfinderz").await;
    let (lines, _guard) = capture("trace,sqlx=off");
    run_all_fates(&world).await;
    for line in lines.read() {
        let text = line.to_string();
        assert!(
            !text.contains("verified") && !text.contains("storeId"),
            "{text}"
        );
    }
}

/// The lines about events have a target of their own, which may be turned up alone.
#[tokio::test]
async fn the_lines_about_events_can_be_turned_up_alone() {
    let world = World::new("packfinderz").await;
    let (lines, _guard) = capture("warn,postrider::event=debug");
    let [published, ..] = run_all_fates(&world).await;
    let lines = lines.read();
    let line = lines
        .iter()
        .find(|line| line["event_id"] == published.id.as_str());
    assert_eq!(
        line.expect("a line for the published event")["message"],
        "published"
    );
}

/// What was traced at emit can be found in the log by its trace, wherever the layout keeps it.
#[tokio::test]
async fn a_line_carries_the_trace_that_the_event_was_emitted_in() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for layout in ["gopipe", "polyshop"] {
        let world = World::new(layout).await;
        let (lines, _guard) = capture("postrider=debug");
        let event = match layout {
            "gopipe" => {
                let parent = format!("00-{trace}-00f067aa0ba902b7-01");
                world.sample("a").header("traceparent", parent)
            }
            _ => world.sample("a").metadata("traceId", trace),
        };
        world.emit([event.clone()]).await;
        let relay = world.relay(MemoryBroker::default()).start();
        world.until_drained().await;
        relay.stop().await;
        let lines = lines.read();
        let line = lines
            .iter()
            .find(|line| line["event_id"] == event.id.as_str())
            .expect("a line");
        assert_eq!(line["trace_id"], trace, "{layout}");
    }
}
