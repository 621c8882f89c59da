//! Recording events in the caller's transaction.

use postrider_core::{Emitted, Event, OutboxStore, Share, Want};
use serde_json::json;
use uuid::Uuid;

use crate::world::{license_changed, world};

#[tokio::test]
async fn an_event_stands_with_the_change_it_belongs_to_and_falls_with_it() {
    // A0-01, A0-02
    let world = world("packfinderz", "").await;
    world
        .database
        .execute("CREATE TABLE licenses (id uuid)")
        .await;
    let license = Uuid::now_v7();
    for commits in [false, true] {
        let mut tx = world.database.pool.begin().await.unwrap();
        sqlx::query("INSERT INTO licenses VALUES ($1)")
            .bind(license)
            .execute(&mut *tx)
            .await
            .unwrap();
        let emitted = world
            .outbox
            .emit(&mut tx, license_changed(license))
            .await
            .unwrap();
        assert_eq!(emitted, Emitted::Recorded);
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        let expected = i64::from(commits);
        assert_eq!(world.database.count("licenses").await, expected);
        assert_eq!(world.database.count("outbox_events").await, expected);
    }
    let fresh = "outbox_events WHERE published_at IS NULL AND attempt_count = 0 AND last_error IS NULL \
                 AND event_type = 'license_status_changed' AND aggregate_type = 'license' \
                 AND id IS NOT NULL AND created_at IS NOT NULL AND payload_json IS NOT NULL";
    let of_store = format!("{fresh} AND aggregate_id = '{license}'");
    assert_eq!(world.database.count(&of_store).await, 1);
}

#[tokio::test]
async fn the_packfinderz_envelope_has_its_fields_and_no_other() {
    // A1-04
    let world = world("packfinderz", "").await;
    let without = license_changed(Uuid::now_v7());
    let with = license_changed(Uuid::now_v7()).actor(json!({ "userId": "u1" }));
    let upper =
        license_changed(Uuid::now_v7()).with_id(Uuid::now_v7().to_string().to_uppercase().as_str());
    for event in [without, with, upper] {
        let has_actor = event.actor.is_some();
        let id = event.id.to_string().to_lowercase();
        world.emit(event).await;
        let keys = format!(
            "SELECT string_agg(key, ',' ORDER BY key) FROM outbox_events, jsonb_object_keys(payload_json) AS key \
             WHERE id = '{id}' AND payload_json ->> 'eventId' = id::text"
        );
        let expected = if has_actor {
            "actor,data,eventId,occurredAt,version"
        } else {
            "data,eventId,occurredAt,version"
        };
        assert_eq!(world.database.text(&keys).await.as_deref(), Some(expected));
    }
    let claim = world
        .store()
        .claim(Want {
            limit: 10,
            bytes: usize::MAX,
            share: Share::ALL,
        })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(claim.records().len(), 3);
}

#[tokio::test]
async fn a_talkie_record_starts_pending() {
    // A2-01
    let world = world("talkie", "").await;
    for commits in [true, false] {
        let mut tx = world.database.pool.begin().await.unwrap();
        world
            .outbox
            .emit(&mut tx, world.event(Some("k"), 1))
            .await
            .unwrap();
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        assert_eq!(
            world
                .database
                .count("outbox WHERE status = 'pending' AND retry_count = 0")
                .await,
            1
        );
    }
    assert_eq!(world.database.count("outbox").await, 1);
}

#[tokio::test]
async fn a_second_event_with_the_same_idempotency_key_is_told_and_harms_nothing() {
    // A2-09
    let world = world("talkie", "").await;
    world.database.execute("CREATE TABLE domain (n int)").await;
    let event = |topic: &str| Event::raw("t", "{}").topic(topic).idempotency_key("once");
    for (topic, expected) in [
        ("orders", Emitted::Recorded),
        ("orders", Emitted::Duplicate),
        ("payments", Emitted::Recorded),
    ] {
        let mut tx = world.database.pool.begin().await.unwrap();
        sqlx::query("INSERT INTO domain VALUES (1)")
            .execute(&mut *tx)
            .await
            .unwrap();
        assert_eq!(
            world.outbox.emit(&mut tx, event(topic)).await.unwrap(),
            expected
        );
        tx.commit().await.unwrap();
    }
    assert_eq!(
        world.database.count("domain").await,
        3,
        "every transaction committed"
    );
    assert_eq!(world.database.count("outbox").await, 2);
    let mut tx = world.database.pool.begin().await.unwrap();
    let together = [
        event("new"),
        event("new"),
        event("new").idempotency_key("other"),
        event("orders"),
    ];
    let emitted = world.outbox.emit_all(&mut tx, &together).await.unwrap();
    use Emitted::{Duplicate, Recorded};
    assert_eq!(emitted, [Recorded, Duplicate, Recorded, Duplicate]);
}

#[tokio::test]
async fn an_order_its_items_and_its_event_appear_together() {
    // A3-01
    let world = world("polyshop", "").await;
    world
        .database
        .execute("CREATE TABLE orders (id text); CREATE TABLE order_items (order_id text)")
        .await;
    for (order, commits) in [("o-1", true), ("o-2", false)] {
        let mut tx = world.database.pool.begin().await.unwrap();
        sqlx::query("INSERT INTO orders VALUES ($1)")
            .bind(order)
            .execute(&mut *tx)
            .await
            .unwrap();
        sqlx::query("INSERT INTO order_items VALUES ($1)")
            .bind(order)
            .execute(&mut *tx)
            .await
            .unwrap();
        let event = Event::raw(
            "order.order.placed.v1",
            format!("{{\"orderId\":\"{order}\"}}"),
        )
        .aggregate_id(order);
        world.outbox.emit(&mut tx, event).await.unwrap();
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
    }
    let row = "outbox_events WHERE event_type = 'order.order.placed.v1' AND aggregate_id = 'o-1' \
               AND version = 1 AND NOT processed";
    assert_eq!(world.database.count(row).await, 1);
    for table in ["orders", "order_items", "outbox_events"] {
        assert_eq!(world.database.count(table).await, 1, "{table}");
    }
}

#[tokio::test]
async fn many_events_of_one_call_keep_their_order_whatever_their_ids() {
    for preset in ["polyshop", "gopipe", "native"] {
        let world = world(preset, "").await;
        let events: Vec<Event> = (0..6000)
            .map(|n| {
                world
                    .event(Some("k"), n)
                    .with_id(Uuid::from_u128(scattered(n)))
            })
            .collect();
        let mut tx = world.database.pool.begin().await.unwrap();
        let emitted = world.outbox.emit_all(&mut tx, &events).await.unwrap();
        tx.commit().await.unwrap();
        assert!(emitted.iter().all(|emitted| *emitted == Emitted::Recorded));
        let claim = world
            .store()
            .claim(Want {
                limit: 10_000,
                bytes: usize::MAX,
                share: Share::ALL,
            })
            .await
            .unwrap()
            .unwrap();
        let claimed: Vec<&str> = claim
            .records()
            .iter()
            .map(|record| record.event_id.as_str())
            .collect();
        let emitted: Vec<&str> = events.iter().map(|event| event.id.as_str()).collect();
        assert!(claimed == emitted, "{preset}");
    }
}

/// Ids in no order.
fn scattered(n: u32) -> u128 {
    u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

#[tokio::test]
async fn a_payload_of_ten_megabytes_arrives_byte_by_byte() {
    let big = format!("\"{}\"", "é€x".repeat(10 * 1024 * 1024 / 6));
    let world = world("talkie", "").await;
    world.emit(Event::raw("t", big.clone()).topic("t")).await;
    let claim = world
        .store()
        .claim(Want {
            limit: 10,
            bytes: usize::MAX,
            share: Share::ALL,
        })
        .await
        .unwrap()
        .unwrap();
    assert!(claim.records()[0].payload.as_deref() == Some(big.as_bytes()));
}

#[tokio::test]
async fn an_empty_payload_is_a_tombstone_where_there_are_tombstones() {
    let world = world("debezium", "").await;
    world
        .emit(Event::raw("deleted", "").aggregate("order", "o"))
        .await;
    let claim = world
        .store()
        .claim(Want {
            limit: 10,
            bytes: usize::MAX,
            share: Share::ALL,
        })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(claim.records()[0].payload, None);
}

#[tokio::test]
async fn headers_and_metadata_arrive_as_they_were_given() {
    let gopipe = world("gopipe", "").await;
    let event = Event::raw("t", "{}")
        .topic("t")
        .header("tenant", "a \"b\"")
        .header("id", "overridden");
    let id = event.id.clone();
    gopipe.emit(event).await;
    let claim = gopipe
        .store()
        .claim(Want {
            limit: 10,
            bytes: usize::MAX,
            share: Share::ALL,
        })
        .await
        .unwrap()
        .unwrap();
    let record = &claim.records()[0];
    assert_eq!(record.event_id, id, "the event's own id wins");
    let header = |name: &str| {
        record
            .headers
            .iter()
            .find(|header| &*header.name == name)
            .unwrap()
            .value
            .clone()
    };
    assert_eq!(
        (header("tenant"), header("type")),
        ("a \"b\"".into(), "t".into())
    );
    let polyshop = world("polyshop", "").await;
    let event = Event::raw("t", "{}")
        .aggregate_id("o")
        .metadata("userId", "u1")
        .metadata("deep", json!([1, { "a": null }]));
    polyshop.emit(event).await;
    let claim = polyshop
        .store()
        .claim(Want {
            limit: 10,
            bytes: usize::MAX,
            share: Share::ALL,
        })
        .await
        .unwrap()
        .unwrap();
    let metadata: serde_json::Value =
        serde_json::from_slice(claim.records()[0].metadata.as_ref().unwrap()).unwrap();
    assert_eq!(
        metadata,
        json!({ "userId": "u1", "deep": [1, { "a": null }] }),
        "and nothing is invented"
    );
}

#[cfg(feature = "otel")]
#[tokio::test]
async fn the_current_trace_is_stored_with_the_event() {
    use opentelemetry::trace::TracerProvider as _;
    use tracing::Instrument as _;
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    let polyshop = world("polyshop", "").await;
    let gopipe = world("gopipe", "").await;
    let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let _subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let span = tracing::info_span!("request");
    let trace_id = {
        use opentelemetry::trace::TraceContextExt as _;
        span.context().span().span_context().trace_id().to_string()
    };
    async {
        polyshop.emit(Event::raw("t", "{}").aggregate_id("o")).await;
        gopipe.emit(Event::raw("t", "{}").topic("t")).await;
    }
    .instrument(span)
    .await;
    let stored = polyshop
        .database
        .text("SELECT metadata ->> 'traceId' FROM outbox_events")
        .await;
    assert_eq!(stored, Some(trace_id.clone()));
    let parent = gopipe
        .database
        .text("SELECT attributes ->> 'traceparent' FROM outbox")
        .await
        .unwrap();
    assert!(
        parent.starts_with(&format!("00-{trace_id}-")) && parent.ends_with("-01"),
        "{parent}"
    );
}
