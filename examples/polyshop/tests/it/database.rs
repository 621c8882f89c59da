//! A database of the test's own, and a service's schema in it.

use example_polyshop::init::within;
use postrider_testkit::services::services;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, Row as _};

/// Dropped with this value.
pub(crate) struct FreshDatabase {
    name: String,
    pub(crate) url: String,
}

impl FreshDatabase {
    pub(crate) async fn create() -> Self {
        let name = format!("polyshop_{}", uuid::Uuid::now_v7().simple());
        administer(&format!("CREATE DATABASE {name}")).await;
        let server = services().postgres_url.rsplit_once('/').unwrap().0;
        let url = format!("{server}/{name}");
        Self { name, url }
    }
}

impl Drop for FreshDatabase {
    fn drop(&mut self) {
        let drop_it = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        // A destructor cannot wait, and the test's runtime may be ending: a thread with its own can.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(administer(&drop_it));
        });
        if dropping.join().is_err() {
            eprintln!("database {} was not dropped", self.name);
        }
    }
}

async fn administer(sql: &str) {
    let connection = PgConnection::connect(&services().postgres_url).await;
    let mut connection = connection.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    connection.close().await.unwrap();
}

/// A service's schema, first on the search path.
pub(crate) struct Schema {
    pub(crate) pool: PgPool,
    pub(crate) url: String,
    pub(crate) name: String,
}

impl Schema {
    pub(crate) fn new(database: &FreshDatabase, name: String) -> Self {
        let url = within(&database.url, &name);
        let pool = PgPoolOptions::new().max_connections(2).connect_lazy(&url);
        let pool = pool.unwrap();
        Self { pool, url, name }
    }

    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The first column of every row, as text.
    pub(crate) async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&self.pool);
        let rows = rows.await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        // Simple queries answer in text, whatever the type.
        rows.iter()
            .map(|row| row.try_get_unchecked(0).unwrap())
            .collect()
    }

    /// The first column of the only row.
    pub(crate) async fn text(&self, sql: &str) -> String {
        let [text] = &self.texts(sql).await[..] else {
            panic!("{sql} has not one row")
        };
        text.clone()
    }

    /// Rows of a table, or of any `FROM …` clause's rest.
    pub(crate) async fn count(&self, from: &str) -> i64 {
        let count = self.text(&format!("SELECT count(*) FROM {from}")).await;
        count.parse().unwrap()
    }
}
