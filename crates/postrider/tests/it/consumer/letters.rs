//! What a dead letter looks like.

use postrider::brokers::memory::MemoryConfig;
use postrider::consumer::Config;
use postrider::consumer::middleware::Shape;
use postrider::core::{Header, Opening, Topic};
use uuid::Uuid;

use super::acting::{Act, Acting, apply};
use super::settings::config;
use super::world::{Running, World, json, until};
use crate::world::header;

/// What cannot be read goes as it came: bytes, key and headers, with what happened beside them.
#[tokio::test(flavor = "multi_thread")]
async fn unreadable_bytes_are_dead_lettered_as_they_came() {
    let world = World::new().await;
    let strict = Config {
        opening: Opening::Polyshop,
        ..config()
    };
    let chain = world.consumer().config(strict).with(world.dead_letter());
    let running = Running::start(world.in_transaction(chain).handle(apply));
    let mut message = world.message_of(Uuid::now_v7(), "k", *b"\xff\x00{not json");
    message.headers.push(Header {
        name: "blob".into(),
        value: bytes::Bytes::from_static(b"\xfe\xff"),
    });
    message
        .headers
        .push(Header::new("dlt_error_message", "of an earlier life"));
    message
        .headers
        .push(Header::new("googclient_schemaname", "of Pub/Sub's own"));
    world.publish(&[message.clone()]).await;
    let dead = world.until_dead(1).await.remove(0);
    world.until_all_acknowledged().await;
    running.stop().await;
    assert!(
        !dead
            .headers
            .iter()
            .any(|header| header.name.starts_with("goog"))
    );
    assert_eq!(
        (dead.payload.clone(), dead.key.clone()),
        (message.payload.clone(), message.key.clone())
    );
    for kept in &message.headers[..3] {
        assert!(dead.headers.contains(kept), "{kept:?}");
    }
    let named = |name: &str| {
        dead.headers
            .iter()
            .filter(|header| &*header.name == name)
            .count()
    };
    assert_eq!(named("dlt_error_message"), 1);
    assert!(
        header(&dead, "dlt_error_message")
            .unwrap()
            .contains("not JSON")
    );
    assert_eq!(header(&dead, "dlt_consumer_service"), Some("payments"));
    assert_eq!(header(&dead, "dlt_original_topic"), Some("orders"));
    assert_eq!(header(&dead, "dlt_original_position"), Some("orders@0"));
    assert!(header(&dead, "dlt_failed_at").unwrap().ends_with('Z'));
}

fn small(bytes: usize) -> MemoryConfig {
    MemoryConfig {
        message_bytes_max: bytes,
        ..MemoryConfig::default()
    }
}

/// Where the frame is too large for the broker the original goes without it; where that is too large too, it stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_too_large_is_left_out() {
    for (limit, fits) in [(5_400, true), (5_000, false)] {
        let world = World::with(MemoryConfig::default(), small(limit)).await;
        let running = Running::start(
            world
                .in_transaction(world.consumer().with(world.dead_letter()))
                .handle(apply),
        );
        let body = format!(r#"{{"pad":"{}"}}"#, "x".repeat(4_990));
        let message = world.message_of(Uuid::now_v7(), "k", body);
        world
            .publish(&[message.clone(), world.message(Uuid::now_v7(), "other", 2)])
            .await;
        world.until_effects(1).await;
        if fits {
            let dead = world.until_dead(1).await;
            world.until_all_acknowledged().await;
            assert!(dead[0].payload == message.payload, "framed");
            assert_eq!(
                header(&dead[0], "dlt_event_id"),
                header(&message, "event_id")
            );
            assert!(
                header(&dead[0], "dlt_error_message")
                    .unwrap()
                    .contains("does not decode")
            );
        } else {
            world.until_metric("given_back_total", 2.0).await;
            world.until_unacknowledged(1).await;
            assert_eq!(world.dead().len(), 0);
        }
        running.stop().await;
    }
}

/// Names and shapes can be chosen.
#[tokio::test(flavor = "multi_thread")]
async fn the_topic_and_the_shape_of_a_dead_letter_can_be_chosen() {
    let world = World::new().await;
    let acting = Acting::new(&world, |_, _| Act::Permanent);
    let dead = world
        .dead_letter()
        .topic(|topic| Topic::from(format!("dead-{topic}")))
        .shape(Shape::InData);
    let running = Running::start(
        world
            .in_transaction(world.consumer().with(dead))
            .handle(acting),
    );
    world.place("k", [1]).await;
    let topic = Topic::from("dead-orders");
    until("the letter", 1, async || {
        world.graveyard.messages(&topic).len()
    })
    .await;
    running.stop().await;
    let letter = json(&world.graveyard.messages(&topic)[0]);
    assert_eq!(letter["data"]["originalEvent"]["order"], 1);
    assert_eq!(letter["data"]["consumerService"], "payments");
}
