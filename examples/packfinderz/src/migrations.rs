//! The tables, as numbered migrations in goose's format: each is applied or taken back in a transaction of its own, which
//! also records it in `schema_migrations`. Nothing else creates or changes a table.

use postrider::stores::postgres::{PgConnection, PgPool};
use sqlx::AssertSqlSafe;

use crate::catalogue::{AggregateType, EventType};

const UP: &str = "-- +goose Up\n";
const DOWN: &str = "-- +goose Down\n";

/// Of two that migrate a schema at once, the second waits. An index may take hours to build.
const BEGIN: &str = "SET LOCAL statement_timeout = '24h'; \
     SELECT pg_advisory_xact_lock(hashtext('packfinderz migrations of ' || current_schema())); \
     CREATE TABLE IF NOT EXISTS schema_migrations ( \
       version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";

/// One step of the schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Migration {
    pub version: i32,
    pub name: &'static str,
    source: &'static str,
}

macro_rules! migration {
    ($version:literal, $name:literal, $file:literal) => {
        Migration {
            version: $version,
            name: $name,
            source: include_str!(concat!("../migrations/", $file)),
        }
    };
}

/// What every database has, in this order.
pub static MIGRATIONS: [Migration; 4] = [
    migration!(1, "outbox_events", "00001_outbox_events.sql"),
    migration!(2, "licenses", "00002_licenses.sql"),
    migration!(3, "notifications", "00003_notifications.sql"),
    migration!(4, "postrider_audit", "00004_postrider_audit.sql"),
];

/// What is applied only when asked for by name.
pub static CLAIM_INDEX: Migration =
    migration!(1001, "claim_index", "optional/01001_claim_index.sql");

/// Why a migration was not applied or taken back. Its transaction left nothing behind.
#[derive(Debug, thiserror::Error)]
#[error("migration {name}")]
pub struct MigrationError {
    name: &'static str,
    #[source]
    error: sqlx::Error,
}

impl Migration {
    /// The statements that apply it.
    pub fn up(&self) -> String {
        let (_, sections) = self.source.split_once(UP).unwrap_or_default();
        let (up, _) = sections.split_once(DOWN).unwrap_or_default();
        up.replace("${EVENT_TYPES}", &labels(EventType::ALL, EventType::label))
            .replace(
                "${AGGREGATE_TYPES}",
                &labels(AggregateType::ALL, AggregateType::label),
            )
    }

    /// The statements that take it back.
    pub fn down(&self) -> &'static str {
        let (_, down) = self.source.split_once(DOWN).unwrap_or_default();
        down
    }

    /// Whether it was not applied before.
    pub async fn apply(&self, pool: &PgPool) -> Result<bool, MigrationError> {
        self.unless_recorded(pool)
            .await
            .map_err(|error| MigrationError {
                name: self.name,
                error,
            })
    }

    async fn unless_recorded(&self, pool: &PgPool) -> Result<bool, sqlx::Error> {
        let mut tx = pool.begin().await?;
        run(&mut tx, BEGIN.to_owned()).await?;
        let record =
            "INSERT INTO schema_migrations (version, name) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let recorded = sqlx::query(record).bind(self.version).bind(self.name);
        if recorded.execute(&mut *tx).await?.rows_affected() == 0 {
            return Ok(false);
        }
        run(&mut tx, self.up()).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Whether it was applied before.
    async fn take_back(&self, pool: &PgPool) -> Result<bool, sqlx::Error> {
        let mut tx = pool.begin().await?;
        run(&mut tx, BEGIN.to_owned()).await?;
        let forget = sqlx::query("DELETE FROM schema_migrations WHERE version = $1");
        if forget
            .bind(self.version)
            .execute(&mut *tx)
            .await?
            .rows_affected()
            == 0
        {
            return Ok(false);
        }
        run(&mut tx, self.down().to_owned()).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// Applies what is missing, and gives it. The claim index is left out.
pub async fn up(pool: &PgPool) -> Result<Vec<&'static Migration>, MigrationError> {
    let mut applied = Vec::new();
    for migration in &MIGRATIONS {
        if migration.apply(pool).await? {
            applied.push(migration);
        }
    }
    Ok(applied)
}

/// Takes the latest one back, and gives it.
pub async fn down(pool: &PgPool) -> Result<Option<&'static Migration>, MigrationError> {
    for migration in known().rev() {
        let taken_back = migration.take_back(pool).await;
        let name = migration.name;
        if taken_back.map_err(|error| MigrationError { name, error })? {
            return Ok(Some(migration));
        }
    }
    Ok(None)
}

/// Every migration, and since when it is applied.
pub async fn status(
    pool: &PgPool,
) -> Result<Vec<(&'static Migration, Option<String>)>, sqlx::Error> {
    let mut tx = pool.begin().await?;
    run(&mut tx, BEGIN.to_owned()).await?;
    let applied = sqlx::query_as("SELECT version, applied_at::text FROM schema_migrations");
    let applied: Vec<(i32, String)> = applied.fetch_all(&mut *tx).await?;
    // Nothing is left behind by a look.
    tx.rollback().await?;
    let since = |of: &Migration| {
        let found = applied.iter().find(|(version, _)| *version == of.version);
        found.map(|(_, at)| at.clone())
    };
    Ok(known()
        .map(|migration| (migration, since(migration)))
        .collect())
}

fn known() -> impl DoubleEndedIterator<Item = &'static Migration> {
    MIGRATIONS.iter().chain(std::iter::once(&CLAIM_INDEX))
}

async fn run(connection: &mut PgConnection, sql: String) -> Result<(), sqlx::Error> {
    // The texts are our own, and so are the labels in them.
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(())
}

fn labels<T: Copy>(all: &[T], label: fn(T) -> &'static str) -> String {
    let quoted: Vec<String> = all.iter().map(|one| format!("'{}'", label(*one))).collect();
    quoted.join(", ")
}
