use postrider_testkit::collector::{CollectedSpan, Collector};
use postrider_testkit::eventually;
use postrider_testkit::kafka::{Kafka, KafkaRecord};
use rustix::process::Signal;
use serde_json::json;

use crate::binary::{Project, Relay};
use crate::outbox::TestOutbox;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const UNSAMPLED: &str = "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

/// An outbox of three events, of which one is in a sampled trace, one in another, one in none.
struct Traced {
    outbox: TestOutbox,
    topic: String,
    kafka: Kafka,
}

impl Traced {
    async fn create() -> Self {
        let outbox = TestOutbox::create("gopipe").await;
        let kafka = Kafka::shared();
        let topic = kafka.fresh_topic(1).await;
        for attributes in [
            json!({ "id": "sampled", "traceparent": PARENT }),
            json!({ "id": "unsampled", "traceparent": UNSAMPLED }),
            json!({ "id": "untraced" }),
        ] {
            let insert = "INSERT INTO outbox (topic, event_type, data, attributes) \
                          VALUES ($1, 'order.placed', '{\"secret\": 1}', $2::jsonb)";
            sqlx::query(insert)
                .bind(&topic)
                .bind(attributes.to_string())
                .execute(outbox.pool())
                .await
                .unwrap();
        }
        Self {
            outbox,
            topic,
            kafka,
        }
    }

    fn project(&self, telemetry: &str) -> Project {
        let bootstrap = self.kafka.bootstrap();
        let broker = format!("kind = \"kafka\"\nbootstrap = \"{bootstrap}\"");
        Project::new(&(self.outbox.config_with(&broker, "") + telemetry))
    }

    /// Waits until all three are published, stops the relay, and gives what the broker has.
    async fn until_relayed(&self, relay: &Relay) -> Vec<KafkaRecord> {
        eventually("all are published", async || {
            match self
                .outbox
                .database
                .count("outbox WHERE NOT published")
                .await
            {
                0 => Ok(()),
                waiting => Err((waiting, relay.text())),
            }
        })
        .await;
        relay.signal(Signal::TERM);
        assert!(relay.exit().await.success(), "{:?}", relay.text());
        self.kafka.records(&self.topic).await
    }
}

fn check(spans: &[CollectedSpan], traced: &Traced) {
    let [span] = spans else {
        panic!("one span for one sampled event: {spans:#?}");
    };
    assert_eq!(span.name, "publish");
    assert_eq!(span.trace_id, TRACE);
    assert_eq!(span.parent_span_id, "00f067aa0ba902b7");
    assert_eq!(span.error, None);
    let attribute = |name: &str| span.attributes[name].as_str();
    assert_eq!(attribute("messaging.system"), "kafka");
    assert_eq!(attribute("messaging.destination.name"), traced.topic);
    assert_eq!(attribute("messaging.message.id"), "sampled");
    assert_eq!(attribute("postrider.outbox"), "orders");
    assert!(!format!("{span:?}").contains("secret"), "{span:?}");
}

fn traceparents(records: &[KafkaRecord]) -> Vec<Option<String>> {
    let parent = |record: &KafkaRecord| {
        let header = record
            .headers
            .iter()
            .find(|(name, _)| name == "traceparent");
        header.and_then(|(_, value)| Some(String::from_utf8(value.clone()?).unwrap()))
    };
    records.iter().map(parent).collect()
}

/// A3-14: a trace spans the producer and the publishing of its event, whichever way spans travel.
#[tokio::test]
async fn a_published_event_is_a_span_of_its_producers_trace() {
    let (collector, traced) = (Collector::start().await, Traced::create().await);
    let otlp = format!("[telemetry]\notlp = \"{}\"\n", collector.endpoint());
    let project = traced.project(&otlp);
    let records = traced.until_relayed(&project.relay().await).await;
    let spans = collector.spans();
    check(&spans, &traced);
    assert_eq!(spans[0].service, "postrider");
    let stored = [Some(PARENT.into()), Some(UNSAMPLED.into()), None];
    assert_eq!(traceparents(&records), stored);
}

#[tokio::test]
async fn the_environment_names_the_collector_too() {
    let (collector, traced) = (Collector::start().await, Traced::create().await);
    let project = traced
        .project("")
        .variable("POSTRIDER__TELEMETRY__OTLP", collector.endpoint())
        .variable("POSTRIDER__TELEMETRY__PROTOCOL", "http")
        .variable("POSTRIDER__TELEMETRY__SERVICE", "order-relay");
    traced.until_relayed(&project.relay().await).await;
    let spans = collector.spans();
    check(&spans, &traced);
    assert_eq!(spans[0].service, "order-relay");
}

/// Not even where the environment is set up for somebody else's spans.
#[tokio::test]
async fn nothing_is_sent_unless_the_config_says_so() {
    let (collector, traced) = (Collector::start().await, Traced::create().await);
    let project = traced
        .project("[log]\nlevel = \"info,postrider=debug\"\n")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint());
    let records = traced.until_relayed(&project.relay().await).await;
    assert_eq!(collector.spans(), []);
    assert_eq!(traceparents(&records)[0].as_deref(), Some(PARENT));
}

#[tokio::test]
async fn a_collector_that_is_down_keeps_no_event_back() {
    let gone = Collector::start().await.endpoint().to_owned();
    let traced = Traced::create().await;
    let project = traced.project(&format!("[telemetry]\notlp = \"{gone}\"\n"));
    let relay = project.relay().await;
    let records = traced.until_relayed(&relay).await;
    assert_eq!(records.len(), 3);
    let told = |line: &serde_json::Value| {
        let target = line["target"].as_str().unwrap_or_default();
        target.starts_with("opentelemetry") && line["level"] != "INFO"
    };
    assert!(relay.log().iter().any(told), "{:#?}", relay.text());
}
