//! Messages as they were published.

use bytes::Bytes;
use postrider_core::{Delivery, Header, Message, MessageKey, Topic};

use super::{CLOSE_DEADLINE, ROOMY, SubscriptionWorld, publish, take};
use crate::eventually;

pub async fn bodies_keys_and_headers_arrive_unchanged(world: impl SubscriptionWorld) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    let sent = strange_messages(&topic, world.has_tombstones(), world.keeps_any_bytes());
    publish(&world, sent.clone()).await;
    let mut seen = Vec::new();
    while seen.len() < sent.len() {
        for mut delivery in take(&*subscription, 100).await {
            assert_eq!(delivery.message.topic, topic);
            assert_eq!(delivery.message.ordered, delivery.message.key.is_some());
            assert!(!delivery.position.is_empty());
            seen.push(content(&delivery.message));
            Delivery::ack(&mut delivery);
        }
    }
    let mut sent: Vec<_> = sent.iter().map(content).collect();
    // Order is promised per key only.
    sent.sort();
    seen.sort();
    assert_eq!(seen.len(), sent.len());
    for (seen, sent) in std::iter::zip(&seen, &sent) {
        assert!(
            seen == sent,
            "{:.300} is not {:.300}",
            format!("{seen:?}"),
            format!("{sent:?}")
        );
    }
    subscription.close(CLOSE_DEADLINE).await;
}

fn strange_messages(topic: &Topic, tombstones: bool, any_bytes: bool) -> Vec<Message> {
    let message = |key: Option<&[u8]>, payload: Option<Vec<u8>>, headers: Vec<Header>| Message {
        topic: topic.clone(),
        key: key.map(MessageKey::from),
        ordered: key.is_some(),
        payload: payload.map(Bytes::from),
        headers,
    };
    let headers = || vec![Header::new("type", "größer ☃"), Header::new("empty", "")];
    let mut all = vec![
        message(Some(b"text"), Some(b"{\"a\" : 1.0}".to_vec()), headers()),
        message(Some(b"binary"), Some(b"\x00\xff\xfe".to_vec()), headers()),
        message(Some(b"empty body"), Some(Vec::new()), headers()),
        message(None, Some(b"no key".to_vec()), headers()),
        message(Some("ключ".as_bytes()), Some(b"1".to_vec()), Vec::new()),
        message(Some(b"large"), Some(vec![b'x'; 900_000]), Vec::new()),
    ];
    if tombstones {
        all.push(message(Some(b"tombstone"), None, Vec::new()));
    }
    if any_bytes {
        let odd = Header {
            name: "odd".into(),
            value: Bytes::from_static(b"\xff\x00\xfe"),
        };
        all.push(message(
            Some(b"\xff\x00\xfe"),
            Some(b"2".to_vec()),
            vec![odd],
        ));
    }
    all
}

type Content = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Vec<u8>)>);

fn content(message: &Message) -> Content {
    let mut headers: Vec<_> = message
        .headers
        .iter()
        .map(|header| (header.name.to_string(), header.value.to_vec()))
        .collect();
    headers.sort();
    let key = message.key.as_ref().map(|key| key.as_bytes().to_vec());
    (
        key,
        message.payload.as_ref().map(|payload| payload.to_vec()),
        headers,
    )
}

pub async fn a_subscription_answers_a_ping(world: impl SubscriptionWorld) {
    let topic = world.fresh_topic().await;
    let subscription = world.subscribe(&topic, ROOMY).await;
    eventually("the broker is there", async || subscription.ping().await).await;
}
