//! Answers are bounded, whatever rows contain.

use super::*;

/// R18: of 40 rows with a type of 3 MB each, a list tells a kibibyte each, and has no more than 8 MiB of them in memory.
#[tokio::test]
async fn a_list_of_records_with_endless_texts_is_short() {
    let outbox = TestOutbox::create("polyshop").await;
    let insert = "INSERT INTO outbox_events (aggregate_id, event_type, payload, processed, processed_at) \
                  SELECT n::text, repeat('€', 1000000) || n, '{}', true, now() FROM generate_series(1, 40) n";
    sqlx::query(insert).execute(outbox.pool()).await.unwrap();
    let project = outbox.project("");
    let api = Api::start(&project).await;
    let mut records = Vec::new();
    let mut from = String::new();
    loop {
        // A page ends early where its rows are large, and says where the next begins.
        let body = api.ask(&format!("records?limit=500{from}")).await;
        let bytes = body.to_string().len();
        assert!(bytes < 200_000, "{bytes} bytes");
        records.extend(body["records"].as_array().unwrap().clone());
        let Some(next) = body["next"].as_str() else {
            break;
        };
        from = format!("&from={}", next.replace('+', "%2B"));
    }
    assert_eq!(records.len(), 40);
    for record in &records {
        let event_type = record["event_type"].as_str().unwrap();
        assert!(
            event_type.starts_with("€€") && event_type.ends_with('…'),
            "{event_type}"
        );
    }
    let id = records[0]["id"].as_str().unwrap();
    let single = api.ask(&format!("records/{id}")).await;
    let bytes = single.to_string().len();
    assert!((60_000..400_000).contains(&bytes), "{bytes} bytes");
}
