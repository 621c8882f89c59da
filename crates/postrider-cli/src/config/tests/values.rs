use std::time::Duration;

use postrider::core::{OnDead, Ordering};

use super::*;

#[test]
fn what_is_not_said_has_a_default() {
    let config = read(GOOD).unwrap();
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:9464");
    assert_eq!(config.log.level, "info");
    assert_eq!(config.telemetry.otlp, None);
    assert_eq!(config.telemetry.service, "postrider");
    let outbox = &config.outboxes[0];
    assert_eq!(outbox.layout.name, "polyshop");
    assert_eq!(outbox.layout.ordering, Ordering::Key);
    assert_eq!(outbox.on_dead, OnDead::Park);
    assert_eq!(outbox.max_attempts, 25);
    assert_eq!(outbox.batch, 100, "the layout's");
    assert_eq!((outbox.claims, outbox.connections), (3, 7));
    assert_eq!(outbox.batch_bytes, 8 << 20);
    assert_eq!(outbox.poll_min, Duration::from_millis(2));
    assert_eq!(outbox.poll_max, Duration::from_millis(100));
    assert_eq!(outbox.publish_timeout, Duration::from_secs(30));
    assert_eq!(outbox.lease, Duration::from_secs(60));
    assert_eq!(outbox.retry.cap, Duration::from_secs(300));
    assert!(
        outbox.cleanup.is_none()
            && !outbox.notify
            && !outbox.order_is_drawn
            && !outbox.count_outages
    );
}

#[test]
fn every_value_can_be_said() {
    let config = outbox(
        r#"
        table = "orders.outbox_events"
        source = "order-service"
        ordering = "none"
        on_dead = "skip"
        max_attempts = 3
        count_outages = true
        batch = 2000
        claims = 4
        connections = 9
        poll_min = "100ms"
        poll_max = "2s"
        publish_timeout = "10s"
        lease = "45s"
        stop_timeout = "5s"
        notify = true
        order_is_drawn = true
        topic = "shop.{event_type}"
        envelope = "cloudevents"
        order = ["id"]
        tombstones = true
        [outbox.columns]
        payload = "body"
        [outbox.attributes]
        tenant = "key"
        [outbox.state]
        published = "done"
        [outbox.retry]
        base = "2s"
        cap = "1m"
        [outbox.cleanup]
        keep = "30d"
        [[outbox.route]]
        event_type = "order.placed"
        topic = "orders"
        aggregate_type = "order"
        schema = "order.schema.json"
        [[outbox.route]]
        event_type = "order.paid"
        schema = { type = "object", required = ["orderId"] }
        "#,
    )
    .unwrap();
    let outbox = &config.outboxes[0];
    assert_eq!(outbox.layout.table.to_string(), "orders.outbox_events");
    assert_eq!(outbox.layout.columns.payload.as_str(), "body");
    assert_eq!(outbox.layout.columns.id.as_str(), "id", "the preset's");
    assert_eq!(outbox.layout.topic.to_string(), "shop.{event_type}");
    assert_eq!(
        (outbox.batch, outbox.claims, outbox.connections),
        (2000, 4, 9)
    );
    assert_eq!(
        outbox.cleanup.unwrap().keep,
        Duration::from_secs(30 * 86_400)
    );
    assert_eq!(outbox.cleanup.unwrap().batch, 1000);
    assert!(!outbox.routes.is_empty());
}

#[test]
fn cleanup_and_polling_take_the_layouts_own_values() {
    let text = GOOD.replace("polyshop", "packfinderz") + "[outbox.cleanup]\n";
    let config = read(&text).unwrap();
    let outbox = &config.outboxes[0];
    assert_eq!(
        outbox.cleanup.unwrap().keep,
        Duration::from_secs(30 * 86_400)
    );
    // A1-12: within 250 to 1000 ms.
    assert_eq!(outbox.poll_min, Duration::from_millis(250));
    assert_eq!(outbox.poll_max, Duration::from_millis(500));
    assert_eq!((outbox.batch, outbox.max_attempts), (50, 25));
}

#[test]
fn one_poll_bound_moves_the_other() {
    let slow = outbox("poll_min = \"5s\"").unwrap();
    assert_eq!(slow.outboxes[0].poll_max, Duration::from_secs(5));
    let fast = outbox("poll_max = \"1ms\"").unwrap();
    assert_eq!(fast.outboxes[0].poll_min, Duration::from_millis(1));
}

#[test]
fn a_longer_publish_timeout_moves_the_default_lease() {
    let config = outbox("publish_timeout = \"90s\"").unwrap();
    assert_eq!(config.outboxes[0].lease, Duration::from_secs(95));
}

#[test]
fn a_custom_layout_is_written_out() {
    let text = GOOD.replace("polyshop", "custom")
        + r#"
        table = "events"
        claim = "hold"
        order = ["n"]
        ordering = "none"
        topic = "t"
        columns = { id = "n", payload = "p", created_at = "at" }
        state = { kind = "delete" }
        "#;
    assert_eq!(read(&text).unwrap().outboxes[0].layout.name, "custom");
}

#[test]
fn several_outboxes_share_a_broker() {
    let second = GOOD
        .split("[[outbox]]")
        .nth(1)
        .unwrap()
        .replace("orders", "payments");
    let config = read(&format!("{GOOD}[[outbox]]{second}")).unwrap();
    assert_eq!(config.outboxes.len(), 2);
    assert_eq!(config.outboxes[1].name, "payments");
}

#[test]
fn the_effective_config_is_a_config() {
    let shown = outbox("[outbox.cleanup]\nkeep = \"2h\"")
        .unwrap()
        .to_toml()
        .unwrap();
    let again = read(&shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
    assert_eq!(again.to_toml().unwrap(), shown);
    says(
        &shown,
        &[
            "keep = \"2h\"",
            "layout = \"polyshop\"",
            "poll_min = \"2ms\"",
        ],
    );
}

#[test]
fn the_example_is_right() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/postrider.toml");
    let environment = Environment::from([
        ("ADMIN_TOKEN", "a-token-of-some-length"),
        ("GRAFANA_TOKEN", "another-of-some-length"),
        ("DATABASE_URL", "postgres://postrider:secret@db/shop"),
        ("KAFKA_PASSWORD", "secret"),
    ]);
    let config = Config::load(&file, &environment).unwrap_or_else(|error| panic!("{error}"));
    assert!(config.outboxes.len() > 1);
}
