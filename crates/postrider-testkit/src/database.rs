//! A fresh schema in the shared Postgres per test, so that tests run in parallel. It is first on the search
//! path of every connection, so unqualified names of tables are the test's own.

use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Row as _};
use uuid::Uuid;

use crate::services::services;

const CONNECTIONS_MAX: u32 = 16;

/// A schema that is dropped with this value.
#[derive(Debug)]
pub struct Database {
    pub pool: PgPool,
    /// For programs and pools of the test's own: it names the schema too.
    pub url: String,
    pub schema: String,
}

/// Makes a new, empty schema.
pub async fn fresh_schema() -> Database {
    let base = &services().postgres_url;
    let schema = format!("test_{}", Uuid::now_v7().simple());
    execute(base, &format!("CREATE SCHEMA {schema}"))
        .await
        .expect("Postgres makes a schema");
    let joint = if base.contains('?') { '&' } else { '?' };
    let url = format!("{base}{joint}options=-csearch_path%3D{schema}");
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .connect_lazy(&url)
        .expect("is a URL");
    Database { pool, url, schema }
}

impl Database {
    /// Runs statements, any number of them.
    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The first column of the first row, as a number.
    pub async fn number(&self, sql: &str) -> i64 {
        let text = self.text(&format!("SELECT ({sql})::int8")).await;
        text.and_then(|text| text.parse().ok())
            .unwrap_or_else(|| panic!("{sql} is not a number"))
    }

    /// Rows of a table, or of any `FROM …` clause's rest.
    pub async fn count(&self, from: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {from}")).await
    }

    /// The first column of the first row, as text; `None` for NULL or no row.
    pub async fn text(&self, sql: &str) -> Option<String> {
        self.texts(sql).await.into_iter().next().flatten()
    }

    /// The first column of every row, as text.
    pub async fn texts(&self, sql: &str) -> Vec<Option<String>> {
        let rows = sqlx::raw_sql(AssertSqlSafe(sql))
            .fetch_all(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        // Simple queries answer in text, whatever the type.
        rows.iter()
            .map(|row| row.try_get_unchecked(0).expect("has a column"))
            .collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop_schema = format!(
            "SET lock_timeout = '2s'; DROP SCHEMA {} CASCADE",
            self.schema
        );
        // A destructor cannot wait, and the test's runtime may be ending: a thread with its own can.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let result = runtime
                .expect("a runtime")
                .block_on(execute(&services().postgres_url, &drop_schema));
            if let Err(error) = result {
                eprintln!("{drop_schema}: {error}");
            }
        });
        if dropping.join().is_err() {
            eprintln!("schema {} was not dropped", self.schema);
        }
    }
}

async fn execute(url: &str, sql: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await?;
    connection.close().await
}
