//! Counts are those of the table.

use super::*;

const RECORDS: i64 = 100_000;

/// As many records as an outbox has in a bad week, in all states. The broker is down, so that none of them moves.
#[tokio::test]
async fn counts_of_a_hundred_thousand_records_equal_sql_truth() {
    let outbox = TestOutbox::create("packfinderz").await;
    fill(&outbox).await;
    let broker = "kind = \"kafka\"\nbootstrap = \"127.0.0.1:1\"";
    let project = Project::new(&outbox.config_with(broker, "envelope = \"none\""));
    let api = Api::start(&project).await;
    let key = outbox.database.text("SELECT md5('8')::uuid").await.unwrap();
    for (query, condition) in [
        (String::new(), "true"),
        ("state=published".into(), "published_at IS NOT NULL"),
        (
            "state=dead".into(),
            "published_at IS NULL AND attempt_count >= 25",
        ),
        (
            "state=waiting".into(),
            "published_at IS NULL AND attempt_count BETWEEN 1 AND 24",
        ),
        (
            "state=pending".into(),
            "published_at IS NULL AND attempt_count = 0",
        ),
        ("type=ad_paused".into(), "event_type = 'ad_paused'"),
        (format!("key={key}"), "aggregate_id = md5('8')::uuid"),
        (
            format!("key={key}&state=dead&type=order_created"),
            "aggregate_id = md5('8')::uuid AND event_type = 'order_created' \
             AND published_at IS NULL AND attempt_count >= 25",
        ),
        ("error=ERROR+18".into(), "last_error LIKE '%error 18%'"),
        (
            "state=dead&error=error+8".into(),
            "published_at IS NULL AND attempt_count >= 25 AND last_error LIKE '%error 8%'",
        ),
    ] {
        let truth = outbox
            .database
            .count(&format!("outbox_events WHERE {condition}"))
            .await;
        let began = std::time::Instant::now();
        assert_eq!(
            api.count(&query).await,
            u64::try_from(truth).unwrap(),
            "{query}"
        );
        let page = api.ask(&format!("records?limit=500&{query}")).await;
        let found = page["records"].as_array().unwrap().len();
        assert_eq!(i64::try_from(found).unwrap(), truth.min(500), "{query}");
        assert_eq!(page["next"].is_string(), truth > 500, "{query}");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{query} took {took:?}");
    }
    let overview = api.overview().await;
    assert_eq!(overview["dead"], 10_000);
    assert_eq!(overview["pending"], 20_000, "{overview}");
    let oldest = "SELECT extract(epoch FROM max(now() - created_at)) FROM outbox_events \
                  WHERE published_at IS NULL AND attempt_count < 25";
    let oldest = outbox.database.number(oldest).await as f64;
    let age = overview["oldest_age"].as_f64().unwrap();
    assert!((age - oldest).abs() < 30.0, "{age} {oldest}");
}

async fn fill(outbox: &TestOutbox) {
    outbox
        .database
        .execute(&format!(
            "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, created_at, \
             published_at, attempt_count, last_error) \
             SELECT gen_random_uuid(), (ARRAY['order_created', 'ad_paused'])[1 + n % 2]::event_type_enum, \
             'store', md5((n % 1000)::text)::uuid, '{{}}', now() - n * interval '1 second', \
             CASE WHEN n % 10 < 7 THEN now() END, \
             CASE n % 10 WHEN 8 THEN 25 WHEN 9 THEN 3 ELSE 0 END, \
             CASE WHEN n % 10 > 7 THEN 'error ' || n % 20 END \
             FROM generate_series(1, {RECORDS}) n; ANALYZE outbox_events"
        ))
        .await;
}

#[tokio::test]
async fn totals_equal_what_the_relay_did() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project(ROUTES);
    for n in 0..30 {
        let kind = if n % 3 == 0 {
            "order.lost"
        } else {
            "order.placed"
        };
        outbox.emit(kind, &n.to_string()).await;
    }
    let api = Api::start(&project).await;
    api.counts("state=published", 20).await;
    api.counts("state=dead", 10).await;
    let overview = eventually("counts are as new as the totals", async || {
        let overview = api.overview().await;
        match &overview["dead"] {
            dead if *dead == 10 => Ok(overview),
            _ => Err(overview),
        }
    })
    .await;
    for (figure, value) in [
        ("name", json!("orders")),
        ("layout", json!("polyshop")),
        ("table", json!("outbox_events")),
        ("broker", json!("main")),
        ("claim", json!("hold")),
        ("ordering", json!("key")),
        ("pending", json!(0)),
        ("oldest_age", Value::Null),
        ("parked", json!(10)),
        ("published_total", json!(20)),
        ("failed_total", json!(0)),
        ("dead_total", json!(10)),
        ("breaker", json!("closed")),
        ("ready", json!(true)),
    ] {
        assert_eq!(overview[figure], value, "{figure}: {overview}");
    }
    let took = &overview["publish_seconds"];
    assert!(took["p50"].as_f64().unwrap() <= took["p99"].as_f64().unwrap());
}
