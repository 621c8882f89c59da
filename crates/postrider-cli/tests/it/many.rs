//! A hundred thousand records: answers come in seconds and equal what SQL says.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::{Project, Ran};
use crate::outbox::TestOutbox;

const RECORDS: i64 = 100_000;
/// On a machine that builds and tests other things meanwhile.
const PATIENCE: Duration = Duration::from_secs(15);

/// Of every ten: one dead, one that waits behind a failed one of its key, one that failed, two pending, five published.
const RECORDS_SQL: &str = "
    INSERT INTO outbox_events (id, event_type, aggregate_id, payload, created_at, processed, processed_at, error_message)
    SELECT gen_random_uuid(), 'order.' || (array['placed', 'paid', 'sent'])[n % 3 + 1] , 'key ' || (n / 7) % 5000,
      jsonb_build_object('n', n), now() - (100000 - n) * interval '1 second', n % 10 = 0 OR n % 10 > 4,
      CASE WHEN n % 10 > 4 THEN now() END, CASE WHEN n % 10 = 0 THEN 'broker said ' || n % 100 END
    FROM generate_series(1, 100000) n";
const TROUBLES_SQL: &str = "
    INSERT INTO postrider_troubles (outbox, record_id, id_token, key, key_token, attempts, next_attempt_at, last_error, dead)
    SELECT current_schema() || '.outbox_events', id::text, hashtextextended(id::text COLLATE \"C\", 1), aggregate_id,
      hashtextextended(aggregate_id COLLATE \"C\", 0), 3, now(), coalesce(error_message, 'slow'), processed
    FROM outbox_events WHERE error_message IS NOT NULL OR NOT processed AND (payload->>'n')::int % 10 = 1";

async fn many() -> (TestOutbox, Project) {
    let outbox = TestOutbox::create("polyshop").await;
    for sql in [
        RECORDS_SQL,
        TROUBLES_SQL,
        "ANALYZE outbox_events",
        "ANALYZE postrider_troubles",
    ] {
        outbox.database.execute(sql).await;
    }
    let project = outbox.project("");
    assert_eq!(outbox.database.count("outbox_events").await, RECORDS);
    (outbox, project)
}

fn in_time(project: &Project, args: &[&str]) -> Ran {
    let started = Instant::now();
    let ran = project.run(args).ok();
    let took = started.elapsed();
    println!("{took:>6.2?}  postrider {}", args.join(" "));
    assert!(took < PATIENCE, "{args:?} took {took:?}");
    ran
}

fn number(value: &Value) -> i64 {
    value
        .as_i64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[tokio::test]
async fn a_hundred_thousand_records_are_counted_and_chosen_as_sql_does() {
    let (outbox, project) = many().await;
    let sql = async |of: &str| outbox.database.count(of).await;

    let status = in_time(&project, &["status", "--json"]).json();
    let status = &status["outboxes"][0];
    assert_eq!(
        number(&status["pending"]),
        sql("outbox_events WHERE NOT processed").await
    );
    assert_eq!(number(&status["dead"]), RECORDS / 10);
    assert_eq!(number(&status["parked"]), 1000, "as many as are counted");

    let list = in_time(&project, &["dead", "list", "--limit", "20000", "--json"]).json();
    assert_eq!(list.as_array().unwrap().len() as i64, RECORDS / 10);

    let dead = "outbox_events WHERE error_message IS NOT NULL";
    for (options, condition) in [
        (vec!["--all"], "true"),
        (vec!["--type", "order.paid"], "event_type = 'order.paid'"),
        (vec!["--key", "key 7"], "aggregate_id = 'key 7'"),
        (
            vec!["--error", "BROKER said 5"],
            "error_message ILIKE '%broker said 5%'",
        ),
        (vec!["--topic", "nowhere"], "false"),
        (
            vec!["--older-than", "5h", "--type", "order.sent"],
            "created_at < now() - interval '5 hours' AND event_type = 'order.sent'",
        ),
    ] {
        let args = [&["dead", "resend", "--dry-run", "--json"], &*options].concat();
        let counted = in_time(&project, &args).json();
        let truth = sql(&format!("{dead} AND {condition}")).await;
        // The clock goes on between the two looks, a record a second.
        let slack = if options.contains(&"--older-than") {
            10
        } else {
            0
        };
        let difference = number(&counted["count"]) - truth;
        assert!(
            difference.abs() <= slack,
            "{options:?}: {counted} and {truth}"
        );
    }

    let paid = sql(&format!("{dead} AND event_type = 'order.paid'")).await;
    let resend = ["dead", "resend", "--type", "order.paid", "--json"];
    assert_eq!(number(&in_time(&project, &resend).json()["resent"]), paid);
    assert_eq!(sql("postrider_audit WHERE action = 'resend'").await, paid);
    assert_eq!(
        sql("postrider_troubles WHERE dead").await,
        RECORDS / 10 - paid
    );
    let discard = ["dead", "discard", "--error", "said 50", "--json"];
    let gone = number(&in_time(&project, &discard).json()["discarded"]);
    assert_eq!(sql("outbox_events").await, RECORDS - gone);
    assert_eq!(sql("postrider_audit WHERE action = 'discard'").await, gone);
}
