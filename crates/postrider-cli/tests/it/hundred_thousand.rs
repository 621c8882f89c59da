//! Replay and verify on an outbox of 100,000 records, of which every tenth waits; the others' messages are on Kafka.

use std::time::{Duration, Instant};

use crate::shelf::Shelf;

const RECORDS: usize = 100_000;
const KEYS: usize = 1_000;
/// Seconds, on a machine that does other things too.
const SECONDS: Duration = Duration::from_secs(30);

/// Rows and messages, set-wise.
async fn stock(shelf: &Shelf) {
    let topic = &shelf.topic;
    let sql = format!(
        "INSERT INTO outbox_events (id, aggregate_id, event_type, payload, created_at, processed, processed_at) \
         SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'k' || n % {KEYS}, '{topic}', \
           json_build_object('n', n), now() - interval '10 minutes' + n * interval '1 ms', n % 10 <> 0, CASE WHEN n % 10 <> 0 THEN now() END \
         FROM generate_series(1, {RECORDS}) n; ANALYZE outbox_events"
    );
    shelf.outbox.database.execute(&sql).await;
    let ids = shelf.ids().await;
    assert_eq!(ids.len(), RECORDS);
    let published = |(n, _): &(usize, _)| n % 10 != 0;
    let numbered: Vec<_> = (1..).zip(ids).filter(published).collect();
    for chunk in numbered.chunks(20_000) {
        let messages: Vec<_> = chunk
            .iter()
            .map(|(n, id)| shelf.message(*id, &format!("k{}", n % KEYS)))
            .collect();
        shelf.produce(&messages).await;
    }
}

#[tokio::test]
async fn replay_and_verify_answer_in_seconds_and_count_as_sql_does() {
    let shelf = Shelf::new().await;
    stock(&shelf).await;
    let database = &shelf.outbox.database;

    let began = Instant::now();
    let dry = shelf
        .project
        .run(&["replay", "--all", "--dry-run", "--json"])
        .ok()
        .json();
    let of_a_key = ["replay", "--key", "k7", "--dry-run", "--json"];
    let of_a_key = shelf.project.run(&of_a_key).ok().json();
    let counting = began.elapsed();
    assert_eq!(
        dry["records"],
        database.count("outbox_events WHERE processed").await
    );
    let sql = "outbox_events WHERE processed AND aggregate_id = 'k7'";
    assert_eq!(of_a_key["records"], database.count(sql).await);

    let began = Instant::now();
    let verify = ["verify", "--since", "1h", "--json"];
    let report = shelf.project.run(&verify).ok().json();
    let verifying = began.elapsed();
    let published = database.count("outbox_events WHERE processed").await;
    let waiting = database.count("outbox_events WHERE NOT processed").await;
    assert_eq!((published, waiting), (90_000, 10_000));
    assert_eq!(
        (&report["published"], &report["messages"]),
        (&published.into(), &published.into())
    );
    assert_eq!(
        (&report["waiting"], &report["inverted"]["count"]),
        (&waiting.into(), &0.into())
    );

    println!("two dry runs {counting:?}, verify {verifying:?}");
    assert!(
        counting < SECONDS && verifying < SECONDS,
        "{counting:?}, {verifying:?}"
    );
}
