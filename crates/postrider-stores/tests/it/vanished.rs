//! Clients that vanish in the middle of a statement. Their sessions must not keep lanes for as long as it takes.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::{OutboxStore as _, Share, StoreError, Want};
use postrider_stores::postgres::{Options, PgPool, PostgresStore, connect};
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::pooler::Pooler;
use postrider_testkit::{eventually, eventually_within};
use sqlx::Row as _;
use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::world::{World, world};

/// Far less than what the statements of these tests take.
const SECONDS: Duration = Duration::from_secs(40);

const ALL: Want = Want {
    limit: 5_000,
    bytes: usize::MAX,
    share: Share::ALL,
};

/// A way to the database that can be cut, and on which answers can stop being read.
struct Way {
    url: String,
    carrying: tokio::task::JoinHandle<()>,
}

impl Way {
    /// Reads no more than `answers_max` bytes of a connection's answers, and leaves the others to whoever sends them.
    async fn to(url: &str, answers_max: usize) -> Self {
        let server: PgConnectOptions = url.parse().unwrap();
        let server = (server.get_host().to_owned(), server.get_port());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let address = format!("{}:{}", server.0, server.1);
        let carrying = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server.clone()).await.unwrap();
                open.spawn(carry(client, server, answers_max));
            }
        });
        Self {
            url: url.replace(&address, &here.to_string()),
            carrying,
        }
    }

    /// As the end of the process at its other end would.
    async fn cut(self) {
        self.carrying.abort();
        drop(self.carrying.await);
    }
}

async fn carry(client: TcpStream, server: TcpStream, answers_max: usize) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let questions = tokio::io::copy(&mut from_client, &mut to_server);
    let answers = async {
        let mut left = answers_max;
        let mut buffer = vec![0; 16 * 1024];
        while left > 0 {
            let Ok(count @ 1..) = from_server.read(&mut buffer).await else {
                return;
            };
            if to_client.write_all(&buffer[..count]).await.is_err() {
                return;
            }
            left = left.saturating_sub(count);
        }
        std::future::pending::<()>().await;
    };
    tokio::select! { _ = questions => {} () = answers => {} }
}

/// An outbox of which every claim takes ten minutes.
async fn slow() -> World {
    let world = world("talkie", "ordering = 'key'").await;
    world.emit(world.event(Some("k"), 1)).await;
    let table = world.layout.table.quoted();
    let slow = format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'; \
         CREATE TRIGGER slow BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION slow()"
    );
    world.database.execute(&slow).await;
    world
}

async fn lanes(world: &World) -> i64 {
    let table = world.layout.table.quoted();
    let class =
        format!("hashtext('postrider ' || '{table}'::regclass::oid::text)::int8 & 4294967295");
    let locks = format!("pg_locks WHERE locktype = 'advisory' AND classid::int8 = ({class})");
    world.database.count(&locks).await
}

/// A claim that has begun, on connections of its own.
async fn claiming(world: &World, url: &str) -> tokio::task::JoinHandle<Result<(), StoreError>> {
    let options = Options::new(world.layout.clone());
    let store = Arc::new(PostgresStore::new(connect(url, 2).unwrap(), options));
    let claiming = tokio::spawn(async move { store.claim(ALL).await.map(drop) });
    eventually("the claim has its lanes", async || {
        match lanes(world).await {
            0 => Err("none"),
            _ => Ok(()),
        }
    })
    .await;
    claiming
}

async fn are_soon_free(world: &World) {
    eventually_within(SECONDS, "the lanes are free", async || {
        match lanes(world).await {
            0 => Ok(()),
            lanes => Err(lanes),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_killed_in_mid_statement_frees_its_lanes() {
    let world = slow().await;
    let way = Way::to(&world.database.url, usize::MAX).await;
    let claiming = claiming(&world, &way.url).await;
    way.cut().await;
    are_soon_free(&world).await;
    claiming.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn so_does_one_that_is_killed_behind_a_pooler() {
    let world = slow().await;
    let pooler = Pooler::before(&world.database).await;
    let way = Way::to(&pooler.url(), usize::MAX).await;
    let claiming = claiming(&world, &way.url).await;
    way.cut().await;
    are_soon_free(&world).await;
    claiming.abort();
}

/// The server has more to send than anybody takes: no timeout of a statement or of an idle session ends that.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answers_nobody_reads_frees_its_lanes() {
    let world = world("polyshop", "ordering = 'key'").await;
    let table = world.layout.table.quoted();
    let insert = format!(
        "INSERT INTO {table} (id, aggregate_id, event_type, version, payload, created_at) \
         SELECT gen_random_uuid(), n::text, 't', 1, to_json(repeat('x', 20000)), now() \
         FROM generate_series(1, 3000) AS n"
    );
    world.database.execute(&insert).await;
    let way = Way::to(&world.database.url, 200_000).await;
    let claiming = claiming(&world, &way.url).await;
    let stuck =
        "pg_stat_activity WHERE wait_event = 'ClientWrite' AND query LIKE '%outbox_events%'";
    eventually("the server waits for its client", async || {
        match world.database.count(stuck).await {
            0 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;
    are_soon_free(&world).await;
    claiming.abort();
}

async fn settings(pool: &PgPool, names: &str) -> Vec<String> {
    let sql = format!("SELECT setting FROM pg_settings WHERE name IN ({names}) ORDER BY name");
    let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .fetch_all(pool)
        .await
        .unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_session_has_limits_where_nobody_has_set_others() {
    let database: Database = fresh_schema().await;
    let names = "'statement_timeout', 'client_connection_check_interval', 'tcp_user_timeout'";
    let pool = connect(&database.url, 1).unwrap();
    assert_eq!(settings(&pool, names).await, ["1000", "300000", "15000"]);
    let url = format!(
        "{}%20-cstatement_timeout%3D7s%20-ctcp_user_timeout%3D0",
        database.url
    );
    let pool = connect(&url, 1).unwrap();
    assert_eq!(settings(&pool, names).await, ["1000", "7000", "0"]);
}

/// Claims would wait behind it, whatever their own limits are.
#[tokio::test]
async fn a_table_that_is_locked_is_not_waited_for_for_ever() {
    let world = world("polyshop", "").await;
    let mut lock = world.database.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE outbox_events")
        .execute(&mut *lock)
        .await
        .unwrap();
    let store = world.store();
    let refused = tokio::time::timeout(SECONDS, store.backlog()).await;
    let refused = refused.expect("an answer");
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
}
