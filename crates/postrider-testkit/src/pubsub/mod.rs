//! The Pub/Sub server as tests see it: fresh topics, and everything that was published to one. It speaks
//! plain gRPC: the official client streams, which the test server does at 70 messages a second.

mod scripted;
mod scripted_pull;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

pub use scripted::{ANSWER, ScriptedPubSub};
pub use scripted_pull::{ScriptedMessage, ScriptedPull, Settled};

use crate::eventually_within;
use crate::services::services;

const PROJECT: &str = "postrider-tests";
const PULL_MAX: i32 = 1000;

/// A handle on a server; each call makes its own connection.
#[derive(Debug, Clone)]
pub struct PubSub {
    address: String,
}

/// A topic and the subscription through which a test looks at it.
#[derive(Debug)]
pub struct PubSubTopic {
    server: PubSub,
    id: String,
    /// By the number that the server gave them, which is the order in which it took them.
    seen: Mutex<BTreeMap<u64, PubSubMessage>>,
}

/// What a subscription is created with. By default it has nothing of all this.
#[derive(Debug, Clone, Default)]
pub struct SubscriptionTraits {
    pub ordering: bool,
    pub exactly_once: bool,
    /// The id of a topic. Only with one does the server count attempts.
    pub dead_letter_topic: Option<String>,
    pub attempts_max: i32,
}

/// What the server holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PubSubMessage {
    pub data: Vec<u8>,
    pub attributes: BTreeMap<String, String>,
    pub ordering_key: String,
}

impl PubSub {
    /// The server that all tests share.
    pub fn shared() -> Self {
        Self::at(&services().pubsub)
    }

    /// `host:port`
    pub fn at(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
        }
    }

    /// For a publisher's or subscriber's configuration.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn project(&self) -> &'static str {
        PROJECT
    }

    /// Creates a topic with an id of its own.
    pub async fn fresh_topic(&self) -> PubSubTopic {
        let id = format!("test-{}", uuid::Uuid::now_v7().simple());
        let topic = PubSubTopic {
            server: self.clone(),
            id,
            seen: Mutex::default(),
        };
        topic.create().await;
        topic
    }

    /// Creates one more subscription to a topic, by its id, and gives the subscription's full name.
    pub async fn subscribe(&self, topic: &str, ordering: bool) -> String {
        let name = self.fresh_subscription_name();
        let traits = SubscriptionTraits {
            ordering,
            ..SubscriptionTraits::default()
        };
        self.create_subscription(&name, topic, &traits).await;
        name
    }

    /// The full name of a subscription that nobody has created yet.
    pub fn fresh_subscription_name(&self) -> String {
        let id = uuid::Uuid::now_v7().simple();
        format!("projects/{PROJECT}/subscriptions/test-{id}")
    }

    /// Creates a subscription under its full name, to a topic by its id.
    pub async fn create_subscription(&self, name: &str, topic: &str, traits: &SubscriptionTraits) {
        let full = |topic: &str| format!("projects/{PROJECT}/topics/{topic}");
        let dead_letters = |to: &String| wire::DeadLetterPolicy {
            dead_letter_topic: full(to),
            max_delivery_attempts: traits.attempts_max,
        };
        let subscription = wire::Subscription {
            name: name.to_owned(),
            topic: full(topic),
            ack_deadline_seconds: 10,
            enable_message_ordering: traits.ordering,
            dead_letter_policy: traits.dead_letter_topic.as_ref().map(dead_letters),
            enable_exactly_once_delivery: traits.exactly_once,
        };
        let _: wire::Empty = self
            .call("Subscriber/CreateSubscription", subscription)
            .await;
    }

    /// All messages that the subscription has now, each with its number.
    async fn drain(&self, subscription: &str) -> Vec<(u64, PubSubMessage)> {
        let mut drained = Vec::new();
        loop {
            let request = wire::PullRequest {
                subscription: subscription.to_owned(),
                return_immediately: true,
                max_messages: PULL_MAX,
            };
            let response: wire::PullResponse = self.call("Subscriber/Pull", request).await;
            if response.received_messages.is_empty() {
                return drained;
            }
            let (ack_ids, messages): (Vec<_>, Vec<_>) = response
                .received_messages
                .into_iter()
                .map(|m| (m.ack_id, m.message))
                .unzip();
            let subscription = subscription.to_owned();
            let acknowledge = wire::AcknowledgeRequest {
                subscription,
                ack_ids,
            };
            let _: wire::Empty = self.call("Subscriber/Acknowledge", acknowledge).await;
            drained.extend(
                messages
                    .into_iter()
                    .flatten()
                    .map(wire::PubsubMessage::into_numbered),
            );
        }
    }

    async fn call<Q, A>(&self, method: &str, request: Q) -> A
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let endpoint = Endpoint::from_shared(self.endpoint()).expect("an address");
        let channel: Channel = endpoint
            .connect()
            .await
            .expect("the Pub/Sub server answers");
        let mut grpc = Grpc::new(channel).max_decoding_message_size(usize::MAX);
        grpc.ready().await.expect("a connection");
        let path = PathAndQuery::try_from(format!("/google.pubsub.v1.{method}")).expect("a path");
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let response = grpc.unary(tonic::Request::new(request), path, codec).await;
        response
            .unwrap_or_else(|status| panic!("{method}: {status}"))
            .into_inner()
    }
}

impl PubSubTopic {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Deletes the topic and the subscription. What was published is forgotten.
    pub async fn delete(&self) {
        let named = |name| wire::DeleteRequest { name };
        let topic = named(format!("projects/{PROJECT}/topics/{}", self.id));
        let _: wire::Empty = self.server.call("Publisher/DeleteTopic", topic).await;
        let subscription = named(self.subscription());
        let _: wire::Empty = self
            .server
            .call("Subscriber/DeleteSubscription", subscription)
            .await;
    }

    /// Creates the topic and the subscription again after its server lost everything.
    pub async fn create(&self) {
        let topic = wire::Topic {
            name: format!("projects/{PROJECT}/topics/{}", self.id),
        };
        let _: wire::Topic = self.server.call("Publisher/CreateTopic", topic).await;
        self.server
            .create_subscription(
                &self.subscription(),
                &self.id,
                &SubscriptionTraits::default(),
            )
            .await;
        self.seen().clear();
    }

    /// Everything that was published since the topic was created, in the order in which the server
    /// took it. Without ordering on the subscription, so that nothing but the server's order counts.
    pub async fn messages(&self) -> Vec<PubSubMessage> {
        let drained = self.server.drain(&self.subscription()).await;
        let mut seen = self.seen();
        seen.extend(drained);
        seen.values().cloned().collect()
    }

    /// Waits until there are at least `count` messages.
    pub async fn wait_for(&self, count: usize, patience: Duration) -> Vec<PubSubMessage> {
        eventually_within(
            patience,
            &format!("{count} messages in {}", self.id),
            async || {
                let messages = self.messages().await;
                if messages.len() >= count {
                    Ok(messages)
                } else {
                    Err(messages.len())
                }
            },
        )
        .await
    }

    fn subscription(&self) -> String {
        format!("projects/{PROJECT}/subscriptions/{}", self.id)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, PubSubMessage>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
