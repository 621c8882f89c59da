//! What a service may do that Google's test server does not.

use std::time::Duration;

use postrider_brokers::pubsub::{PubSubSubscription, PubSubSubscriptionConfig};
use postrider_core::{Delivery, SubscribeError, Subscription};
use postrider_testkit::eventually;
use postrider_testkit::pubsub::{ScriptedMessage, ScriptedPull, Settled};
use tokio::time::{Instant, timeout};

use super::{PATIENCE, body, one};

/// A subscriber of a service that does what the test says.
async fn scripted(exactly_once: bool) -> (ScriptedPull, PubSubSubscription) {
    let server = ScriptedPull::start(exactly_once).await;
    let config = PubSubSubscriptionConfig {
        endpoint: Some(server.endpoint().to_owned()),
        ..PubSubSubscriptionConfig::new("p", "scripted")
    };
    (
        server,
        PubSubSubscription::new(config).expect("a valid config"),
    )
}

fn of_key<'a>(ordering_key: &'a str, ack_ids: &[&'a str]) -> Vec<ScriptedMessage<'a>> {
    let message = |ack_id: &&'a str| ScriptedMessage {
        ack_id,
        ordering_key,
    };
    ack_ids.iter().map(message).collect()
}

fn nacks(ack_ids: &[&str]) -> Vec<Settled> {
    ack_ids
        .iter()
        .map(|id| Settled::Nack((*id).into()))
        .collect()
}

async fn nacked(server: &ScriptedPull, ack_ids: &[&str]) {
    let expected = nacks(ack_ids);
    eventually("the service was told", async || {
        let mut settled = server.settled();
        settled.retain(|settled| matches!(settled, Settled::Nack(_)));
        if settled == expected {
            Ok(())
        } else {
            Err(settled)
        }
    })
    .await;
}

/// Takes the first message of a key when the others that were sent with it wait behind it.
async fn first_of(
    server: &ScriptedPull,
    subscriber: &PubSubSubscription,
    ack_ids: &[&str],
) -> Delivery {
    let sent = [of_key("a", ack_ids), of_key("last", &["last"])].concat();
    server.send(&sent);
    let first = one(subscriber).await;
    assert_eq!(body(&first), ack_ids[0]);
    let mut last = one(subscriber).await;
    assert_eq!(body(&last), "last", "another key goes on");
    last.ack();
    let acked = [Settled::Ack("last".into())];
    eventually("the last is acknowledged", async || {
        match server.settled() {
            settled if settled == acked => Ok(()),
            settled => Err(settled),
        }
    })
    .await;
    first
}

#[tokio::test]
async fn a_nack_holds_the_message_and_then_gives_back_all_that_waits_of_its_key() {
    let (server, subscriber) = scripted(false).await;
    let mut first = first_of(&server, &subscriber, &["a1", "a2", "a3"]).await;
    let began = Instant::now();
    let after = Duration::from_secs(1);
    first.nack(after);
    nacked(&server, &["a1", "a2", "a3"]).await;
    assert!(began.elapsed() >= after);
    subscriber.close(PATIENCE).await;
}

#[tokio::test]
async fn what_was_on_the_way_does_not_overtake_what_was_given_back() {
    let (server, subscriber) = scripted(false).await;
    let mut first = first_of(&server, &subscriber, &["a1", "a2"]).await;
    first.nack(Duration::ZERO);
    nacked(&server, &["a1", "a2"]).await;
    // Sent before the service knew, and then everything once more.
    server.send(&of_key("a", &["a3"]));
    server.send(&of_key("a", &["a1:2", "a2:2", "a3:2"]));
    for expected in ["a1:2", "a2:2", "a3:2"] {
        let mut delivery = one(&subscriber).await;
        assert_eq!(body(&delivery), expected);
        delivery.ack();
    }
    subscriber.close(PATIENCE).await;
    nacked(&server, &["a1", "a2", "a3"]).await;
}

#[tokio::test]
async fn a_key_goes_on_when_what_was_given_back_went_elsewhere() {
    let (server, subscriber) = scripted(false).await;
    server.send(&of_key("a", &["a1"]));
    one(&subscriber).await.nack(Duration::ZERO);
    nacked(&server, &["a1"]).await;
    server.send(&of_key("a", &["a2"]));
    nacked(&server, &["a1", "a2"]).await;
    server.send(&of_key("a", &["a2:2"]));
    assert_eq!(body(&one(&subscriber).await), "a2:2");
}

#[tokio::test]
async fn an_acknowledgement_that_must_be_confirmed_is_sent_until_it_is() {
    let (server, subscriber) = scripted(true).await;
    server.refuse_next_ack(UNAVAILABLE);
    server.send(&of_key("a", &["a1"]));
    one(&subscriber).await.ack();
    subscriber.close(PATIENCE).await;
    assert_eq!(server.settled(), [Settled::Ack("a1".into())]);
}

const UNAVAILABLE: i32 = 14;

#[tokio::test]
async fn closing_waits_for_what_is_in_hand_and_gives_back_the_rest() {
    let (server, subscriber) = scripted(false).await;
    server.send(&of_key("a", &["a1", "a2"]));
    let mut in_hand = one(&subscriber).await;
    let closing = subscriber.close(PATIENCE);
    let finish = async {
        let refused = subscriber.next(1).await;
        assert!(
            matches!(refused, Err(SubscribeError::Closed)),
            "{refused:?}"
        );
        assert_eq!(server.settled(), []);
        in_hand.ack();
    };
    tokio::join!(closing, finish);
    let settled = server.settled();
    assert!(settled.contains(&Settled::Ack("a1".into())), "{settled:?}");
    assert!(settled.contains(&Settled::Nack("a2".into())), "{settled:?}");
    assert_eq!(settled.len(), 2);
}

#[tokio::test]
async fn what_is_in_hand_at_the_deadline_is_lost_and_given_back() {
    let (server, subscriber) = scripted(false).await;
    server.send(&of_key("a", &["a1"]));
    let mut in_hand = one(&subscriber).await;
    subscriber.close(Duration::ZERO).await;
    timeout(PATIENCE, in_hand.lost()).await.expect("it is lost");
    in_hand.ack();
    assert_eq!(server.settled(), nacks(&["a1"]));
}
