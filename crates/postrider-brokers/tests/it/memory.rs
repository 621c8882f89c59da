use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_brokers::memory::Fault;
use postrider_brokers::{MemoryBroker, MemoryConfig};
use postrider_core::{Failure, PublishError, Publisher, Topic};
use postrider_testkit::conformance::publisher::{
    OutageWorld, PublisherWorld, Seen, interleaved, numbered,
};

pub(crate) struct World {
    pub(crate) broker: MemoryBroker,
}

pub(crate) async fn world() -> World {
    let config = MemoryConfig {
        create_topics: false,
        ..MemoryConfig::default()
    };
    World {
        broker: MemoryBroker::new(config),
    }
}

#[async_trait]
impl PublisherWorld for World {
    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.broker.clone())
    }

    async fn fresh_topic(&self) -> Topic {
        let topic = Topic::from("orders");
        self.broker.create_topic(&topic);
        topic
    }

    fn unknown_topic(&self) -> Topic {
        Topic::from("unknown")
    }

    async fn read(&self, topic: &Topic) -> Vec<Seen> {
        self.broker.messages(topic).iter().map(Seen::of).collect()
    }

    fn oversize_bytes(&self) -> usize {
        1_000_001
    }

    fn has_tombstones(&self) -> bool {
        true
    }
}

#[async_trait]
impl OutageWorld for World {
    async fn stop(&mut self) {
        self.broker.stop();
    }

    async fn start(&mut self) {
        self.broker.start();
    }

    fn keeps_messages(&self) -> bool {
        true
    }

    async fn freeze(&mut self) {
        self.broker.block();
    }

    async fn thaw(&mut self) {
        self.broker.release();
    }
}

postrider_testkit::publisher_conformance!(world);
postrider_testkit::publisher_outage_conformance!(world);

const DEADLINE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn faults_meet_the_messages_they_are_meant_for_and_then_end() {
    let (broker, topic) = (MemoryBroker::default(), Topic::from("orders"));
    let is_b = |message: &postrider_core::Message| message.key.as_ref().unwrap().as_bytes() == b"b";
    broker.fail_next(1, Fault::Transient, is_b);
    let batch = interleaved(&topic, &["a", "b"], 0, 2);
    let outcomes = broker.publish(&batch, DEADLINE).await;
    let failures: Vec<_> = outcomes
        .iter()
        .map(|o| o.as_ref().err().map(PublishError::failure))
        .collect();
    assert_eq!(
        failures,
        [None, Some(Failure::Transient), None, Some(Failure::Untried)]
    );

    broker.fail_next(1, Fault::Permanent, is_b);
    let outcomes = broker.publish(&batch[1..2], DEADLINE).await;
    assert_eq!(
        outcomes[0].as_ref().unwrap_err().failure(),
        Failure::Permanent
    );
    assert!(broker.publish(&batch[1..2], DEADLINE).await[0].is_ok());
}

#[tokio::test]
async fn a_lost_acknowledgement_leaves_the_message_there() {
    let (broker, topic) = (MemoryBroker::default(), Topic::from("orders"));
    broker.fail_next(1, Fault::AckLost, |_| true);
    let batch = interleaved(&topic, &["a"], 0, 2);
    let outcomes = broker.publish(&batch, DEADLINE).await;
    assert_eq!(outcomes[0].as_ref().unwrap_err().failure(), Failure::Outage);
    assert_eq!(
        outcomes[1].as_ref().unwrap_err().failure(),
        Failure::Untried
    );
    assert_eq!(broker.messages(&topic).len(), 1);
}

#[tokio::test]
async fn a_blocked_broker_holds_calls_until_it_is_released() {
    let (broker, topic) = (MemoryBroker::default(), Topic::from("orders"));
    broker.block();
    let batch = [numbered(&topic, "a", 0)];
    let release = async {
        broker.wait_until_held(1).await;
        assert!(broker.messages(&topic).is_empty());
        broker.release();
    };
    let (outcomes, ()) = tokio::join!(broker.publish(&batch, DEADLINE), release);
    assert!(outcomes[0].is_ok());
}

#[tokio::test]
async fn a_topic_keeps_its_newest_messages() {
    let config = MemoryConfig {
        messages_max: 3,
        ..MemoryConfig::default()
    };
    let (broker, topic) = (MemoryBroker::new(config), Topic::from("orders"));
    broker
        .publish(&interleaved(&topic, &["a"], 0, 5), DEADLINE)
        .await;
    let kept: Vec<_> = broker
        .messages(&topic)
        .into_iter()
        .map(|m| m.payload.unwrap())
        .collect();
    assert_eq!(kept, ["2", "3", "4"]);
    assert_eq!(broker.accepted(&topic), 5);
}
