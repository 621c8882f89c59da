//! Task 1: the schema is created when somebody says so, and at no other time.

use std::sync::Arc;

use example_gopipe::broker::Broker;
use example_gopipe::orders::{COMMANDS, place_order};
use example_gopipe::{
    InboxConfig, OutboxConfig, OutboxPublisherConfig, inbox_schema, init_inbox, init_outbox,
    outbox_schema, router,
};
use postrider::Metrics;
use postrider::brokers::memory::MemoryBroker;
use postrider::consumer::Consumer;
use postrider_testkit::database::{Database, fresh_schema};
use tokio::task::JoinSet;

async fn tables(database: &Database) -> Vec<String> {
    let sql = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1";
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

/// A4-01: nothing is created by constructing; init is explicit, may be repeated, and takes names of one's own.
#[tokio::test(flavor = "multi_thread")]
async fn constructors_create_nothing_and_init_may_run_again_and_everywhere() {
    let database = fresh_schema().await;
    let pool = &database.pool;
    let mut inbox = InboxConfig::new("order-service");
    inbox.table = "seen".to_owned().try_into().unwrap();
    let name = "Order Outbox".to_owned().try_into().unwrap();
    let outbox = OutboxConfig::new("order-events").unwrap().table(name);
    let broker = Broker::Memory(MemoryBroker::default());
    let commands = broker.subscribe("order-service", COMMANDS).unwrap();
    let consumer = Consumer::builder("order-service", commands);
    let _router = router(consumer, pool, &inbox, &outbox).handle(place_order);
    let publisher = OutboxPublisherConfig::default();
    let _publisher =
        publisher.publisher(pool.clone(), &outbox, broker.publisher(), &Metrics::new());
    assert!(tables(&database).await.is_empty(), "a constructor did I/O");

    let mut inits = JoinSet::new();
    for _ in 0..16 {
        let (pool, inbox, outbox) = (pool.clone(), inbox.clone(), outbox.clone());
        inits.spawn(async move {
            init_inbox(&pool, &inbox).await?;
            init_outbox(&pool, &outbox).await
        });
    }
    for init in inits.join_all().await {
        init.unwrap();
    }
    init_inbox(pool, &inbox).await.unwrap();
    init_outbox(pool, &outbox).await.unwrap();
    // The preset brings the plan's own inbox table, which stays empty here.
    let made = [
        "Order Outbox",
        "postrider_audit",
        "postrider_troubles",
        "processed_messages",
        "seen",
    ];
    assert_eq!(tables(&database).await, made);
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
    for statement in [inbox_schema(&inbox), outbox_schema(&outbox)].concat() {
        by_hand.execute(&statement).await;
    }
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
