//! What admins and stores are told.

use serde_json::json;
use uuid::Uuid;

use crate::program::Program;
use crate::world::{API, CONSUMER, PUBLISHER, World};

/// The notifications of a license as one text each, in the order of their events.
async fn notices(world: &World, license: &str) -> Vec<String> {
    let sql = format!(
        "SELECT concat_ws(' | ', type, audience, store_id, license_id, reason, message) \
         FROM notifications WHERE license_id = '{license}' ORDER BY event_id"
    );
    world
        .database
        .texts(&sql)
        .await
        .into_iter()
        .flatten()
        .collect()
}

async fn upload(api: &Program, store: Uuid) -> String {
    let (status, license) = api.post("/licenses", &json!({ "storeId": store })).await;
    assert_eq!(status, 201, "{license}");
    license["licenseId"].as_str().unwrap().to_owned()
}

/// A0-12: a license that awaits review is told to the admins, a decision to its store, with license and reason.
#[tokio::test(flavor = "multi_thread")]
async fn admins_hear_of_uploads_and_stores_of_decisions() {
    let world = World::new().await;
    let api = world.ready(API, &[]).await;
    let _publisher = world.ready(PUBLISHER, &[]).await;
    let _consumer = world.ready(CONSUMER, &[]).await;
    let (good_store, bad_store) = (Uuid::now_v7(), Uuid::now_v7());
    let (good, bad) = (
        upload(&api, good_store).await,
        upload(&api, bad_store).await,
    );
    world
        .until_count("notifications WHERE audience = 'admins'", 2)
        .await;
    for (license, decision) in [
        (&good, json!({ "status": "verified" })),
        (
            &bad,
            json!({ "status": "rejected", "reason": "it has expired" }),
        ),
    ] {
        let (status, body) = api
            .post(&format!("/licenses/{license}/status"), &decision)
            .await;
        assert_eq!(status, 200, "{body}");
    }
    world.until_count("notifications", 4).await;

    assert_eq!(
        notices(&world, &good).await,
        [
            format!(
                "compliance | admins | {good_store} | {good} | License {good} of store {good_store} awaits review"
            ),
            format!("compliance | store | {good_store} | {good} | License {good} was verified"),
        ]
    );
    assert_eq!(
        notices(&world, &bad).await[1..],
        [format!(
            "compliance | store | {bad_store} | {bad} | it has expired | License {bad} was rejected: it has expired"
        )]
    );
    let (_, shown) = api.get("/notifications").await;
    assert_eq!(shown.as_array().unwrap().len(), 4);
}

/// The change and its event are one transaction: what is refused leaves neither.
#[tokio::test]
async fn a_change_that_is_refused_emits_nothing() {
    let world = World::new().await;
    let api = world.ready(API, &[]).await;
    let license = upload(&api, Uuid::now_v7()).await;
    let of = |license: &str| format!("/licenses/{license}/status");
    let stranger = Uuid::now_v7().to_string();
    for (path, change, expected) in [
        (of(&license), json!({ "status": "approved" }), 422),
        (of(&license), json!({ "status": "pending" }), 409),
        (of(&stranger), json!({ "status": "verified" }), 404),
        (
            of(&license),
            json!({ "status": "rejected", "reason": "x".repeat(1001) }),
            422,
        ),
    ] {
        let (status, body) = api.post(&path, &change).await;
        assert_eq!(status, expected, "{change}: {body}");
    }
    // A table that cannot take the event takes the change back too.
    world
        .database
        .execute(
            "ALTER TABLE outbox_events ADD CHECK (payload_json -> 'data' ->> 'status' = 'pending')",
        )
        .await;
    let (status, body) = api
        .post(&of(&license), &json!({ "status": "verified" }))
        .await;
    assert_eq!(
        (status, body),
        (500, json!({ "error": "please try again" }))
    );

    let status = "SELECT status FROM licenses";
    assert_eq!(
        world.database.text(status).await.as_deref(),
        Some("pending")
    );
    assert_eq!(world.database.count("outbox_events").await, 1);
}
