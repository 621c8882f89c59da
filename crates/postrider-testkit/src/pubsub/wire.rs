//! The few messages of `google/pubsub/v1/pubsub.proto` that tests need, with the fields that they use.

use std::collections::HashMap;

use super::PubSubMessage;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Topic {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeleteRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Subscription {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) topic: String,
    #[prost(int32, tag = "5")]
    pub(super) ack_deadline_seconds: i32,
    #[prost(bool, tag = "10")]
    pub(super) enable_message_ordering: bool,
    #[prost(message, optional, tag = "13")]
    pub(super) dead_letter_policy: Option<DeadLetterPolicy>,
    #[prost(bool, tag = "16")]
    pub(super) enable_exactly_once_delivery: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeadLetterPolicy {
    #[prost(string, tag = "1")]
    pub(super) dead_letter_topic: String,
    #[prost(int32, tag = "2")]
    pub(super) max_delivery_attempts: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PullRequest {
    #[prost(string, tag = "1")]
    pub(super) subscription: String,
    #[prost(bool, tag = "2")]
    pub(super) return_immediately: bool,
    #[prost(int32, tag = "3")]
    pub(super) max_messages: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PullResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) received_messages: Vec<ReceivedMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReceivedMessage {
    #[prost(string, tag = "1")]
    pub(super) ack_id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) message: Option<PubsubMessage>,
    #[prost(int32, tag = "3")]
    pub(super) delivery_attempt: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StreamingPullRequest {
    #[prost(string, tag = "1")]
    pub(super) subscription: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StreamingPullResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) received_messages: Vec<ReceivedMessage>,
    #[prost(message, optional, tag = "4")]
    pub(super) subscription_properties: Option<SubscriptionProperties>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SubscriptionProperties {
    #[prost(bool, tag = "1")]
    pub(super) exactly_once_delivery_enabled: bool,
    #[prost(bool, tag = "2")]
    pub(super) message_ordering_enabled: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PubsubMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) data: Vec<u8>,
    #[prost(map = "string, string", tag = "2")]
    pub(super) attributes: HashMap<String, String>,
    #[prost(string, tag = "3")]
    pub(super) message_id: String,
    #[prost(string, tag = "5")]
    pub(super) ordering_key: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PublishRequest {
    #[prost(string, tag = "1")]
    pub(super) topic: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) messages: Vec<PubsubMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PublishResponse {
    #[prost(string, repeated, tag = "1")]
    pub(super) message_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AcknowledgeRequest {
    #[prost(string, tag = "1")]
    pub(super) subscription: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) ack_ids: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ModifyAckDeadlineRequest {
    #[prost(string, tag = "1")]
    pub(super) subscription: String,
    #[prost(int32, tag = "3")]
    pub(super) ack_deadline_seconds: i32,
    #[prost(string, repeated, tag = "4")]
    pub(super) ack_ids: Vec<String>,
}

impl PubsubMessage {
    /// The test server counts: its ids are m0, m1 and so on.
    pub(super) fn into_numbered(self) -> (u64, PubSubMessage) {
        let number = self
            .message_id
            .trim_start_matches('m')
            .parse()
            .expect("a number");
        (number, self.into())
    }
}

impl From<PubsubMessage> for PubSubMessage {
    fn from(message: PubsubMessage) -> Self {
        Self {
            data: message.data,
            attributes: message.attributes.into_iter().collect(),
            ordering_key: message.ordering_key,
        }
    }
}
