use crate::binary::Project;
use crate::outbox::TestOutbox;

/// A1-07: a line about an event carries what an operator searches for. Every line is JSON.
#[tokio::test]
async fn lines_about_events_carry_their_fields() {
    let outbox = TestOutbox::create("packfinderz").await;
    let routes = "[[outbox.route]]\nevent_type = \"order_created\"\n";
    let config = outbox.config(routes) + "[log]\nlevel = \"info,postrider=debug\"\n";
    let project = Project::new(&config);
    let insert = "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
                  SELECT gen_random_uuid(), (enum_range(NULL::event_type_enum))[1], \
                  (enum_range(NULL::aggregate_type_enum))[1], gen_random_uuid(), '{\"secret\": \"payload\"}' \
                  RETURNING id::text, event_type::text, aggregate_type::text, aggregate_id::text";
    let row: (String, String, String, String) = sqlx::query_as(insert)
        .fetch_one(outbox.pool())
        .await
        .unwrap();
    let relay = project.relay().await;
    let line = relay.logged("dead").await;
    assert_eq!(line["level"], "ERROR");
    assert_eq!(line["outbox"], "orders");
    assert_eq!(line["event_id"], row.0);
    assert_eq!(line["event_type"], row.1);
    assert_eq!(line["aggregate_type"], row.2);
    assert_eq!(line["aggregate_id"], row.3);
    assert!(
        line["error"].is_string() && line["timestamp"].is_string(),
        "{line}"
    );
    assert!(
        !relay.text().join("\n").contains("payload\""),
        "a payload was logged"
    );
}

#[tokio::test]
async fn published_events_are_logged_on_request_with_their_trace() {
    let outbox = TestOutbox::create("debezium").await;
    let config = outbox.config("") + "[log]\nlevel = \"debug\"\n";
    let insert = "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) \
                  VALUES (gen_random_uuid(), 'order', '7', 'placed', '{}') RETURNING id::text";
    let id: String = sqlx::query_scalar(insert)
        .fetch_one(outbox.pool())
        .await
        .unwrap();
    let project = Project::new(&config);
    let relay = project.relay().await;
    let line = relay.logged("published").await;
    assert_eq!(line["level"], "DEBUG");
    assert_eq!(line["event_id"], id);
    assert_eq!(line["aggregate_type"], "order");
    assert_eq!(line["aggregate_id"], "7");
}

#[tokio::test]
async fn pretty_lines_are_for_people() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = Project::new(&(outbox.config("") + "[log]\nformat = \"pretty\"\n"));
    let relay = project.spawn_relay();
    let lines = postrider_testkit::eventually("a line", async || {
        let lines = relay.text();
        if lines.iter().any(|line| line.contains("relay runs")) {
            Ok(lines)
        } else {
            Err(lines)
        }
    })
    .await;
    assert!(lines.iter().all(|line| !line.starts_with('{')), "{lines:?}");
}
