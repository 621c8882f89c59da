//! The servers of a run: one Postgres and one Kafka of our own, which end with us, and a fresh database and topic for
//! every measurement.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use postrider::stores::postgres::{self, PgPool};
use postrider_testkit::services::{Kind, PrivateServer};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use tokio::sync::Mutex;

use crate::{usage, workload};

pub(crate) const PARTITIONS: i32 = 4;
const DATABASE: &str = "bench";
const HEAP: &str = "512m";
/// Of the harness itself in the database of a subject. Its tables are in a schema of its own and do not count.
pub(crate) const CONNECTIONS: u32 = 12;
pub(crate) const OWN_SCHEMA: &str = "harness";

pub(crate) struct Lab {
    /// All that a run leaves on the disk.
    pub(crate) dir: PathBuf,
    postgres: PrivateServer,
    kafka: Mutex<PrivateServer>,
    kafka_address: String,
    admin: PgPool,
}

impl Lab {
    pub(crate) async fn start(dir: &Path) -> anyhow::Result<Self> {
        let servers = dir.join("servers");
        std::fs::create_dir_all(&servers)?;
        let (postgres, kafka) = tokio::join!(
            PrivateServer::start_in(&servers, Kind::Postgres, &[]),
            PrivateServer::start_in(&servers, Kind::Kafka, &[("POSTRIDER_KAFKA_HEAP", HEAP)]),
        );
        let admin = postgres::connect(&url(&postgres, "postgres"), 2)?;
        Ok(Self {
            dir: dir.to_owned(),
            kafka_address: kafka.address(),
            postgres,
            kafka: Mutex::new(kafka),
            admin,
        })
    }

    pub(crate) fn kafka(&self) -> &str {
        &self.kafka_address
    }

    /// What the report says about the servers.
    pub(crate) async fn settings(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut settings = Vec::new();
        for name in [
            "server_version",
            "wal_level",
            "shared_buffers",
            "max_wal_size",
            "fsync",
            "synchronous_commit",
            "autovacuum",
        ] {
            let value = sqlx::query_scalar("SELECT current_setting($1)").bind(name);
            let value: String = value.fetch_one(&self.admin).await?;
            let value = value.split(' ').next().unwrap_or_default().to_owned();
            settings.push((format!("postgres {name}"), value));
        }
        settings.push(("kafka version".into(), kafka_version()?));
        settings.push(("kafka heap".into(), HEAP.into()));
        settings.push(("kafka partitions".into(), PARTITIONS.to_string()));
        Ok(settings)
    }

    /// A new and empty database; that of the measurement before goes.
    pub(crate) async fn fresh_database(&self) -> anyhow::Result<Database> {
        self.drop_database().await?;
        workload::execute(&self.admin, &format!("CREATE DATABASE {DATABASE}")).await?;
        let url = url(&self.postgres, DATABASE);
        let pool = postgres::connect(&url, CONNECTIONS)?;
        workload::execute(&pool, &format!("CREATE SCHEMA {OWN_SCHEMA}")).await?;
        Ok(Database { url, pool })
    }

    /// Slots go first: they keep their database, and the log of the whole server.
    pub(crate) async fn drop_database(&self) -> anyhow::Result<()> {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        let slots = "SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots \
                     WHERE database = $1 AND NOT active";
        let left = "SELECT count(*) FROM pg_replication_slots WHERE database = $1";
        for _ in 0..50 {
            sqlx::query(end).bind(DATABASE).execute(&self.admin).await?;
            sqlx::query(slots)
                .bind(DATABASE)
                .execute(&self.admin)
                .await?;
            let left: i64 = sqlx::query_scalar(left)
                .bind(DATABASE)
                .fetch_one(&self.admin)
                .await?;
            if left == 0 {
                let drop = format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)");
                return workload::execute(&self.admin, &drop).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("a replication slot of the last measurement is still in use")
    }

    pub(crate) async fn create_topic(&self, name: &str) -> anyhow::Result<()> {
        let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(1))
            // So the log itself says when a message arrived, and nobody has to read along.
            .set("message.timestamp.type", "LogAppendTime");
        for result in self
            .kafka_admin()?
            .create_topics([&topic], &AdminOptions::new())
            .await?
        {
            result.map_err(|(topic, code)| anyhow::anyhow!("topic {topic}: {code}"))?;
        }
        Ok(())
    }

    pub(crate) async fn delete_topic(&self, name: &str) -> anyhow::Result<()> {
        self.kafka_admin()?
            .delete_topics(&[name], &AdminOptions::new())
            .await?;
        Ok(())
    }

    fn kafka_admin(&self) -> anyhow::Result<AdminClient<DefaultClientContext>> {
        Ok(ClientConfig::new()
            .set("bootstrap.servers", &self.kafka_address)
            .create()?)
    }

    pub(crate) async fn stop_kafka(&self) {
        self.kafka.lock().await.kill();
    }

    pub(crate) async fn start_kafka(&self) {
        self.kafka.lock().await.restart().await;
    }

    /// A measurement that was cut short may have left it stopped.
    pub(crate) async fn revive(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.postgres.is_alive(), "Postgres has ended");
        if !self.kafka.lock().await.is_alive() {
            self.start_kafka().await;
        }
        Ok(())
    }

    pub(crate) fn postgres_cpu_secs(&self) -> f64 {
        usage::cpu_secs(&self.postgres.pids())
    }

    pub(crate) async fn kafka_cpu_secs(&self) -> f64 {
        usage::cpu_secs(&self.kafka.lock().await.pids())
    }
}

fn url(server: &PrivateServer, database: &str) -> String {
    format!("postgres://postgres@{}/{database}", server.address())
}

/// As the build file that fetches it says.
fn kafka_version() -> anyhow::Result<String> {
    let file = super::root().join("scripts/kafka/pom.xml");
    let text = std::fs::read_to_string(&file)?;
    let version = text.split_once("<kafka.version>");
    let (_, version) = version.context("no version in Kafka's pom.xml")?;
    Ok(version.split('<').next().unwrap_or_default().to_owned())
}

/// The database of one measurement.
pub(crate) struct Database {
    pub(crate) url: String,
    pub(crate) pool: PgPool,
}

/// What the tables of a subject went through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableState {
    pub(crate) name: String,
    /// Dead rows that are there now.
    pub(crate) dead: i64,
    /// Rows that were updated or deleted, whether vacuumed since or not.
    pub(crate) died: i64,
}

impl Database {
    pub(crate) async fn wal_bytes(&self) -> anyhow::Result<f64> {
        let sql = "SELECT (pg_current_wal_lsn() - '0/0')::float8";
        Ok(sqlx::query_scalar(sql).fetch_one(&self.pool).await?)
    }

    /// Backends report what they did when they end, or now and then.
    pub(crate) async fn tables(&self) -> anyhow::Result<Vec<TableState>> {
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                      AND backend_type IN ('client backend', 'walsender') \
                      AND pid <> pg_backend_pid() AND state <> 'idle'";
        for _ in 0..30 {
            let others: i64 = sqlx::query_scalar(others).fetch_one(&self.pool).await?;
            if others == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Those of the relay that are about to end.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let sql = "SELECT relname::text, n_dead_tup, n_tup_upd + n_tup_del FROM pg_stat_user_tables \
                   WHERE schemaname <> $1 ORDER BY relname";
        let rows: Vec<(String, i64, i64)> = sqlx::query_as(sql)
            .bind(OWN_SCHEMA)
            .fetch_all(&self.pool)
            .await?;
        let states = rows
            .into_iter()
            .map(|(name, dead, died)| TableState { name, dead, died });
        Ok(states.collect())
    }
}
