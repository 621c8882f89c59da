//! The contract of [`Publisher`] as tests. A broker brings a [`PublisherWorld`] and runs every case:
//! `publisher_conformance!(world)`, and `publisher_outage_conformance!(world)` with a server of its own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{Failure, Header, Message, MessageKey, PublishError, Publisher, Topic};

use crate::{eventually, eventually_within};

/// Enough for any healthy broker on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// For calls that are meant to run into it.
const SHORT_DEADLINE: Duration = Duration::from_secs(3);
/// How much longer than its deadline a call may take.
const OVERRUN_MAX: Duration = Duration::from_secs(3);

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
            message.key.as_ref().map(|key| key.as_str().to_owned()),
            message.payload.as_ref().map(|payload| payload.to_vec()),
            message
                .headers
                .iter()
                .map(|h| (h.name.to_string(), h.value.clone())),
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

fn assert_all_taken(outcomes: &[Result<(), PublishError>]) {
    for (index, outcome) in outcomes.iter().enumerate() {
        assert!(outcome.is_ok(), "message {index}: {outcome:?}");
    }
}

fn failure_of(outcome: &Result<(), PublishError>) -> Option<Failure> {
    outcome.as_ref().err().map(PublishError::failure)
}

pub async fn messages_of_a_key_keep_their_order_within_and_across_calls(
    world: impl PublisherWorld,
) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let keys = ["a", "b", "c", "d", "e"];
    for call in 0..3 {
        let batch = interleaved(&topic, &keys, call * 100, 100);
        assert_all_taken(&publisher.publish(&batch, DEADLINE).await);
    }
    let seen = world.read(&topic).await;
    assert_eq!(seen.len(), 1500, "nothing lost, nothing twice");
    let by_key = first_occurrences(&seen);
    for key in keys {
        assert_eq!(by_key[key], (0..300).collect::<Vec<_>>(), "key {key}");
    }
}

pub async fn an_empty_batch_has_no_outcomes(world: impl PublisherWorld) {
    assert!(world.publisher().publish(&[], DEADLINE).await.is_empty());
}

pub async fn bytes_key_and_headers_arrive_unchanged(world: impl PublisherWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let message =
        |key: Option<&str>, payload: Option<&'static [u8]>, headers: Vec<Header>| Message {
            topic: topic.clone(),
            key: key.map(MessageKey::from),
            ordered: key.is_some(),
            payload: payload.map(Bytes::from_static),
            headers,
        };
    let headers = || vec![Header::new("type", "größer ☃"), Header::new("empty", "")];
    let mut batch = vec![
        message(Some("k"), Some(b"{\"a\" : 1.0}"), headers()),
        message(Some("k"), Some(b"\x00\xff\xfe not UTF-8"), headers()),
        message(Some("k"), Some(b""), headers()),
        message(Some("ключ"), Some(b"1"), vec![]),
        message(None, Some(b"no key"), headers()),
    ];
    if world.has_tombstones() {
        batch.push(message(Some("k"), None, headers()));
        batch.push(message(Some("k"), None, vec![]));
    }
    assert_all_taken(&publisher.publish(&batch, DEADLINE).await);
    let mut seen = world.read(&topic).await;
    let mut sent: Vec<Seen> = batch.iter().map(Seen::of).collect();
    // Order is promised per key only.
    seen.sort_by(|a, b| a.key.cmp(&b.key));
    sent.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(seen, sent);
}

pub async fn a_message_that_is_too_large_fails_alone_and_for_good(world: impl PublisherWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let mut batch = interleaved(&topic, &["a", "b"], 0, 5);
    let mut giant = numbered(&topic, "giant", 0);
    giant.payload = Some(Bytes::from(vec![b'x'; world.oversize_bytes()]));
    batch.insert(4, giant);

    let outcomes = publisher.publish(&batch, DEADLINE).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        if index == 4 {
            assert!(
                matches!(outcome, Err(PublishError::TooLarge { .. })),
                "{outcome:?}"
            );
            assert_eq!(failure_of(outcome), Some(Failure::Permanent));
        } else {
            assert!(outcome.is_ok(), "message {index}: {outcome:?}");
        }
    }
    let by_key = first_occurrences(&world.read(&topic).await);
    assert_eq!(by_key["a"], [0, 1, 2, 3, 4]);
    assert_eq!(by_key["b"], [0, 1, 2, 3, 4]);
    assert!(!by_key.contains_key("giant"));
}

pub async fn what_follows_a_failed_message_of_its_key_is_not_sent(world: impl PublisherWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let mut batch = interleaved(&topic, &["a", "b"], 0, 10);
    batch[6].payload = Some(Bytes::from(vec![b'x'; world.oversize_bytes()]));

    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert_each_key_ends_at_its_first_failure(&batch, &outcomes);
    assert!(
        matches!(outcomes[6], Err(PublishError::TooLarge { .. })),
        "{:?}",
        outcomes[6]
    );
    let by_key = first_occurrences(&world.read(&topic).await);
    assert_eq!(by_key["a"], [0, 1, 2]);
    assert_eq!(by_key["b"], (0..10).collect::<Vec<_>>());

    // The key is not stuck: once the giant is out of the way, the rest goes.
    publish_until_taken(
        &*publisher,
        (4..10).map(|n| numbered(&topic, "a", n)).collect(),
    )
    .await;
    let by_key = first_occurrences(&world.read(&topic).await);
    assert_eq!(by_key["a"], [0, 1, 2, 4, 5, 6, 7, 8, 9]);
}

pub async fn unordered_messages_do_not_wait_for_a_failed_one(world: impl PublisherWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let mut batch = interleaved(&topic, &["a"], 0, 10);
    batch.iter_mut().for_each(|message| message.ordered = false);
    batch[4].payload = Some(Bytes::from(vec![b'x'; world.oversize_bytes()]));
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    let taken: Vec<usize> = (0..10).filter(|index| outcomes[*index].is_ok()).collect();
    assert_eq!(taken, [0, 1, 2, 3, 5, 6, 7, 8, 9], "{outcomes:?}");
    assert_eq!(world.read(&topic).await.len(), 9);
}

pub async fn an_unknown_topic_fails_its_own_messages_only(world: impl PublisherWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let unknown = world.unknown_topic();
    let mut batch = interleaved(&topic, &["a", "b"], 0, 3);
    batch.insert(2, numbered(&unknown, "a", 0));
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert!(
        matches!(outcomes[2], Err(PublishError::UnknownTopic { .. })),
        "{:?}",
        outcomes[2]
    );
    assert_eq!(
        outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
        6,
        "{outcomes:?}"
    );
    let by_key = first_occurrences(&world.read(&topic).await);
    assert_eq!(
        by_key["a"],
        [0, 1, 2],
        "the same key in another topic is another order"
    );
}

pub async fn strange_input_is_an_error_and_never_a_panic(world: impl PublisherWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let names = [
        "",
        ".",
        "..",
        "a\0b",
        "no/such/name",
        "späce and ümlaut",
        &"x".repeat(10_000),
    ];
    let mut batch: Vec<Message> = names
        .iter()
        .map(|name| numbered(&Topic::from(*name), "k", 0))
        .collect();
    batch.push(numbered(&topic, "fine", 0));
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert_eq!(outcomes.len(), batch.len());
    for (name, outcome) in std::iter::zip(names, &outcomes) {
        let Err(error) = outcome else { continue };
        let text = error.to_string();
        assert!(
            text.len() < 2048 && !text.contains('\0'),
            "bounded and storable: {text}"
        );
        assert_ne!(error.failure(), Failure::Outage, "topic {name:?}: {error}");
    }
    assert!(outcomes[names.len()].is_ok(), "{:?}", outcomes[names.len()]);

    let strange = [
        ("", "v"),
        ("a\0b", "v"),
        ("k", "a\0b"),
        (&*"n".repeat(5_000), "v"),
    ];
    let strange = strange.map(|(name, value)| Header::new(name, value));
    let batch = strange.map(|header| Message {
        headers: vec![header],
        ..numbered(&topic, "k", 1)
    });
    let outcomes = publisher.publish(&batch, DEADLINE).await;
    assert_eq!(outcomes.len(), batch.len());
    assert!(
        !outcomes
            .iter()
            .any(|outcome| failure_of(outcome) == Some(Failure::Outage))
    );
}

pub async fn concurrent_calls_keep_the_order_of_their_keys(world: impl PublisherWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let calls = (0..8).map(|call| {
        let (publisher, topic) = (Arc::clone(&publisher), topic.clone());
        async move {
            let key = format!("key-{call}");
            for round in 0..5 {
                let batch = interleaved(&topic, &[&key], round * 20, 20);
                assert_all_taken(&publisher.publish(&batch, DEADLINE).await);
            }
        }
    });
    futures::future::join_all(calls).await;
    let by_key = first_occurrences(&world.read(&topic).await);
    assert_eq!(by_key.len(), 8);
    for (key, numbers) in by_key {
        assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "{key}");
    }
}

pub async fn a_dropped_call_leaves_a_working_publisher(world: impl PublisherWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    assert_all_taken(
        &publisher
            .publish(&[numbered(&topic, "warm", 0)], DEADLINE)
            .await,
    );
    let batch = interleaved(&topic, &["a", "b"], 0, 200);
    // Polled once: everything is handed over, nothing is answered yet.
    let dropped = tokio::time::timeout(Duration::ZERO, publisher.publish(&batch, DEADLINE)).await;
    assert!(dropped.is_err() || dropped.is_ok_and(|outcomes| outcomes.len() == batch.len()));
    publish_until_taken(&*publisher, batch).await;
    let by_key = first_occurrences(&world.read(&topic).await);
    assert_eq!(by_key["a"], (0..200).collect::<Vec<_>>());
    assert_eq!(by_key["b"], (0..200).collect::<Vec<_>>());
}

pub async fn ping_answers(world: impl PublisherWorld) {
    world.publisher().ping().await.expect("the broker is there");
}

pub async fn a_stopped_broker_makes_all_unavailable_within_the_deadline(
    mut world: impl OutageWorld,
) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    assert_all_taken(
        &publisher
            .publish(&[numbered(&topic, "a", 0)], DEADLINE)
            .await,
    );
    world.stop().await;
    // Twice: the first call may find an open connection, the second none.
    for number in 1..3 {
        let batch = interleaved(&topic, &["a", "b", "c"], number, 50);
        let start = Instant::now();
        let outcomes = publisher.publish(&batch, SHORT_DEADLINE).await;
        let took = start.elapsed();
        assert!(took < SHORT_DEADLINE + OVERRUN_MAX, "took {took:?}");
        assert_eq!(outcomes.len(), batch.len());
        for outcome in &outcomes {
            assert!(
                matches!(outcome, Err(PublishError::Unavailable { .. })),
                "{outcome:?}"
            );
        }
    }
    assert!(publisher.ping().await.is_err(), "ping notices");
    world.start().await;
    eventually("ping recovers", async || publisher.ping().await).await;
}

pub async fn the_same_publisher_goes_on_in_order_after_an_outage(mut world: impl OutageWorld) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let keys = ["a", "b", "c"];
    let before = interleaved(&topic, &keys, 0, 20);
    assert_all_taken(&publisher.publish(&before, DEADLINE).await);
    world.stop().await;
    let during = interleaved(&topic, &keys, 20, 20);
    let outcomes = publisher.publish(&during, SHORT_DEADLINE).await;
    assert!(outcomes.iter().all(Result::is_err));
    world.start().await;
    publish_until_taken(&*publisher, during).await;
    publish_until_taken(&*publisher, interleaved(&topic, &keys, 40, 20)).await;

    let first = if world.keeps_messages() { 0 } else { 20 };
    let by_key = first_occurrences(&world.read(&topic).await);
    for key in keys {
        assert_eq!(by_key[key], (first..60).collect::<Vec<_>>(), "key {key}");
    }
}

pub async fn a_broker_that_dies_under_load_inverts_nothing(mut world: impl OutageWorld) {
    const ROUND: usize = 50;
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let reborn = AtomicBool::new(false);
    let writers = (0..4).map(|writer| {
        let (publisher, topic, reborn) = (&*publisher, &topic, &reborn);
        async move {
            let key = format!("key-{writer}");
            let mut count = 0;
            let mut rounds_left = 10;
            while rounds_left > 0 {
                rounds_left -= usize::from(reborn.load(Ordering::Relaxed));
                publish_until_taken(publisher, interleaved(topic, &[&key], count, ROUND)).await;
                count += ROUND;
                // A broker in memory would never let the others in.
                tokio::task::yield_now().await;
            }
            (key, count)
        }
    });
    let death = async {
        eventually("the load is on", async || {
            let seen = world.read(&topic).await.len();
            if seen > 4 * ROUND { Ok(()) } else { Err(seen) }
        })
        .await;
        world.stop().await;
        world.start().await;
        reborn.store(true, Ordering::Relaxed);
    };
    let (written, ()) = futures::join!(futures::future::join_all(writers), death);
    let by_key = first_occurrences(&world.read(&topic).await);
    for (key, count) in written {
        let numbers = &by_key[&key];
        assert!(numbers.is_sorted(), "{key} is inverted: {numbers:?}");
        assert_eq!(numbers.last(), Some(&(count - 1)), "{key}");
        if world.keeps_messages() {
            assert_eq!(numbers.len(), count, "{key} lost something");
        }
    }
}

pub async fn a_frozen_broker_that_thaws_after_the_deadline_inverts_nothing(
    mut world: impl OutageWorld,
) {
    let (publisher, topic) = (world.publisher(), world.fresh_topic().await);
    let keys = ["a", "b", "c"];
    publish_until_taken(&*publisher, interleaved(&topic, &keys, 0, 20)).await;
    world.freeze().await;
    // On the wire and unanswered: the broker finds these when it wakes up.
    let during = interleaved(&topic, &keys, 20, 20);
    let start = Instant::now();
    let outcomes = publisher.publish(&during, SHORT_DEADLINE).await;
    let took = start.elapsed();
    assert!(took < SHORT_DEADLINE + OVERRUN_MAX, "took {took:?}");
    for outcome in &outcomes {
        assert!(
            matches!(outcome, Err(PublishError::Unavailable { .. })),
            "{outcome:?}"
        );
    }
    world.thaw().await;
    publish_until_taken(&*publisher, during).await;
    publish_until_taken(&*publisher, interleaved(&topic, &keys, 40, 20)).await;
    let by_key = first_occurrences(&world.read(&topic).await);
    for key in keys {
        assert_eq!(by_key[key], (0..60).collect::<Vec<_>>(), "key {key}");
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
