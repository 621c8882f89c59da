//! What claims cost where much is stuck, by rows that are read: each of them once or twice,
//! whatever memory a statement has and whatever the planner knows of the tables.

use std::sync::Arc;

use postrider_core::{Fate, Layout, OutboxStore as _, RecordFilter, Records as _, Share, Want};
use postrider_testkit::database::fresh_schema;
use postrider_testkit::eventually;
use serde_json::Value;
use sqlx::Row as _;

use super::claim::{Look, begin, claiming};
use super::idle::is_idle;
use super::{InitOptions, Options, PostgresStore, connect, init};
use crate::catalogue::Catalogue as _;

const STUCK: u64 = 4_000;
const WANT: Want = Want {
    limit: 10,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// Dead records, those that wait, and those that are parked behind both; then some that can be
/// claimed.
const CASES: [(&str, &str, &[&str]); 4] = [
    (
        "polyshop",
        "key",
        &[
            "INSERT INTO outbox_events (aggregate_id, event_type, payload) SELECT 'k' || n / 4, 't', '{}' FROM generate_series(1, 4000) n",
            "INSERT INTO postrider_troubles (outbox, record_id, id_token, key, key_token, attempts, next_attempt_at, dead) \
             SELECT current_schema() || '.outbox_events', id::text, hashtextextended(id::text COLLATE \"C\", 1), aggregate_id, \
             hashtextextended(aggregate_id COLLATE \"C\", 0), 1, now() + interval '1 day', false FROM (\
             SELECT DISTINCT ON (aggregate_id) * FROM outbox_events ORDER BY aggregate_id, created_at) o",
            "INSERT INTO outbox_events (aggregate_id, event_type, payload) SELECT 'g' || n, 't', '{}' FROM generate_series(1, 100) n",
        ],
    ),
    (
        "packfinderz",
        "key",
        &[
            "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, attempt_count) \
             SELECT gen_random_uuid(), 'ad_paused', 'ad', lpad((n / 4)::text, 32, '0')::uuid, '{}', \
             CASE WHEN n % 4 = 0 THEN 1 + 30 * (n / 4 % 2) ELSE 0 END FROM generate_series(4, 4003) n",
            "INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) \
             SELECT gen_random_uuid(), 'ad_paused', 'ad', gen_random_uuid(), '{}' FROM generate_series(1, 100) n",
        ],
    ),
    (
        "talkie",
        "key",
        &[
            "INSERT INTO outbox (topic, key, payload_json, retry_count, status, next_attempt_at) SELECT 't', 'k' || n / 4, '{}', 1, \
             CASE n % 8 WHEN 0 THEN 'failed' WHEN 4 THEN 'dead_lettered' ELSE 'pending' END, \
             clock_timestamp() + CASE WHEN n % 8 = 0 THEN interval '1 day' ELSE interval '0' END FROM generate_series(4, 4003) n",
            "INSERT INTO outbox (topic, key, payload_json) SELECT 't', 'g' || n, '{}' FROM generate_series(1, 100) n",
        ],
    ),
    (
        "talkie",
        "none",
        &[
            "INSERT INTO outbox (topic, key, payload_json, retry_count, status, next_attempt_at) SELECT 't', 'k', '{}', 1, \
             CASE n % 2 WHEN 0 THEN 'failed' ELSE 'dead_lettered' END, now() + interval '1 day' FROM generate_series(1, 4000) n",
            "INSERT INTO outbox (topic, key, payload_json) SELECT 't', 'g' || n, '{}' FROM generate_series(1, 100) n",
        ],
    ),
];

/// What the planner is made to believe: that the tables are as they were when they were empty, or
/// much larger.
const BELIEFS: [&str; 2] = [
    "SELECT 1",
    "UPDATE pg_catalog.pg_class SET reltuples = 100000000, relpages = 1000000 WHERE relnamespace = current_schema()::regnamespace",
];

#[tokio::test]
async fn claims_read_what_is_stuck_once_whatever_the_planner_believes() {
    for (preset, ordering, rows) in CASES {
        for belief in BELIEFS {
            let overrides = format!("ordering = '{ordering}'").parse().unwrap();
            let layout = Layout::with_overrides(preset, overrides).unwrap();
            let database = fresh_schema().await;
            let options = InitOptions {
                claim_index: true,
                notify: false,
            };
            init(&database.pool, &layout, &options).await.unwrap();
            let tables = "SELECT format('ALTER TABLE %I SET (autovacuum_enabled = off)', relname) FROM pg_class \
                          WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'";
            for alter in database.texts(tables).await.into_iter().flatten() {
                database.execute(&alter).await;
            }
            database.execute("ANALYZE").await;
            for statement in rows {
                database.execute(statement).await;
            }
            database.execute(belief).await;
            let url = format!("{}%20-cwork_mem%3D64kB", database.url);
            let store = PostgresStore::new(connect(&url, 2).unwrap(), Options::new(layout));
            let read = rows_read(&store).await;
            assert!(
                read < 8 * STUCK,
                "{preset} {ordering}, {belief}: {read} rows are read"
            );
        }
    }
}

async fn rows_read(store: &PostgresStore) -> u64 {
    let inner = &*store.inner;
    let ready = inner.ready().await.unwrap();
    let mut stand = ready.floor.stand();
    let mut begun = begin(inner, &ready, WANT, &mut stand)
        .await
        .unwrap()
        .unwrap();
    let claim = &ready.statements.claim;
    let text: Arc<str> = format!("EXPLAIN (ANALYZE, FORMAT JSON) {claim}").into();
    let range = &ready.floor.ranges(&stand, None)[0];
    let look = Look {
        limit: 10,
        lanes: begun.lanes.as_deref(),
        depth: Some(10_000),
        range,
    };
    let explain = claiming(inner, &ready, &text, look).unwrap();
    let row = explain.fetch_one(begun.tx.connection()).await.unwrap();
    let plan: String = row.try_get_unchecked(0).unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    begun.tx.rollback().await.unwrap();
    let text = plan.to_string();
    let subplans = text.matches("SubPlan").count();
    assert!(subplans > 0, "{text}");
    read_in(&plan[0]["Plan"])
}

/// Rows that a node and those below it have read, and thrown away.
fn read_in(node: &Value) -> u64 {
    let number = |name: &str| node[name].as_f64().unwrap_or(0.0);
    let rows = number("Actual Rows") + number("Rows Removed by Filter");
    let here = rows * number("Actual Loops");
    let below = node["Plans"].as_array().into_iter().flatten().map(read_in);
    here as u64 + below.sum::<u64>()
}

/// What a claim holds is looked up by id, however small the index of what is not published looks to
/// the planner: while a transaction is open elsewhere it has the entries of all that was published
/// since.
#[tokio::test]
async fn claimed_records_are_settled_by_their_ids() {
    // Each of them published.
    for (preset, rows) in [
        (
            "polyshop",
            "outbox_events (aggregate_id, event_type, payload, processed) SELECT 'k', 't', '{}', true",
        ),
        (
            "packfinderz",
            "outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json, published_at) \
             SELECT gen_random_uuid(), 'ad_paused', 'ad', gen_random_uuid(), '{}', now()",
        ),
        (
            "gopipe",
            "outbox (topic, event_type, data, attributes, published) SELECT 't', 't', '{}', '{}', true",
        ),
        (
            "talkie",
            "outbox (topic, key, payload_json, status, published_at) \
             SELECT 't', 'k', '{}', 'published', now()",
        ),
    ] {
        let layout = Layout::preset(preset).unwrap();
        let database = fresh_schema().await;
        let options = InitOptions {
            claim_index: true,
            notify: false,
        };
        init(&database.pool, &layout, &options).await.unwrap();
        let insert = format!("INSERT INTO {rows} FROM generate_series(1, 1000)");
        database.execute(&insert).await;
        let table = layout.table.quoted();
        database.execute(&format!("VACUUM ANALYZE {table}")).await;
        let store = PostgresStore::new(database.pool.clone(), Options::new(layout));
        let ready = store.inner.ready().await.unwrap();
        let statement = &ready.statements.settle_published;
        let mut tx = database.pool.begin().await.unwrap();
        let settings = "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; \
                        SET LOCAL plan_cache_mode = force_generic_plan";
        sqlx::raw_sql(settings).execute(&mut *tx).await.unwrap();
        let explain = format!("PREPARE settle AS {statement}; EXPLAIN EXECUTE settle");
        let arguments = match preset {
            "talkie" => "('{}', now())",
            _ => "('{}')",
        };
        let explain = sqlx::AssertSqlSafe(format!("{explain}{arguments}"));
        let rows = sqlx::raw_sql(explain).fetch_all(&mut *tx).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("_pkey"), "{preset}: {plan}");
        assert!(!plan.contains("_postrider_"), "{preset}: {plan}");
    }
}

/// Whatever is stuck, a claim of an idle outbox is one look at an index above it; what comes is
/// seen.
#[tokio::test]
async fn an_idle_outbox_is_only_asked_whether_anything_has_come() {
    for (preset, ordering, rows) in CASES {
        let overrides = format!("ordering = '{ordering}'").parse().unwrap();
        let layout = Layout::with_overrides(preset, overrides).unwrap();
        let database = fresh_schema().await;
        let init_options = InitOptions {
            claim_index: true,
            notify: false,
        };
        init(&database.pool, &layout, &init_options).await.unwrap();
        if preset == "packfinderz" {
            // Not `now()`, which makes a floor wait for transactions of other tests.
            let alter =
                "ALTER TABLE outbox_events ALTER COLUMN created_at SET DEFAULT clock_timestamp()";
            database.execute(alter).await;
        }
        for statement in &rows[..rows.len() - 1] {
            database.execute(statement).await;
        }
        let options = Options {
            order_is_drawn: true,
            ..Options::new(layout)
        };
        let store = PostgresStore::new(database.pool.clone(), options);
        let ready = store.inner.ready().await.unwrap();
        eventually("nothing is claimed, and nothing is looked at", async || {
            if let Some(claim) = store.claim(WANT).await.unwrap() {
                let fate = |_: &_| Fate::Dead {
                    attempts: 100,
                    error: "never".into(),
                };
                let fates: Vec<Fate> = claim.records().iter().map(fate).collect();
                claim.settle(&fates).await.unwrap();
            }
            store.tend().await.unwrap();
            match is_idle(&store.inner, &ready).await {
                true => Ok(()),
                false => Err(format!("{preset} {ordering}")),
            }
        })
        .await;
        database.execute(rows[rows.len() - 1]).await;
        let is_idle = is_idle(&store.inner, &ready).await;
        assert!(!is_idle, "{preset} {ordering}");
    }
}

/// A server that crashed may have forgotten what was settled last, which is published again, and
/// then in order.
#[tokio::test]
async fn a_floor_is_forgotten_with_the_sessions_that_are_older() {
    let layout = Layout::preset("polyshop").unwrap();
    let database = fresh_schema().await;
    init(&database.pool, &layout, &InitOptions::default())
        .await
        .unwrap();
    let options = Options {
        order_is_drawn: true,
        ..Options::new(layout)
    };
    let pool = connect(&database.url, 1).unwrap();
    let store = PostgresStore::new(pool.clone(), options);
    let ready = store.inner.ready().await.unwrap();
    let insert =
        "INSERT INTO outbox_events (aggregate_id, event_type, payload) VALUES ('k', 't', '{}')";
    eventually("there is a floor", async || {
        database.execute(insert).await;
        if let Some(claim) = store.claim(WANT).await.unwrap() {
            let fates = vec![Fate::Published; claim.records().len()];
            claim.settle(&fates).await.unwrap();
        }
        store.tend().await.unwrap();
        ready.floor.stand().is_raised().then_some(()).ok_or("none")
    })
    .await;
    drop(store.claim(WANT).await.unwrap());
    assert!(ready.floor.stand().is_raised(), "the session is older");
    let session: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&pool)
        .await
        .unwrap();
    let end = format!("SELECT pg_terminate_backend({session}, 5000)");
    database.execute(&end).await;
    eventually("claims go on", async || store.claim(WANT).await.map(drop)).await;
    assert!(!ready.floor.stand().is_raised(), "the session is newer");
}

/// S2-21: whatever the planner believes of the table, dead records are found by their own index.
#[tokio::test]
async fn dead_records_of_talkie_are_found_by_their_index() {
    let layout = Layout::preset("talkie").unwrap();
    let database = fresh_schema().await;
    init(&database.pool, &layout, &InitOptions::default())
        .await
        .unwrap();
    database
        .execute(
            "INSERT INTO outbox (topic, key, payload_json, retry_count, status, published_at) SELECT 't', 'k' || n, '{}', \
             CASE WHEN n % 100 = 0 THEN 3 ELSE 0 END, \
             CASE WHEN n % 100 = 0 THEN 'dead_lettered' WHEN n % 2 = 0 THEN 'published' ELSE 'pending' END, \
             CASE WHEN n % 100 > 0 AND n % 2 = 0 THEN now() END FROM generate_series(1, 20000) n",
        )
        .await;
    for analyzed in ["SELECT 1", "ANALYZE outbox"] {
        database.execute(analyzed).await;
        let store = PostgresStore::new(database.pool.clone(), Options::new(layout.clone()));
        let (inner, filter) = (&*store.inner, RecordFilter::dead());
        let ready = inner.ready().await.unwrap();
        let writer = inner.writer(&ready);
        for mut question in [
            writer.find("outbox", &filter, None, 100),
            writer.count("outbox", &filter),
        ] {
            question.text = format!("EXPLAIN {}", question.text);
            let rows = inner.ask(&ready, question).await.unwrap();
            let plan: Vec<String> = rows.rows.iter().map(|row| row.get(0)).collect();
            let plan = plan.join("\n");
            assert!(plan.contains("outbox_postrider_dead"), "{analyzed}: {plan}");
            assert!(!plan.contains("Seq Scan"), "{analyzed}: {plan}");
        }
        assert_eq!(store.count(&filter).await.unwrap(), 200);
    }
}
