//! Everything through a PgBouncer in transaction mode, of a version that does not track prepared statements. It gives
//! every transaction another server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use postrider_core::{
    Admission, Arrival, Diagnosis as _, Event, Fate, InboxStore as _, Level, Limits, ManagedStore,
    OutboxStore as _, OutboxWriter as _, ParkedKeys as _, Share, StoreError, Transactions as _,
    Want,
};
use postrider_stores::postgres::{
    InboxLayout, InitOptions, Options, Outbox, PgInbox, PgParkedKeys, PgPool, PgTransactions,
    PostgresStore, connect, inbox, init, parked,
};
use postrider_testkit::conformance::store::{Settings, StoreWorld as _};
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::pooler::Pooler;
use sqlx::Row as _;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::conformance::odd_states;
use crate::world::{Backend, World, layout, world};

const ALL: Want = Want {
    limit: 100,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// A database of which everything but the test's own looks goes through a pooler.
#[derive(Clone)]
struct Behind {
    database: Arc<Database>,
    pooler: Arc<Pooler>,
    pool: PgPool,
}

impl Behind {
    async fn new() -> Self {
        let database = fresh_schema().await;
        let pooler = Pooler::before(&database).await;
        Self {
            pool: connect(&pooler.url(), 4).unwrap(),
            database: Arc::new(database),
            pooler: Arc::new(pooler),
        }
    }

    async fn world(&self, preset: &str, overrides: &str) -> World<Self> {
        let layout = layout(preset, overrides);
        let options = InitOptions {
            claim_index: true,
            notify: false,
        };
        init(&self.pool, &layout, &options).await.unwrap();
        let (url, outbox) = (self.pooler.url(), Outbox::new(layout.clone()));
        World::new(self.clone(), &url, layout, outbox)
    }
}

#[async_trait]
impl Backend for Behind {
    type Outbox = Outbox;

    async fn execute(&self, sql: &str) {
        self.database.execute(sql).await;
    }

    async fn text(&self, sql: &str) -> Option<String> {
        self.database.text(sql).await
    }

    fn ago(&self, ago: Duration) -> String {
        self.database.ago(ago)
    }

    async fn refuse_changes(&self, table: &str) {
        Backend::refuse_changes(&*self.database, table).await;
    }

    fn relay(&self, url: &str, options: Options) -> Arc<dyn ManagedStore> {
        self.database.relay(url, options)
    }

    /// By a service with a transaction of its own.
    async fn emit(&self, outbox: &Outbox, event: Event) {
        let mut tx = self.pool.begin().await.unwrap();
        outbox.emit(&mut tx, event).await.unwrap();
        tx.commit().await.unwrap();
    }
}

async fn behind(preset: &str, overrides: &str) -> World<Behind> {
    Behind::new().await.world(preset, overrides).await
}

mod hold_by_key {
    use super::*;
    postrider_testkit::store_conformance!(behind("polyshop", "ordering = 'key'"), records dead order hold);
}

/// With a type that the driver asks the server for.
mod lease_by_key {
    use super::*;

    async fn jobs() -> World<Behind> {
        let behind = Behind::new().await;
        behind.execute(odd_states::TABLE).await;
        behind.world("custom", odd_states::LAYOUT).await
    }

    postrider_testkit::store_conformance!(jobs(), records dead order lease);
}

mod native {
    use super::*;
    postrider_testkit::store_conformance!(behind("native", "state = { groups = 4 }"), records dead order hold);
}

/// Relays of different tables have different statements, which the driver numbers alike.
#[tokio::test(flavor = "multi_thread")]
async fn no_relay_runs_a_statement_that_another_has_prepared() {
    let behind = Behind::new().await;
    let relays = ["polyshop", "packfinderz", "talkie", "gopipe"].map(async |preset| {
        let world = behind
            .world(preset, &format!("table = '{preset}_events'"))
            .await;
        let store = world.relay(Settings::default());
        for number in 0..25 {
            world.emit(world.event(Some("k"), number)).await;
            let claim = store.claim(ALL).await.unwrap().expect("one record");
            assert_eq!(claim.records().len(), 1, "{preset}");
            let settled = claim.settle(&[Fate::Published]).await.unwrap();
            assert_eq!(settled.lapsed, 0, "{preset}");
            assert_eq!(store.backlog().await.unwrap().pending, 0, "{preset}");
        }
    });
    join_all(relays).await;
}

/// Statements of the handler's own are prepared by name, as the driver does it.
#[tokio::test]
async fn handlers_inboxes_and_parked_keys_work() {
    let world = behind("gopipe", "").await;
    let pool = &world.database.pool;
    world
        .database
        .execute("CREATE TYPE mood AS ENUM ('glad'); CREATE TABLE effects (n int8, mood mood)")
        .await;
    let (layout, transactions) = (InboxLayout::gopipe(), PgTransactions::new(pool.clone()));
    inbox::init(pool, &layout).await.unwrap();
    parked::init(pool).await.unwrap();
    let (inbox, keys) = (PgInbox::new(layout), PgParkedKeys::new(pool.clone()));
    inbox.check(pool).await.unwrap();
    for number in 0..30_i64 {
        let mut tx = transactions.begin().await.unwrap();
        let arrival = Arrival {
            event_id: &format!("e{number}").into(),
            event_type: Some("order_created"),
            source: None,
        };
        let admitted = inbox.admit(&mut tx, "billing", &[arrival]).await.unwrap();
        assert_eq!(admitted, vec![Admission::First]);
        let effect = sqlx::query("INSERT INTO effects VALUES ($1, 'glad') RETURNING mood, n");
        let effect = effect.bind(number).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(effect.get::<i64, _>(1), number);
        let events = [world.event(None, 1)];
        world.outbox.enqueue(&mut tx, &events).await.unwrap();
        transactions.commit(tx).await.unwrap();
        let key = number.to_be_bytes();
        keys.park("billing", "orders", &key, "why").await.unwrap();
        assert!(keys.is_parked("billing", "orders", &key).await.unwrap());
    }
    assert_eq!(keys.list("billing", 100).await.unwrap().len(), 30);
    assert_eq!(inbox.purge(pool, Duration::ZERO, 100).await.unwrap(), 30);
    let database = &world.database.database;
    assert_eq!(database.count("effects").await, 30);
    assert_eq!(database.count("outbox").await, 30);
}

#[tokio::test]
async fn nothing_is_found_wrong_behind_a_pooler() {
    let world = behind("polyshop", "").await;
    let options = Options::new(world.layout.clone());
    let store = PostgresStore::new(world.database.pool.clone(), options);
    for _ in 0..10 {
        store.ping().await.unwrap();
        let findings = store.check().await.unwrap();
        assert!(
            findings.iter().all(|finding| finding.level != Level::Error),
            "{findings:?}"
        );
        store.diagnose(&Limits::default()).await.unwrap();
    }
}

/// What others' transactions would meet in a session that was ours.
#[tokio::test]
async fn nothing_but_spent_statements_is_left_in_the_servers_sessions() {
    let world = behind("polyshop", "").await;
    let store = world.relay(Settings::default());
    for number in 0..20 {
        world.emit(world.event(Some("k"), number)).await;
        let claim = store.claim(ALL).await.unwrap().expect("one record");
        claim.settle(&[Fate::Published]).await.unwrap();
    }
    let left = "SELECT name || ' = ' || setting FROM pg_settings WHERE source = 'session' \
         AND name NOT IN ('application_name', 'search_path', 'client_encoding', 'DateStyle', 'TimeZone')";
    for _ in 0..20 {
        let rows = sqlx::raw_sql(left)
            .fetch_all(&world.database.pool)
            .await
            .unwrap();
        let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// For those whom nobody can recognise; and for a direct connection it is only slower.
#[tokio::test]
async fn a_url_can_say_that_there_is_a_pooler() {
    let world = world("polyshop", "").await;
    let url = format!("{}&statement-cache-capacity=0", world.database.url);
    let pool = connect(&url, 2).unwrap();
    let store = PostgresStore::new(pool.clone(), Options::new(world.layout.clone()));
    for number in 0..3 {
        world.emit(world.event(Some("k"), number)).await;
        let claim = store.claim(ALL).await.unwrap().expect("one record");
        claim.settle(&[Fate::Published]).await.unwrap();
    }
    let kept = sqlx::raw_sql("SELECT count(*)::text FROM pg_prepared_statements")
        .fetch_one(&pool)
        .await
        .unwrap();
    let kept: usize = kept.get::<String, _>(0).parse().unwrap();
    assert!(kept < 5, "{kept} statements, those of the last transaction");
}

/// The pool of a service that the driver made, and that has run statements before.
#[tokio::test]
async fn a_pooler_is_found_behind_anybodys_pool() {
    let world = behind("polyshop", "").await;
    let options: PgConnectOptions = world.database.pooler.url().parse().unwrap();
    let options = options.extra_float_digits(None);
    let pool = PgPoolOptions::new()
        .max_connections(2)
        .connect_lazy_with(options);
    let mut busy = pool.begin().await.unwrap();
    sqlx::query("SELECT 2").execute(&mut *busy).await.unwrap();
    busy.rollback().await.unwrap();
    let store = PostgresStore::new(pool, Options::new(world.layout.clone()));
    for number in 0..20 {
        world.emit(world.event(Some("k"), number)).await;
        let claim = store.claim(ALL).await.unwrap().expect("one record");
        claim.settle(&[Fate::Published]).await.unwrap();
    }
}

#[tokio::test]
async fn a_url_that_the_pooler_refuses_is_an_error_that_says_what_to_do() {
    let behind = Behind::new().await;
    let url = format!("{}?options=-csearch_path%3Dx", behind.pooler.url());
    let store = PostgresStore::new(
        connect(&url, 1).unwrap(),
        Options::new(layout("polyshop", "")),
    );
    let refused = store.ping().await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Unavailable { .. }),
        "{refused:?}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("options") && text.contains("ALTER ROLE"),
        "{text}"
    );
}

#[tokio::test]
async fn a_statement_that_is_mixed_up_all_the_same_is_an_error_that_says_what_to_do() {
    let world = world("polyshop", "").await;
    let pool = connect(&world.database.url, 1).unwrap();
    let store = PostgresStore::new(pool.clone(), Options::new(world.layout.clone()));
    store.backlog().await.unwrap();
    sqlx::raw_sql("DEALLOCATE ALL")
        .execute(&pool)
        .await
        .unwrap();
    let refused = store.backlog().await.unwrap_err().to_string();
    assert!(refused.contains("statement-cache-capacity=0"), "{refused}");
}
