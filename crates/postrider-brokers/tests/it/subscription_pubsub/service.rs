//! What the service says of messages, and what becomes of them when it or a subscriber is gone.

use std::time::Duration;

use postrider_brokers::pubsub::{PubSubSubscription, PubSubSubscriptionConfig};
use postrider_core::{MessageKey, SubscribeError, Subscription, Topic};
use postrider_testkit::conformance::publisher::numbered;
use postrider_testkit::eventually;
use postrider_testkit::pubsub::{PubSub, SubscriptionTraits};
use postrider_testkit::services::{Kind, PrivateServer};
use tokio::time::{Instant, timeout};

use super::{Fixture, LEASE_SECS, PATIENCE, body, nothing_within, one};

#[tokio::test]
async fn a_delivery_says_what_the_service_knows() {
    let fixture = Fixture::ordered().await;
    fixture.publish(&["a"], 0..1).await;
    let subscriber = fixture.subscriber();
    let mut delivery = one(&subscriber).await;
    let sent = numbered(&Topic::from(fixture.topic.id()), "a", 0);
    let message = &delivery.message;
    assert_eq!(message.topic, sent.topic);
    assert_eq!(message.key, Some(MessageKey::from("a")));
    assert!(message.ordered);
    assert_eq!(message.payload, sent.payload);
    for header in &sent.headers {
        assert!(message.headers.contains(header), "{header:?}");
    }
    let now = postrider_core::Timestamp::now();
    let published_at = delivery.published_at.expect("the service says when");
    assert!((now.as_micros() - published_at.as_micros()).abs() < 60_000_000);
    assert_eq!(delivery.attempt, 1);
    assert!(!delivery.position.is_empty());
    delivery.ack();
    subscriber.close(PATIENCE).await;
}

#[tokio::test]
async fn a_message_in_hand_for_longer_than_its_lease_is_not_delivered_again() {
    let fixture = Fixture::ordered().await;
    fixture.publish(&["a"], 0..1).await;
    let subscriber = fixture.subscriber();
    let mut delivery = one(&subscriber).await;
    let other = fixture.subscriber();
    nothing_within(&other, Duration::from_secs(u64::from(LEASE_SECS) + 3)).await;
    delivery.ack();
    subscriber.close(PATIENCE).await;
    fixture.publish(&["a"], 1..2).await;
    assert_eq!(body(&one(&other).await), "1");
}

#[tokio::test]
async fn a_message_in_hand_for_longer_than_the_longest_lease_is_lost_and_comes_again() {
    let fixture = Fixture::ordered().await;
    fixture.publish(&["a"], 0..1).await;
    let config = PubSubSubscriptionConfig {
        lease_max_secs: LEASE_SECS,
        ..fixture.config()
    };
    let subscriber = PubSubSubscription::new(config).unwrap();
    let mut delivery = one(&subscriber).await;
    timeout(PATIENCE, delivery.lost())
        .await
        .expect("it is lost");
    delivery.ack();
    let mut again = one(&subscriber).await;
    assert_eq!(body(&again), "0");
    again.ack();
    subscriber.close(PATIENCE).await;
}

#[tokio::test]
async fn a_ping_pulls_nothing() {
    let fixture = Fixture::ordered().await;
    fixture.publish(&["a"], 0..1).await;
    let asking = fixture.subscriber();
    asking.ping().await.unwrap();
    let subscriber = fixture.subscriber();
    one(&subscriber).await.ack();
    subscriber.close(PATIENCE).await;
}

#[tokio::test]
async fn what_a_dead_subscriber_had_comes_to_another_when_its_lease_is_over() {
    let fixture = Fixture::ordered().await;
    fixture.publish(&["a"], 0..2).await;
    let dying = fixture.subscriber();
    let delivery = one(&dying).await;
    // Ends the client with all it has, so that nothing more is told to the service.
    drop(dying);
    drop(delivery);
    let other = fixture.subscriber();
    for number in 0..2 {
        let mut delivery = one(&other).await;
        assert_eq!(body(&delivery), number.to_string());
        delivery.ack();
    }
}

#[tokio::test]
async fn a_nacked_message_and_its_followers_come_in_order_to_another() {
    let fixture = Fixture::ordered().await;
    fixture.publish(&["a"], 0..3).await;
    let first = fixture.subscriber();
    one(&first).await.nack(Duration::ZERO);
    first.close(PATIENCE).await;
    let other = fixture.subscriber();
    for number in 0..3 {
        let mut delivery = one(&other).await;
        assert_eq!(body(&delivery), number.to_string());
        delivery.ack();
    }
    other.close(PATIENCE).await;
}

#[tokio::test]
async fn attempts_are_counted_and_end_at_the_dead_letter_topic() {
    let server = PubSub::shared();
    let graveyard = server.fresh_topic().await;
    let traits = SubscriptionTraits {
        dead_letter_topic: Some(graveyard.id().to_owned()),
        attempts_max: 2,
        ..SubscriptionTraits::default()
    };
    let fixture = Fixture::new(server, traits).await;
    fixture.publish(&["a"], 0..1).await;
    let subscriber = fixture.subscriber();
    for attempt in 1..=2 {
        let mut delivery = one(&subscriber).await;
        assert_eq!(delivery.attempt, attempt);
        delivery.nack(Duration::ZERO);
    }
    assert_eq!(graveyard.wait_for(1, PATIENCE).await.len(), 1);
}

#[tokio::test]
async fn a_missing_subscription_is_refused_until_it_is_created() {
    let fixture = Fixture::ordered().await;
    let late = fixture.server.fresh_subscription_name();
    let config = PubSubSubscriptionConfig {
        subscription: late.clone(),
        ..fixture.config()
    };
    let subscriber = PubSubSubscription::new(config).unwrap();
    for refusal in [subscriber.next(1).await.map(drop), subscriber.ping().await] {
        match refusal {
            Err(SubscribeError::Refused { reason }) => {
                assert!(reason.contains(&late), "{reason}");
                assert!(reason.contains("subscriptions create"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    let traits = SubscriptionTraits::default();
    let topic = fixture.topic.id();
    fixture
        .server
        .create_subscription(&late, topic, &traits)
        .await;
    fixture.publish(&["a"], 0..1).await;
    let mut delivery = eventually("it is found", async || subscriber.next(1).await).await;
    delivery[0].ack();
    subscriber.ping().await.unwrap();
}

#[tokio::test]
async fn a_service_that_was_gone_is_pulled_from_when_it_is_back() {
    let mut private = PrivateServer::start(Kind::PubSub).await;
    let traits = SubscriptionTraits {
        ordering: true,
        ..SubscriptionTraits::default()
    };
    let fixture = Fixture::new(PubSub::at(private.address()), traits).await;
    let subscriber = fixture.subscriber();
    fixture.publish(&["a"], 0..1).await;
    one(&subscriber).await.ack();

    private.kill();
    let outage = timeout(PATIENCE, subscriber.next(1))
        .await
        .expect("in time");
    assert!(
        matches!(outage, Err(SubscribeError::Unavailable { .. })),
        "{outage:?}"
    );
    assert!(subscriber.ping().await.is_err());

    private.restart().await;
    fixture.create().await;
    fixture.publish(&["a"], 1..2).await;
    let mut found = eventually("it is back", async || subscriber.next(1).await).await;
    assert_eq!(body(&found[0]), "1");
    found[0].ack();
    subscriber.close(PATIENCE).await;
}

#[tokio::test]
async fn a_service_that_does_not_answer_does_not_hold_up_the_end() {
    let private = PrivateServer::start(Kind::PubSub).await;
    let traits = SubscriptionTraits::default();
    let fixture = Fixture::new(PubSub::at(private.address()), traits).await;
    fixture.publish(&["a"], 0..1).await;
    let subscriber = fixture.subscriber();
    let delivery = one(&subscriber).await;
    private.pause();
    let began = Instant::now();
    subscriber.close(Duration::from_secs(1)).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    timeout(PATIENCE, delivery.lost())
        .await
        .expect("it is lost");
    private.resume();
}
