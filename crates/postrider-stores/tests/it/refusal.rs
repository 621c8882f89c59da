//! Events that are refused, and the caller's transaction after it.

use postrider_core::{Event, EventPayload, Route, Routes};
use postrider_stores::EmitError;
use postrider_stores::postgres::{Outbox, PgConnection};
use serde_json::json;
use uuid::Uuid;

use crate::world::{World, layout, license_changed, world, world_with};

/// What is wrong with an event must show before any SQL runs.
async fn is_refused(world: &World, outbox: &Outbox, event: Event) -> EmitError {
    let mut tx = world.database.pool.begin().await.unwrap();
    let error = outbox.emit(&mut tx, event).await.expect_err("is refused");
    assert!(!matches!(error, EmitError::Database { .. }), "{error}");
    is_usable(&mut tx).await;
    tx.commit().await.unwrap();
    error
}

async fn is_usable(tx: &mut PgConnection) {
    sqlx::query("SELECT 1")
        .execute(tx)
        .await
        .expect("the transaction is still good");
}

#[tokio::test]
async fn what_a_column_cannot_hold_is_refused_before_the_insert() {
    let world = world("packfinderz", "").await;
    let good = || license_changed(Uuid::now_v7());
    let cases = [
        (
            Event {
                event_type: "license_lost".into(),
                ..good()
            },
            "event_type",
        ),
        (
            Event {
                aggregate_id: Some("not a uuid".into()),
                ..good()
            },
            "aggregate_id",
        ),
        (
            Event {
                aggregate_type: Some("\0".into()),
                ..good()
            },
            "aggregate_type",
        ),
        (good().with_id("x"), "id"),
        (
            Event {
                payload: b"{".to_vec(),
                ..good()
            },
            "payload",
        ),
        (
            Event {
                payload: br#"{"a":"\u0000"}"#.to_vec(),
                ..good()
            },
            "payload",
        ),
        (
            Event {
                payload: b"1e999999".to_vec(),
                ..good()
            },
            "payload",
        ),
    ];
    for (event, field) in cases {
        let error = is_refused(&world, &world.outbox, event).await.to_string();
        assert!(error.contains(field), "{field}: {error}");
    }
    assert_eq!(world.database.count("outbox_events").await, 0);
}

#[tokio::test]
async fn what_a_column_needs_is_asked_for() {
    let world = world("packfinderz", "").await;
    let event = Event {
        aggregate_id: None,
        ..license_changed(Uuid::now_v7())
    };
    let error = is_refused(&world, &world.outbox, event).await;
    assert!(
        matches!(
            error,
            EmitError::Missing {
                field: "aggregate_id",
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn what_a_layout_has_no_place_for_is_refused_by_name() {
    let packfinderz = world("packfinderz", "").await;
    let license = || license_changed(Uuid::now_v7());
    let gopipe = world("gopipe", "").await;
    let polyshop = world("polyshop", "").await;
    let order = || Event::raw("order.order.placed.v1", "{}").aggregate_id("o");
    let cases = [
        (
            &packfinderz,
            license().idempotency_key("k"),
            "idempotency_key",
        ),
        (&packfinderz, license().header("a", "b"), "headers"),
        (&packfinderz, license().topic("t"), "topic"),
        (&packfinderz, license().key("other"), "key"),
        (&packfinderz, license().metadata("userId", "u"), "metadata"),
        (
            &gopipe,
            Event::raw("t", "{}").topic("t").aggregate_id("a"),
            "aggregate_id",
        ),
        (
            &gopipe,
            Event::raw("t", "{}").topic("t").version(2),
            "version",
        ),
        (&polyshop, order().aggregate("order", "o"), "aggregate_type"),
        (&polyshop, order().actor(json!({})), "actor"),
    ];
    for (world, event, expected) in cases {
        match is_refused(world, &world.outbox, event).await {
            EmitError::NoPlace { field, layout, .. } => {
                assert_eq!((field, layout), (expected, world.layout.name.clone()));
            }
            other => panic!("{expected}: {other}"),
        }
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Placed {
    order: String,
}

impl EventPayload for Placed {
    const EVENT_TYPE: &'static str = "order.placed";
}

#[tokio::test]
async fn routes_refuse_what_they_do_not_know_and_give_the_topic() {
    let world = world("gopipe", "").await;
    let routes = Routes::new()
        .typed::<Placed>("orders")
        .with("topicless", Route::new());
    let outbox = Outbox::new(world.layout.clone()).with_routes(routes);
    let unknown = is_refused(&world, &outbox, Event::raw("order.lost", "{}")).await;
    assert!(matches!(unknown, EmitError::Route(_)), "{unknown}");
    let mistyped = is_refused(&world, &outbox, Event::raw("order.placed", "{\"order\":1}")).await;
    assert!(matches!(mistyped, EmitError::Route(_)), "{mistyped}");
    let nowhere = is_refused(&world, &outbox, Event::raw("topicless", "{}")).await;
    assert!(
        matches!(nowhere, EmitError::Missing { field: "topic", .. }),
        "{nowhere}"
    );
    let mut tx = world.database.pool.begin().await.unwrap();
    let event = Event::typed(&Placed { order: "o".into() }).unwrap();
    outbox.emit(&mut tx, event.clone()).await.unwrap();
    outbox
        .emit(&mut tx, event.topic("elsewhere"))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let topics = world
        .database
        .texts("SELECT topic FROM outbox ORDER BY id")
        .await;
    assert_eq!(topics, [Some("orders".into()), Some("elsewhere".into())]);
}

#[tokio::test]
async fn a_table_that_does_not_fit_is_refused_and_the_transaction_goes_on() {
    let world = world_with("gopipe", "", "CREATE TABLE other (id int)").await;
    let event = || Event::raw("t", "{}").topic("t");
    for (table, expected) in [("nowhere", "does not exist"), ("other", "which has id")] {
        let outbox = Outbox::new(layout("gopipe", &format!("table = '{table}'")));
        let error = is_refused(&world, &outbox, event()).await.to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_word_that_an_enum_has_got_since_is_taken() {
    let world = world("packfinderz", "").await;
    world.emit(license_changed(Uuid::now_v7())).await;
    let new = || Event {
        event_type: "license_lost".into(),
        ..license_changed(Uuid::now_v7())
    };
    is_refused(&world, &world.outbox, new()).await;
    world
        .database
        .execute("ALTER TYPE event_type_enum ADD VALUE 'license_lost'")
        .await;
    world.emit(new()).await;
    assert_eq!(world.database.count("outbox_events").await, 2);
}
