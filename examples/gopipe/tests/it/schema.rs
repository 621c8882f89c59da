//! Task 1: the schema is created when somebody says so, and at no other time.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use example_gopipe::broker::Broker;
use example_gopipe::orders::{COMMANDS, place_order};
use example_gopipe::{
    InboxConfig, OutboxConfig, OutboxPublisherConfig, inbox_schema, init_inbox, init_outbox,
    init_publisher, outbox_schema, publisher_schema, router,
};
use postrider::Metrics;
use postrider::brokers::memory::MemoryBroker;
use postrider::consumer::Consumer;
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::eventually;

use crate::world::until;

/// Everything that the schema holds: tables, indexes, sequences.
async fn relations(database: &Database) -> Vec<String> {
    let sql = "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY 1";
    let names = database.texts(sql).await;
    names.into_iter().flatten().collect()
}

async fn columns(database: &Database, table: &str) -> Vec<String> {
    let sql = format!(
        "SELECT column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '-') \
         FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = '{table}' \
         ORDER BY ordinal_position"
    );
    database.texts(&sql).await.into_iter().flatten().collect()
}

fn custom() -> (InboxConfig, OutboxConfig) {
    let mut inbox = InboxConfig::new("order-service");
    inbox.table = "seen".to_owned().try_into().unwrap();
    let name = "Order Outbox".to_owned().try_into().unwrap();
    let outbox = OutboxConfig::new("order-events").unwrap().table(name);
    (inbox, outbox)
}

const OF_INBOX: [&str; 3] = ["seen", "seen_age_idx", "seen_pkey"];
const OF_OUTBOX: [&str; 5] = [
    "Order Outbox",
    "Order Outbox_created_at_idx",
    "Order Outbox_id_seq",
    "Order Outbox_pkey",
    "Order Outbox_postrider_claim",
];
const OF_PUBLISHER: [&str; 7] = [
    "postrider_audit",
    "postrider_audit_id_seq",
    "postrider_audit_pkey",
    "postrider_audit_record",
    "postrider_troubles",
    "postrider_troubles_pkey",
    "postrider_troubles_record",
];

fn sorted(names: &[&[&str]]) -> Vec<String> {
    let mut names: Vec<String> = names.concat().iter().map(ToString::to_string).collect();
    names.sort();
    names
}

/// A4-01, S4-12: nothing is created by constructing. Each init creates what it is asked for, under names of one's own, and
/// nothing else; again, it changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn constructors_create_nothing_and_each_init_what_it_is_asked_for() {
    let database = fresh_schema().await;
    let pool = &database.pool;
    let (inbox, outbox) = custom();
    let broker = Broker::Memory(MemoryBroker::default());
    let commands = broker.subscribe("order-service", COMMANDS).unwrap();
    let consumer = Consumer::builder("order-service", commands);
    let _router = router(consumer, pool, &inbox, &outbox).handle(place_order);
    let (publisher, metrics) = (OutboxPublisherConfig::default(), Metrics::new());
    let _publisher = publisher.publisher(pool.clone(), &outbox, broker.publisher(), &metrics);
    let _source = publisher.source(pool.clone(), &outbox, &metrics);
    assert!(
        relations(&database).await.is_empty(),
        "a constructor did I/O"
    );

    for _ in 0..2 {
        init_inbox(pool, &inbox).await.unwrap();
    }
    assert_eq!(relations(&database).await, sorted(&[&OF_INBOX]));
    for _ in 0..2 {
        init_outbox(pool, &outbox).await.unwrap();
    }
    assert_eq!(relations(&database).await, sorted(&[&OF_INBOX, &OF_OUTBOX]));
    for _ in 0..2 {
        init_publisher(pool, &outbox).await.unwrap();
    }
    let all = sorted(&[&OF_INBOX, &OF_OUTBOX, &OF_PUBLISHER]);
    assert_eq!(relations(&database).await, all);
}

/// A4-01: 16 processes create the tables at once. They are all held up at the first one, by a transaction that creates it
/// and rolls back.
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_processes_init_at_once() {
    let database = fresh_schema().await;
    let mut first = database.pool.begin().await.unwrap();
    sqlx::query("CREATE TABLE seen (id int)")
        .execute(&mut *first)
        .await
        .unwrap();
    let mut processes: Vec<Child> = (0..16).map(|_| start_init(&database)).collect();
    let waiting = "pg_locks WHERE locktype = 'transactionid' AND NOT granted AND transactionid = \
                   (SELECT transactionid FROM pg_locks WHERE locktype = 'transactionid' AND granted AND pid = PID)";
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut *first)
        .await
        .unwrap();
    let waiting = waiting.replace("PID", &pid.to_string());
    until("all sixteen wait", 16, async || {
        database.count(&waiting).await
    })
    .await;
    first.rollback().await.unwrap();
    for process in &mut processes {
        let ended = eventually("it ends", async || {
            process.try_wait().unwrap().ok_or("runs")
        });
        assert!(ended.await.success());
    }
    let mut all = sorted(&[&OF_INBOX, &OF_OUTBOX, &OF_PUBLISHER]);
    all.extend(["orders", "orders_id_seq", "orders_pkey"].map(String::from));
    all.sort();
    assert_eq!(relations(&database).await, all);
}

fn start_init(database: &Database) -> Child {
    Command::new(env!("CARGO_BIN_EXE_process-orders"))
        .args(["--init", "--inbox-table", "seen"])
        .args(["--outbox-table", "Order Outbox"])
        .env("DATABASE_URL", &database.url)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// A4-02: the stated columns, and the same from the printed schema, for those who have a migration tool.
#[tokio::test]
async fn both_tables_have_the_stated_columns_however_they_were_made() {
    let (inbox, outbox) = (
        InboxConfig::new("order-service"),
        OutboxConfig::new("order-events").unwrap(),
    );
    let (by_init, by_hand) = (fresh_schema().await, fresh_schema().await);
    init_inbox(&by_init.pool, &inbox).await.unwrap();
    init_outbox(&by_init.pool, &outbox).await.unwrap();
    init_publisher(&by_init.pool, &outbox).await.unwrap();
    let by_text = [
        inbox_schema(&inbox),
        outbox_schema(&outbox),
        publisher_schema(&outbox),
    ];
    for statement in by_text.concat() {
        by_hand.execute(&statement).await;
    }
    assert_eq!(relations(&by_init).await, relations(&by_hand).await);
    for database in [Arc::new(by_init), Arc::new(by_hand)] {
        assert_eq!(
            columns(&database, "processed_messages").await,
            [
                "subscriber text NO -",
                "message_id text NO -",
                "created_at timestamp with time zone NO now()",
            ]
        );
        assert_eq!(
            columns(&database, "outbox").await,
            [
                "id bigint NO nextval('outbox_id_seq'::regclass)",
                "created_at timestamp with time zone NO now()",
                "topic text NO -",
                "event_type text NO -",
                "data jsonb NO -",
                "attributes jsonb NO -",
                "published boolean NO false",
            ]
        );
    }
}
