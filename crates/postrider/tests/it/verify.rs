//! An outbox compared with the memory broker: what the real Kafka tests of the binary do not reach.

use std::sync::Arc;

use postrider::Verify;
use postrider::brokers::memory::{MemoryBroker, MemoryConfig};
use postrider::core::{Router, Routes, Timestamp};
use postrider::verify::{Report, VerifyError, VerifyOptions};

use crate::world::World;

/// A day each way.
const DAY: i64 = 24 * 3_600 * 1_000_000;

fn options() -> VerifyOptions {
    let now = Timestamp::now().as_micros();
    let at = Timestamp::from_micros;
    VerifyOptions::new(at(now - DAY), at(now + DAY))
}

async fn verify(
    world: &World,
    broker: &MemoryBroker,
    options: VerifyOptions,
) -> Result<Report, VerifyError> {
    let router = Router::new(&world.layout, Routes::new(), None);
    let (records, broker) = (Arc::new(world.store()), Arc::new(broker.clone()));
    Verify::new(records, broker, world.layout.clone(), router, options)
        .run()
        .await
}

async fn published(preset: &str, count: i64, broker: &MemoryBroker) -> World {
    let world = World::new(preset).await;
    world
        .emit((0..count).map(|number| world.numbered_sample("a", number)))
        .await;
    let relay = world.relay(broker.clone()).start();
    world.until_drained().await;
    relay.stop().await;
    world
}

/// gopipe's event ids are in a header and its ids are numbers, so nothing leads from one to the other: the outbox is read.
#[tokio::test]
async fn ids_that_cannot_be_looked_up_are_looked_for() {
    let broker = MemoryBroker::default();
    let world = published("gopipe", 6, &broker).await;
    world
        .execute("UPDATE outbox SET created_at = created_at - interval '3 days' WHERE id <= 2")
        .await;
    let report = verify(&world, &broker, options()).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.published, report.messages), (4, 6));
    assert!(report.inverted.is_none(), "no order is promised");
    let gone = world.sample_ids(&broker)[3].clone();
    world
        .execute(&format!(
            "DELETE FROM outbox WHERE attributes->>'id' = '{gone}'"
        ))
        .await;
    let report = verify(&world, &broker, options()).await.unwrap();
    assert_eq!(report.unknown.count, 1);
    assert_eq!(report.unknown.first[0].event_id.as_str(), gone);
}

/// A record's id is its position in the stream, and its event id is another.
#[tokio::test]
async fn a_stream_is_compared_by_its_event_ids() {
    let broker = MemoryBroker::default();
    let world = published("native", 6, &broker).await;
    let report = verify(&world, &broker, options()).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.published, report.messages), (6, 6));
    assert_eq!(report.inverted.map(|inverted| inverted.count), Some(0));
    let gone = world.sample_ids(&broker)[3].clone();
    world
        .execute(&format!(
            "DELETE FROM postrider_outbox WHERE event_id = '{gone}'"
        ))
        .await;
    let report = verify(&world, &broker, options()).await.unwrap();
    assert_eq!(report.unknown.count, 1);
    let elsewhere = MemoryBroker::default();
    let report = verify(&world, &elsewhere, options()).await;
    assert_eq!(report.unwrap().lost.count, 5);
}

#[tokio::test]
async fn a_range_with_too_many_records_is_refused() {
    let broker = MemoryBroker::default();
    let world = published("polyshop", 3, &broker).await;
    let narrow = VerifyOptions {
        records_max: 2,
        ..options()
    };
    let error = verify(&world, &broker, narrow).await.unwrap_err();
    assert!(matches!(
        error,
        VerifyError::TooMany {
            records: 3,
            limit: 2
        }
    ));
    assert!(error.to_string().contains("take a shorter range"));
}

/// What a topic has dropped looks lost, and a note says so.
#[tokio::test]
async fn a_topic_that_has_dropped_messages_is_named() {
    let broker = MemoryBroker::new(MemoryConfig {
        messages_max: 4,
        ..MemoryConfig::default()
    });
    let world = published("polyshop", 6, &broker).await;
    let report = verify(&world, &broker, options()).await.unwrap();
    assert_eq!(report.lost.count, 2);
    assert!(report.notes[0].contains("topic samples has deleted messages"));
}
