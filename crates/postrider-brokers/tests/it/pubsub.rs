use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_brokers::{PubSubConfig, PubSubPublisher};
use postrider_core::{Failure, Header, Message, PublishError, Publisher, Topic};
use postrider_testkit::conformance::publisher::{
    OutageWorld, PublisherWorld, Seen, assert_each_key_ends_at_its_first_failure,
    first_occurrences, interleaved, numbered,
};
use postrider_testkit::pubsub::{ANSWER, PubSub, PubSubMessage, PubSubTopic, ScriptedPubSub};
use postrider_testkit::services::{Kind, PrivateServer};
use tokio::sync::Mutex;

struct World {
    server: PubSub,
    private: Option<PrivateServer>,
    publisher: Arc<PubSubPublisher>,
    topics: Mutex<HashMap<Topic, PubSubTopic>>,
}

impl World {
    fn new(server: PubSub, private: Option<PrivateServer>) -> Self {
        let config = PubSubConfig {
            endpoint: Some(server.endpoint()),
            ..PubSubConfig::new(server.project())
        };
        let publisher = Arc::new(PubSubPublisher::new(config).expect("a valid config"));
        Self {
            server,
            private,
            publisher,
            topics: Mutex::default(),
        }
    }
}

async fn world() -> World {
    World::new(PubSub::shared(), None)
}

async fn private_world() -> World {
    let server = PrivateServer::start(Kind::PubSub).await;
    World::new(PubSub::at(server.address()), Some(server))
}

#[async_trait]
impl PublisherWorld for World {
    fn publisher(&self) -> Arc<dyn Publisher> {
        self.publisher.clone()
    }

    async fn fresh_topic(&self) -> Topic {
        let fresh = self.server.fresh_topic().await;
        let topic = Topic::from(fresh.id());
        self.topics.lock().await.insert(topic.clone(), fresh);
        topic
    }

    fn unknown_topic(&self) -> Topic {
        Topic::from("nobody-made-this-topic")
    }

    async fn read(&self, topic: &Topic) -> Vec<Seen> {
        let topics = self.topics.lock().await;
        topics[topic]
            .messages()
            .await
            .into_iter()
            .map(seen)
            .collect()
    }

    fn oversize_bytes(&self) -> usize {
        10_000_001
    }

    fn has_tombstones(&self) -> bool {
        false
    }
}

fn seen(message: PubSubMessage) -> Seen {
    let key = Some(message.ordering_key).filter(|key| !key.is_empty());
    Seen::new(key, Some(message.data), message.attributes)
}

#[async_trait]
impl OutageWorld for World {
    async fn stop(&mut self) {
        self.private.as_mut().expect("a private server").kill();
    }

    async fn start(&mut self) {
        self.private
            .as_mut()
            .expect("a private server")
            .restart()
            .await;
        for topic in self.topics.lock().await.values() {
            topic.create().await;
        }
    }

    fn keeps_messages(&self) -> bool {
        false
    }

    async fn freeze(&mut self) {
        self.private.as_ref().expect("a private server").pause();
    }

    async fn thaw(&mut self) {
        self.private.as_ref().expect("a private server").resume();
    }
}

postrider_testkit::publisher_conformance!(world);
postrider_testkit::publisher_outage_conformance!(private_world);

const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_topic_may_be_given_by_its_full_name() {
    let world = world().await;
    let topic = world.fresh_topic().await;
    let full = Topic::from(format!(
        "projects/{}/topics/{topic}",
        world.server.project()
    ));
    let outcomes = world
        .publisher()
        .publish(&[numbered(&full, "a", 0)], DEADLINE)
        .await;
    assert!(outcomes[0].is_ok(), "{outcomes:?}");
    assert_eq!(world.read(&topic).await.len(), 1);
}

#[tokio::test]
async fn more_than_a_request_takes_is_sent_in_order() {
    let world = world().await;
    let topic = world.fresh_topic().await;
    let batch = interleaved(&topic, &["a"], 0, 2500);
    let outcomes = world.publisher().publish(&batch, DEADLINE).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let seen = world.read(&topic).await;
    assert_eq!(seen, batch.iter().map(Seen::of).collect::<Vec<_>>());
}

#[tokio::test]
async fn bodies_that_fill_more_than_a_request_are_sent_in_order() {
    let world = world().await;
    let topic = world.fresh_topic().await;
    let mut batch = interleaved(&topic, &["a"], 0, 5);
    for message in &mut batch {
        message.payload = Some(vec![b'x'; 4_000_000].into());
    }
    let outcomes = world.publisher().publish(&batch, DEADLINE).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(
        world.read(&topic).await,
        batch.iter().map(Seen::of).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn nobody_at_the_endpoint_is_an_outage() {
    let endpoint = Some("http://127.0.0.1:1".into());
    let publisher = PubSubPublisher::new(PubSubConfig {
        endpoint,
        ..PubSubConfig::new("p")
    });
    let publisher = publisher.unwrap();
    let batch = interleaved(&Topic::from("orders"), &["a", "b"], 0, 2);
    let outcomes = publisher.publish(&batch, Duration::from_secs(2)).await;
    for outcome in outcomes {
        assert!(
            matches!(outcome, Err(PublishError::Unavailable { .. })),
            "{outcome:?}"
        );
    }
    assert!(publisher.ping().await.is_err());
}

/// A publisher at a server that answers as the messages ask.
async fn scripted() -> (ScriptedPubSub, PubSubPublisher) {
    let server = ScriptedPubSub::start().await;
    let endpoint = Some(server.endpoint().to_owned());
    let publisher = PubSubPublisher::new(PubSubConfig {
        endpoint,
        ..PubSubConfig::new("p")
    });
    (server, publisher.expect("a valid config"))
}

fn answered(mut message: Message, code: &str) -> Message {
    message.headers.push(Header::new(ANSWER, code));
    message
}

const INVALID_ARGUMENT: &str = "3";
const NOT_FOUND: &str = "5";
const PERMISSION_DENIED: &str = "7";
const RESOURCE_EXHAUSTED: &str = "8";
const UNAUTHENTICATED: &str = "16";
const PART: Failure = Failure::PartOutage {
    retry_after: Duration::ZERO,
};

#[tokio::test]
async fn a_message_that_the_service_refuses_harms_only_its_key() {
    let (server, publisher) = scripted().await;
    let topic = Topic::from("orders");
    let mut batch = interleaved(&topic, &["a", "b"], 0, 50);
    batch[60] = answered(batch[60].clone(), INVALID_ARGUMENT);
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert_each_key_ends_at_its_first_failure(&batch, &outcomes);
    assert!(
        matches!(outcomes[60], Err(PublishError::Refused { .. })),
        "{:?}",
        outcomes[60]
    );
    let by_key = first_occurrences(&server.taken().into_iter().map(seen).collect::<Vec<_>>());
    assert_eq!(by_key["a"], (0..30).collect::<Vec<_>>());
    assert_eq!(by_key["b"], (0..50).collect::<Vec<_>>());

    // The key that failed goes on when its next message is sent.
    let rest: Vec<_> = (31..50)
        .map(|number| numbered(&topic, "a", number))
        .collect();
    assert!(
        publisher
            .publish(&rest, DEADLINE)
            .await
            .iter()
            .all(Result::is_ok)
    );
}

#[tokio::test]
async fn unordered_messages_beside_a_refused_one_are_taken() {
    let (server, publisher) = scripted().await;
    let mut batch = interleaved(&Topic::from("orders"), &["a"], 0, 200);
    batch.iter_mut().for_each(|message| message.ordered = false);
    for index in [0, 77, 199] {
        batch[index] = answered(batch[index].clone(), INVALID_ARGUMENT);
    }
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    let refused: Vec<usize> = (0..200).filter(|index| outcomes[*index].is_err()).collect();
    assert_eq!(refused, [0, 77, 199]);
    assert_eq!(server.taken().len(), 197);
}

#[tokio::test]
async fn answers_are_outages_retries_or_deaths() {
    let (_server, publisher) = scripted().await;
    let cases = [
        (INVALID_ARGUMENT, Failure::Permanent),
        (NOT_FOUND, PART),
        (PERMISSION_DENIED, PART),
        (RESOURCE_EXHAUSTED, Failure::Outage),
        (UNAUTHENTICATED, Failure::Outage),
    ];
    for (code, expected) in cases {
        // A topic of its own: one that takes no writes is not asked again at once.
        let topic = Topic::from(format!("orders-{code}"));
        let message = answered(numbered(&topic, code, 0), code);
        let outcome = publisher.publish(&[message], DEADLINE).await.remove(0);
        let failure = match outcome.unwrap_err().failure() {
            Failure::PartOutage { .. } => PART,
            failure => failure,
        };
        assert_eq!(failure, expected, "code {code}");
    }
}
