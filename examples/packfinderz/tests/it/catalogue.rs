//! The catalogue of event types beside the registry and the table.

use example_packfinderz::catalogue::EventType;
use example_packfinderz::model::OutboxEvent;
use example_packfinderz::payloads::*;
use example_packfinderz::registry::Registry;
use postrider::core::{Event, EventPayload, Layout};
use postrider::stores::postgres::Outbox;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{PUBLISHER, World};

/// S0-24, S1-04: the publisher's registry is what the enum and the payloads' types say.
#[test]
fn the_registry_is_made_from_the_catalogue() {
    let made = Registry::of_catalogue();
    let file = include_str!("../../registry.toml");
    assert_eq!(Registry::load().unwrap(), made);
    assert!(
        made.to_toml().unwrap() == file,
        "please run `make packfinderz-registry`"
    );
    let relay = include_str!("../../relay.toml");
    assert!(
        relay.ends_with(&format!(
            "`make packfinderz-registry`.\n{}",
            made.to_routes().unwrap()
        )),
        "please run `make packfinderz-registry`"
    );
    assert_eq!(relay.matches("\n[[outbox.route]]\n").count(), 18);
    assert_eq!(made.entries().count(), 18);
    for (name, entry) in made.entries() {
        assert_eq!(entry.topic, "{domain}", "{name}");
    }
}

/// Wire and type say the same.
fn sample<P: EventPayload>(data: Value) -> Event {
    let payload: P = serde_json::from_value(data.clone()).unwrap();
    assert_eq!(serde_json::to_value(&payload).unwrap(), data);
    let event = Event::typed(&payload).unwrap();
    event.aggregate_id(Uuid::now_v7().to_string())
}

/// One event of each type.
fn samples() -> Vec<Event> {
    let id = Uuid::now_v7;
    let ad = || json!({ "adId": id(), "storeId": id() });
    let with = |mut data: Value, name: &str, value: Value| {
        data[name] = value;
        data
    };
    let money = |data| {
        with(
            with(data, "amountCents", json!(1250)),
            "currency",
            json!("EUR"),
        )
    };
    let ledger = || money(json!({ "ledgerEventId": id() }));
    let order = || json!({ "orderId": id() });
    vec![
        sample::<OrderCreated>(json!({
            "orderId": id(), "checkoutGroupId": id(), "buyerStoreId": id(), "vendorStoreId": id(),
            "totalCents": 1250, "currency": "EUR",
        })),
        sample::<OrderStateChanged>(
            json!({ "orderId": id(), "from": "placed", "to": "in_transit" }),
        ),
        sample::<LineItemStateChanged>(json!({
            "orderId": id(), "lineItemId": id(), "from": "pending", "to": "accepted",
        })),
        sample::<LicenseStatusChanged>(json!({
            "licenseId": id(), "storeId": id(), "status": "rejected", "reason": "it has expired",
        })),
        sample::<MediaUploaded>(json!({
            "mediaId": id(), "storeId": id(), "kind": "license", "mimeType": "image/png", "sizeBytes": 7,
        })),
        sample::<PaymentSettled>(with(ledger(), "orderId", json!(id()))),
        sample::<CashCollected>(with(
            with(ledger(), "orderId", json!(id())),
            "agentId",
            json!(id()),
        )),
        sample::<VendorPayoutRecorded>(with(ledger(), "vendorStoreId", json!(id()))),
        sample::<NotificationRequested>(json!({
            "notificationId": id(), "storeId": id(), "template": "welcome",
        })),
        sample::<OrderExpired>(order()),
        sample::<OrderCanceled>(order()),
        sample::<ReservationReleased>(
            json!({ "orderId": id(), "lineItemId": id(), "quantity": 3 }),
        ),
        sample::<AdCreated>(with(ad(), "title", json!("Boxes"))),
        sample::<AdUpdated>(with(ad(), "changed", json!(["title"]))),
        sample::<AdPaused>(with(ad(), "reason", json!("no budget"))),
        sample::<AdActivated>(ad()),
        sample::<AdExpired>(ad()),
        sample::<AdDailyRollupReady>(with(ad(), "day", json!("2026-11-18"))),
    ]
}

/// Rows past the registry, as another program may write them: every type with this payload, of its aggregate.
async fn insert_past_the_registry(world: &World, data: &Value) {
    for event_type in EventType::ALL {
        insert_raw(
            world,
            event_type.label(),
            event_type.aggregate_type().label(),
            data,
        )
        .await;
    }
}

async fn insert_raw(world: &World, event_type: &str, aggregate_type: &str, data: &Value) {
    let sql = format!(
        "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
         SELECT id, '{event_type}', '{aggregate_type}', gen_random_uuid(), jsonb_build_object( \
           'version', 1, 'eventId', id, 'occurredAt', now(), 'data', '{data}'::jsonb) \
         FROM gen_random_uuid() AS id"
    );
    world.database.execute(&sql).await;
}

/// S0-24, A0-08: of every type, an event with its fields leaves and one without is dead at once. S1-03: all rows are
/// what the model says.
#[tokio::test]
async fn every_event_type_has_a_payload_and_a_schema_of_it() {
    let world = World::new().await;
    let routes = Registry::load()
        .unwrap()
        .routes("pf-domain-events")
        .unwrap();
    let outbox = Outbox::new(Layout::preset("packfinderz").unwrap()).with_routes(routes);
    let mut tx = world.database.pool.begin().await.unwrap();
    outbox.emit_all(&mut tx, &samples()).await.unwrap();
    tx.commit().await.unwrap();
    insert_past_the_registry(&world, &json!({})).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    world.until_published(18).await;
    let dead = "outbox_events WHERE published_at IS NULL AND attempt_count = 25";
    world.until_count(dead, 18).await;

    let rows = sqlx::query_as("SELECT * FROM outbox_events ORDER BY created_at, id");
    let rows: Vec<OutboxEvent> = rows.fetch_all(&world.database.pool).await.unwrap();
    let (published, dead): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.published_at.is_some());
    for (row, event) in std::iter::zip(&published, samples()) {
        assert_eq!(row.event_type.label(), event.event_type);
        assert_eq!(row.aggregate_type, row.event_type.aggregate_type());
        assert_eq!(row.payload_json["eventId"], json!(row.id));
        assert!(row.created_at <= row.published_at.unwrap());
        assert_eq!((row.attempt_count, &row.last_error), (0, &None));
    }
    let published: Vec<EventType> = published.iter().map(|row| row.event_type).collect();
    assert_eq!(published, EventType::ALL);
    for row in dead {
        let error = row.last_error.as_deref().unwrap();
        assert!(error.contains("schema (required)"), "{error}");
    }
}

/// A0-08: what another program has written past the registry is dead at once with its reason, and the rest leaves.
#[tokio::test]
async fn what_the_registry_refuses_never_leaves() {
    let world = World::new().await;
    world.insert(3, 0).await;
    let (id, word) = (Uuid::now_v7(), "approved-in-secret");
    let license = json!({ "licenseId": id, "storeId": id, "status": word });
    let (no_uuid, ad) = (
        json!({ "adId": 7, "storeId": id }),
        json!({ "adId": id, "storeId": word }),
    );
    for (event_type, aggregate_type, data) in [
        ("order_expired", "ad", json!({ "orderId": id })),
        ("license_status_changed", "license", license),
        ("ad_paused", "ad", Value::Null),
        ("ad_activated", "ad", no_uuid),
        ("ad_expired", "ad", ad),
    ] {
        insert_raw(&world, event_type, aggregate_type, &data).await;
    }
    let publisher = world.ready(PUBLISHER, &[]).await;
    world.until_published(3).await;
    let dead = "outbox_events WHERE attempt_count >= 25 AND published_at IS NULL";
    world.until_count(dead, 5).await;
    let errors =
        "SELECT last_error FROM outbox_events WHERE last_error IS NOT NULL ORDER BY event_type";
    let errors: Vec<_> = world
        .database
        .texts(errors)
        .await
        .into_iter()
        .flatten()
        .collect();
    // In the order of the enum's labels.
    let words = [
        "/status (enum)",
        "aggregate type vendor_order, not ad",
        "null",
        "/adId (type)",
        "/storeId (pattern)",
    ];
    for (error, word) in std::iter::zip(&errors, words) {
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(errors.len(), 5);
    assert!(!publisher.text().join("").contains(word));
}
