//! `postrider stream`, and a relay in a database that it does not know.

use postrider::core::Event;
use postrider::stores::postgres::Outbox;

use crate::outbox::TestOutbox;

#[tokio::test]
async fn a_restored_outbox_is_refused_until_it_is_anchored_anew() {
    let outbox = TestOutbox::create("native").await;
    let mut tx = outbox.pool().begin().await.unwrap();
    let event = Event::raw("order_created", "{}").topic("orders").key("k");
    Outbox::new(outbox.layout.clone())
        .emit(&mut tx, event)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let project = outbox.project("");
    let status = project.run(&["stream", "status", "--json"]).ok().json();
    assert_eq!(status.as_array().map(Vec::len), Some(2), "{status:#}");
    assert!(status[0]["refused"].is_null());

    sqlx::query("UPDATE postrider_outbox_stream SET system = '1'")
        .execute(outbox.pool())
        .await
        .unwrap();
    let remedy = "postrider stream re-anchor";
    project.run(&["stream", "status"]).exits(1).says(remedy);
    project.run(&["relay"]).exits(1).says(remedy);
    project.run(&["status"]).exits(1).says(remedy);
    project
        .run(&["stream", "re-anchor", "--outbox", "orders"])
        .ok()
        .prints("1 records are to be published");
    project.run(&["stream", "status"]).ok();
    let after = project.run(&["stream", "status", "--json"]).ok().json();
    assert_eq!(after[0]["epoch"], 1);
}

#[tokio::test]
async fn only_a_stream_can_be_anchored() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    project
        .run(&["stream", "re-anchor", "--outbox", "orders"])
        .exits(2)
        .says("not read as a stream");
    project.run(&["stream", "status"]).ok();
}
