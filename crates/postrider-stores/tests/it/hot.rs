//! What `check` says of HOT updates is what the server does, and what it costs is measured.

use std::time::Duration;

use postrider_core::{Diagnosis as _, Fate, Finding, Level, Limits, OutboxStore as _, Share, Want};
use postrider_stores::postgres::{InitOptions, Options, PostgresStore, connect, init};
use postrider_testkit::eventually;
use postrider_testkit::services::{Kind, PrivateServer};
use sqlx::AssertSqlSafe;

use crate::world::{World, layout, world};

const RECORDS: i64 = 200;

/// The notes on indexes and room.
fn notes(findings: Vec<Finding>) -> Vec<Finding> {
    findings
        .into_iter()
        .filter(|finding| finding.message.contains("index entr"))
        .inspect(|finding| assert_eq!(finding.level, Level::Note, "{finding:?}"))
        .collect()
}

async fn fill(world: &World, records: i64) {
    let (table, columns) = match world.layout.name.as_str() {
        "talkie" => ("outbox", "topic, key, payload_json"),
        "polyshop" => ("outbox_events", "event_type, aggregate_id, payload"),
        other => panic!("{other} is not filled here"),
    };
    let insert = format!(
        "INSERT INTO {table} ({columns}) SELECT 't', n::text, '{{}}' FROM generate_series(1, {records}) AS n"
    );
    world.database.execute(&insert).await;
}

/// Publishes all there is, through a pool that is closed then: a session counts when it ends.
async fn publish(url: &str, options: Options) {
    let pool = connect(url, 1).unwrap();
    drain(&PostgresStore::new(pool.clone(), options), &Fate::Published).await;
    pool.close().await;
}

/// Gives all there is to claim this fate.
async fn drain(store: &PostgresStore, fate: &Fate) {
    let want = Want {
        limit: 1000,
        bytes: usize::MAX,
        share: Share::ALL,
    };
    while let Some(claim) = store.claim(want).await.unwrap() {
        let fates = vec![fate.clone(); claim.records().len()];
        claim.settle(&fates).await.unwrap();
    }
}

/// HOT updates of the outbox, once this many updates are counted.
async fn hot_updates(world: &World, updates: i64) -> i64 {
    let table = world.layout.table.quoted();
    let count = format!(
        "SELECT n_tup_upd::text || ' ' || n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = '{table}'::regclass"
    );
    eventually("updates are counted", async || {
        let text = world.database.text(&count).await.unwrap_or_default();
        match text.split_once(' ') {
            Some((all, hot)) if all == updates.to_string() => Ok(hot.parse().unwrap()),
            _ => Err(text),
        }
    })
    .await
}

struct Case {
    preset: &'static str,
    sql: &'static str,
    /// What is said, in one note; nothing where it is empty.
    says: &'static [&'static str],
    /// Of 200 records.
    hot: i64,
}

const NO_CLAIM_INDEX: &str =
    "ALTER TABLE outbox_events SET (fillfactor = 45); DROP INDEX outbox_events_postrider_claim";

const CASES: [Case; 15] = [
    // With the index of dead records, and without it: nothing that is published on the first try is written to it.
    case("talkie", "", &[], RECORDS),
    case("talkie", NO_DEAD_INDEX, &[], RECORDS),
    case("talkie", "CREATE INDEX own ON outbox (topic)", &[], RECORDS),
    case(
        "talkie",
        "CREATE INDEX own ON outbox (topic) WHERE published_at IS NULL",
        &[],
        RECORDS,
    ),
    case(
        "talkie",
        "CREATE INDEX own ON outbox (status)",
        &[
            "own",
            "reads status, which every claim changes",
            "adds up to 4 index entries",
            "DROP INDEX CONCURRENTLY",
        ],
        0,
    ),
    case(
        "talkie",
        "CREATE INDEX own ON outbox (topic) WHERE status = 'pending'",
        &[
            "own",
            "reads status, which every claim changes",
            "adds up to 3 index entries",
            "WHERE published_at IS NULL",
        ],
        0,
    ),
    case(
        "talkie",
        "CREATE INDEX own ON outbox (lower(status))",
        &["own", "reads status, which every claim changes"],
        0,
    ),
    case(
        "talkie",
        "CREATE INDEX own ON outbox (topic) INCLUDE (last_attempt_at)",
        &["own", "reads last_attempt_at, which every claim changes"],
        0,
    ),
    case(
        "talkie",
        "CREATE INDEX own ON outbox (published_at)",
        &[
            "own",
            "reads published_at, which settling changes",
            "adds 3 index entries",
            "one entry fewer",
            "Cleanup",
        ],
        RECORDS,
    ),
    case(
        "talkie",
        "ALTER TABLE outbox ADD CONSTRAINT own UNIQUE (id, status)",
        &["own", "constraint own"],
        0,
    ),
    case("polyshop", "", &[], 0),
    case(
        "polyshop",
        "CREATE INDEX own ON outbox_events (processed)",
        &[
            "own",
            "reads processed, which settling changes",
            "adds 2 index entries",
            "one entry fewer",
        ],
        0,
    ),
    case("polyshop", NO_CLAIM_INDEX, &[], RECORDS),
    case(
        "polyshop",
        "ALTER TABLE outbox_events SET (fillfactor = 45); DROP INDEX outbox_events_postrider_claim; \
         CREATE INDEX own ON outbox_events (event_type) WHERE processed_at IS NULL",
        &[
            "own",
            "no settle is a HOT update",
            "adds 1 index entry (",
            "instead of none",
        ],
        0,
    ),
    case(
        "polyshop",
        "ALTER TABLE outbox_events SET (fillfactor = 45); DROP INDEX outbox_events_postrider_claim; \
         CREATE INDEX own ON outbox_events (event_type)",
        &[],
        RECORDS,
    ),
];

const fn case(
    preset: &'static str,
    sql: &'static str,
    says: &'static [&'static str],
    hot: i64,
) -> Case {
    Case {
        preset,
        sql,
        says,
        hot,
    }
}

#[tokio::test]
async fn an_index_is_named_exactly_where_the_server_makes_no_hot_updates_for_it() {
    for Case {
        preset,
        sql,
        says,
        hot,
    } in CASES
    {
        let world = world(preset, "").await;
        world.database.execute(sql).await;
        let found = notes(world.store().check().await.unwrap());
        assert_eq!(found.is_empty(), says.is_empty(), "{sql}: {found:#?}");
        for part in says {
            let text = format!("{found:?}");
            assert!(
                found.len() == 1 && text.contains(part),
                "{sql}: {part}: {text}"
            );
        }
        fill(&world, RECORDS).await;
        publish(&world.database.url, Options::new(world.layout.clone())).await;
        let updates = if preset == "talkie" { 2 } else { 1 } * RECORDS;
        assert_eq!(hot_updates(&world, updates).await, hot, "{preset}: {sql}");
    }
}

/// The number that a note says is the number of entries that the log holds.
#[tokio::test]
async fn as_many_index_entries_are_written_as_are_said() {
    let world = world("talkie", "").await;
    let change = "UPDATE outbox SET status = 'publishing', last_attempt_at = now()";
    fill(&world, RECORDS).await;
    assert_eq!(log_records(&world, change).await / RECORDS, 1);
    // The primary key, the unique one, the claim's and this one.
    world
        .database
        .execute("CREATE INDEX own ON outbox (status)")
        .await;
    let found = notes(world.store().check().await.unwrap());
    assert!(found[0].message.contains("up to 4 index"), "{found:?}");
    assert_eq!(log_records(&world, change).await / RECORDS, 1 + 4);
}

/// Entries in the log that a statement writes; it is rolled back.
async fn log_records(world: &World, statement: &str) -> i64 {
    let explain = format!("BEGIN; EXPLAIN (ANALYZE, WAL, FORMAT JSON) {statement}; ROLLBACK");
    let plan = world.database.text(&explain).await.unwrap();
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    plan[0]["Plan"]["WAL Records"].as_i64().unwrap()
}

#[tokio::test]
async fn pages_without_room_are_named_and_the_remedy_makes_room() {
    let world = world("talkie", "").await;
    let full = "ALTER TABLE outbox SET (fillfactor = 100)";
    world.database.execute(full).await;
    let found = notes(world.store().check().await.unwrap());
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].message.contains("filled to 100 %"), "{found:?}");
    fill(&world, RECORDS).await;
    publish(&world.database.url, Options::new(world.layout.clone())).await;
    let hot = hot_updates(&world, RECORDS * 2).await;
    assert!(hot < RECORDS / 2, "{hot} of {RECORDS} claims were HOT");

    let remedy = found[0].remedy.as_ref().unwrap();
    world
        .database
        .execute(remedy.split(':').next().unwrap())
        .await;
    assert_eq!(notes(world.store().check().await.unwrap()), []);
    // Old pages stay as they are.
    world.database.execute("TRUNCATE outbox").await;
    fill(&world, RECORDS).await;
    publish(&world.database.url, Options::new(world.layout.clone())).await;
    assert_eq!(hot_updates(&world, RECORDS * 4).await, hot + RECORDS);
}

#[tokio::test]
async fn a_deep_check_says_how_many_updates_were_hot_where_more_could_be() {
    let limits = Limits {
        payload_bytes_max: None,
        relay_runs: true,
    };
    for (sql, expected) in [
        ("", None),
        (
            "CREATE INDEX own ON outbox (status)",
            Some("0 of 2000 updates were HOT"),
        ),
    ] {
        let world = world("talkie", "").await;
        world.database.execute(sql).await;
        fill(&world, 1000).await;
        publish(&world.database.url, Options::new(world.layout.clone())).await;
        hot_updates(&world, 2000).await;
        let findings = world.store().diagnose(&limits).await.unwrap();
        let share = findings
            .iter()
            .find(|finding| finding.message.contains("HOT"));
        match expected {
            None => assert_eq!(share, None),
            Some(text) => assert!(share.unwrap().message.starts_with(text), "{share:?}"),
        }
    }
}

/// What publishing a record costs the server, by the indexes that its table has.
struct Cost {
    wal_bytes: i64,
    cpu: Duration,
}

/// `POSTRIDER_HOT_RECORDS=100000 cargo test -p postrider-stores --all-features --test it what_settling_costs -- --nocapture`
/// prints the table of docs/layouts.md.
#[tokio::test]
async fn what_settling_costs_grows_with_the_indexes_that_read_what_it_changes() {
    let records =
        std::env::var("POSTRIDER_HOT_RECORDS").map_or(2_000, |text| text.parse().unwrap());
    let server = PrivateServer::start(Kind::Postgres).await;
    let url = format!("postgres://postgres@{}/postgres", server.address());
    let mut costs = Vec::new();
    let published = Fate::Published;
    for (title, preset, sql) in [
        (
            "hold, key and claim index",
            "packfinderz",
            "DROP INDEX outbox_events_published_at_idx, outbox_events_event_type_idx, outbox_events_aggregate_type_aggregate_id_idx",
        ),
        (
            "hold, and (published_at)",
            "packfinderz",
            "DROP INDEX outbox_events_event_type_idx, outbox_events_aggregate_type_aggregate_id_idx",
        ),
        ("hold, and two others", "packfinderz", ""),
        ("lease, as init makes it", "talkie", ""),
        (
            "lease, and (published_at)",
            "talkie",
            "CREATE INDEX ON outbox (published_at)",
        ),
        (
            "lease, and WHERE status = 'pending'",
            "talkie",
            "CREATE INDEX ON outbox (created_at) WHERE status = 'pending'",
        ),
        (
            "lease, and (status)",
            "talkie",
            "CREATE INDEX ON outbox (status)",
        ),
        (
            "lease, fillfactor 100",
            "talkie",
            "ALTER TABLE outbox SET (fillfactor = 100)",
        ),
        ("lease, no index of dead records", "talkie", NO_DEAD_INDEX),
    ] {
        let cost = cost(&url, preset, sql, records, &published).await;
        costs.push(cost.print(title, records).wal_bytes);
    }
    assert!(costs[0] < costs[1] && costs[1] < costs[2], "{costs:?}");
    for worse in [4, 5, 6, 7] {
        assert!(costs[3] < costs[worse], "{worse}: {costs:?}");
    }
    // What is published on the first try never comes into the index of dead records.
    assert!(costs[3] < costs[8] + costs[8] / 50, "{costs:?}");

    let failed = Fate::Retry {
        attempts: 1,
        after: Duration::from_secs(3600),
        error: "no".into(),
    };
    let without = cost(&url, "talkie", NO_DEAD_INDEX, records, &failed).await;
    let without = without.print("lease, failed once, without it", records);
    let with = cost(&url, "talkie", "", records, &failed).await;
    let with = with.print("lease, failed once", records);
    assert!(without.wal_bytes < with.wal_bytes);
}

const NO_DEAD_INDEX: &str = "DROP INDEX outbox_postrider_dead";

impl Cost {
    fn print(self, title: &str, records: i64) -> Self {
        println!(
            "{title:36} {:6.2} s CPU  {:5.1} MB WAL per 100,000 records",
            self.cpu.as_secs_f64() * 1e5 / records as f64,
            self.wal_bytes as f64 / 1e6 * 1e5 / records as f64,
        );
        self
    }
}

async fn cost(url: &str, preset: &str, sql: &str, records: i64, fate: &Fate) -> Cost {
    let layout = layout(preset, "");
    let pool = connect(url, 1).unwrap();
    let execute = async |sql: String| {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&pool)
            .await
            .unwrap();
    };
    execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public".into()).await;
    let options = InitOptions {
        claim_index: true,
        notify: false,
    };
    init(&pool, &layout, &options).await.unwrap();
    let (table, columns) = match preset {
        "talkie" => ("outbox", "(topic, key, payload_json) SELECT 't', n::text,"),
        _ => (
            "outbox_events",
            "(id, event_type, aggregate_type, aggregate_id, payload_json) \
             SELECT gen_random_uuid(), 'order_created', 'vendor_order', gen_random_uuid(),",
        ),
    };
    execute(format!(
        "{sql}; ALTER TABLE {table} SET (autovacuum_enabled = off); CHECKPOINT"
    ))
    .await;
    execute(format!(
        "INSERT INTO {table} {columns} json_build_object('n', n, 'pad', repeat('x', 470)) FROM generate_series(1, {records}) AS n"
    ))
    .await;
    execute("ANALYZE".into()).await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&pool)
        .await
        .unwrap();
    let wal = async || -> i64 {
        sqlx::query_scalar("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8")
            .fetch_one(&pool)
            .await
            .unwrap()
    };
    let (wal_before, cpu_before) = (wal().await, cpu(pid));
    drain(
        &PostgresStore::new(pool.clone(), Options::new(layout)),
        fate,
    )
    .await;
    Cost {
        wal_bytes: wal().await - wal_before,
        cpu: cpu(pid) - cpu_before,
    }
}

/// What a process has used so far.
fn cpu(pid: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}
