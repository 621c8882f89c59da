//! What a publisher does while the broker is there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use postrider_core::{Failure, Header, Message, MessageKey, PublishError, Topic};

use super::{
    DEADLINE, PublisherWorld, Seen, assert_all_taken, assert_each_key_ends_at_its_first_failure,
    first_occurrences, interleaved, numbered, publish_until_taken,
};

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
        matches!(outcomes[2], Err(PublishError::PartUnavailable { .. })),
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

fn failure_of(outcome: &Result<(), PublishError>) -> Option<Failure> {
    outcome.as_ref().err().map(PublishError::failure)
}
