//! The contract of [`Publisher`] as tests. A broker brings a [`PublisherWorld`] and runs every case:
//! `publisher_conformance!(world)`, and `publisher_outage_conformance!(world)` with a server of its own.

mod delivery;
mod outage;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{Header, Message, MessageKey, PublishError, Publisher, Topic};

pub use delivery::*;
pub use outage::*;

use crate::eventually_within;

/// Enough for any healthy broker on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// For calls that are meant to run into it.
const SHORT_DEADLINE: Duration = Duration::from_secs(3);

/// A broker under test: the publisher, and a way to look at what the broker has.
#[async_trait]
pub trait PublisherWorld: Send + Sync {
    fn publisher(&self) -> Arc<dyn Publisher>;

    /// An empty topic of the test's own.
    async fn fresh_topic(&self) -> Topic;

    /// A well-formed topic that does not exist and is not made by publishing to it.
    fn unknown_topic(&self) -> Topic;

    /// Everything that the topic has, in the order in which the broker took it, at least per key.
    async fn read(&self, topic: &Topic) -> Vec<Seen>;

    /// The size of a body that is over the broker's limit for one message.
    fn oversize_bytes(&self) -> usize;

    /// Whether a message without a body is something else than one with an empty body, and both are
    /// taken without any header.
    fn has_tombstones(&self) -> bool;
}

/// A world whose server can be taken away.
#[async_trait]
pub trait OutageWorld: PublisherWorld {
    /// Ends the server at once.
    async fn stop(&mut self);

    /// Starts it again. Topics exist as before; whether they kept their messages is
    /// [`Self::keeps_messages`].
    async fn start(&mut self);

    fn keeps_messages(&self) -> bool;

    /// Lets it stop answering while its connections stay open.
    async fn freeze(&mut self);

    async fn thaw(&mut self);
}

/// A message as the broker has it. Headers are sorted by name: some brokers keep them in a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub key: Option<String>,
    pub payload: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
}

impl Seen {
    pub fn new(
        key: Option<String>,
        payload: Option<Vec<u8>>,
        headers: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut headers: Vec<_> = headers.into_iter().collect();
        headers.sort();
        Self {
            key,
            payload,
            headers,
        }
    }

    /// The message as it would be seen if nothing were changed.
    pub fn of(message: &Message) -> Self {
        Self::new(
            message.key.as_ref().map(ToString::to_string),
            message.payload.as_ref().map(|payload| payload.to_vec()),
            message
                .headers
                .iter()
                .map(|h| (h.name.to_string(), h.text().unwrap_or("?").to_owned())),
        )
    }
}

/// An ordered message, the `number`th of its key.
pub fn numbered(topic: &Topic, key: &str, number: usize) -> Message {
    Message {
        topic: topic.clone(),
        key: Some(MessageKey::from(key)),
        ordered: true,
        payload: Some(Bytes::from(number.to_string())),
        headers: vec![Header::new("number", number.to_string())],
    }
}

/// `count` messages for each key, taking turns, numbered from `first`.
pub fn interleaved(topic: &Topic, keys: &[&str], first: usize, count: usize) -> Vec<Message> {
    let numbers = first..first + count;
    numbers
        .flat_map(|number| keys.iter().map(move |key| numbered(topic, key, number)))
        .collect()
}

/// What each key has, with repetitions left out: a consumer that recognises duplicates sees this.
pub fn first_occurrences(seen: &[Seen]) -> HashMap<String, Vec<usize>> {
    let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
    let mut known = HashSet::new();
    for message in seen {
        let number = message.headers.iter().find(|(name, _)| name == "number");
        let Some((_, number)) = number else { continue };
        let key = message.key.clone().unwrap_or_default();
        if known.insert((key.clone(), number)) {
            by_key
                .entry(key)
                .or_default()
                .push(number.parse().expect("a number"));
        }
    }
    by_key
}

/// Within a call, once an ordered message failed none of its key may succeed.
pub fn assert_each_key_ends_at_its_first_failure(
    batch: &[Message],
    outcomes: &[Result<(), PublishError>],
) {
    assert_eq!(outcomes.len(), batch.len(), "one outcome per message");
    let mut failed: HashMap<&MessageKey, &PublishError> = HashMap::new();
    for (message, outcome) in std::iter::zip(batch, outcomes) {
        let Some(key) = message.key.as_ref().filter(|_| message.ordered) else {
            continue;
        };
        match (outcome, failed.get(key)) {
            (Ok(()), Some(error)) => panic!("{message:?} was taken after {error:?}"),
            (Err(error), None) => {
                failed.insert(key, error);
            }
            _ => {}
        }
    }
}

/// Publishes as a relay does: what was not taken goes again, in order, until all is taken.
pub async fn publish_until_taken(publisher: &dyn Publisher, messages: Vec<Message>) {
    let mut left = messages;
    eventually_within(
        Duration::from_secs(60),
        "all messages are taken",
        async || {
            let outcomes = publisher.publish(&left, SHORT_DEADLINE).await;
            assert_each_key_ends_at_its_first_failure(&left, &outcomes);
            let errors: Vec<String> = outcomes
                .iter()
                .filter_map(|o| o.as_ref().err())
                .map(ToString::to_string)
                .collect();
            let taken: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
            let mut taken = taken.into_iter();
            left.retain(|_| !taken.next().expect("one outcome per message"));
            if left.is_empty() {
                Ok(())
            } else {
                Err((errors.len(), errors.into_iter().next()))
            }
        },
    )
    .await;
}

/// For a healthy broker.
pub fn assert_all_taken(outcomes: &[Result<(), PublishError>]) {
    for (index, outcome) in outcomes.iter().enumerate() {
        assert!(outcome.is_ok(), "message {index}: {outcome:?}");
    }
}

/// One test per case, each with a world from `$world().await`.
#[macro_export]
macro_rules! publisher_conformance {
    ($world:path) => {
        $crate::publisher_cases! { $world:
            messages_of_a_key_keep_their_order_within_and_across_calls
            an_empty_batch_has_no_outcomes
            bytes_key_and_headers_arrive_unchanged
            a_message_that_is_too_large_fails_alone_and_for_good
            what_follows_a_failed_message_of_its_key_is_not_sent
            unordered_messages_do_not_wait_for_a_failed_one
            an_unknown_topic_fails_its_own_messages_only
            strange_input_is_an_error_and_never_a_panic
            concurrent_calls_keep_the_order_of_their_keys
            a_dropped_call_leaves_a_working_publisher
            ping_answers
        }
    };
}

/// The cases that take the server away.
#[macro_export]
macro_rules! publisher_outage_conformance {
    ($world:path) => {
        $crate::publisher_cases! { $world:
            a_stopped_broker_makes_all_unavailable_within_the_deadline
            the_same_publisher_goes_on_in_order_after_an_outage
            a_broker_that_dies_under_load_inverts_nothing
            a_frozen_broker_that_thaws_after_the_deadline_inverts_nothing
            what_was_given_up_is_not_sent_later
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! publisher_cases {
    ($world:path: $($case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::conformance::publisher::$case($world().await).await;
        }
    )*};
}
