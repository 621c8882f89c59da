//! A fresh SQLite file per test, in a folder of its own that is removed with it.

use std::path::PathBuf;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _, SqlitePool};
use uuid::Uuid;

/// A file that is not there until somebody makes it.
#[derive(Debug)]
pub struct SqliteFile {
    /// Connections of the test's own, which make the file.
    pub pool: SqlitePool,
    pub url: String,
    pub path: PathBuf,
    folder: PathBuf,
}

/// Names a new file in a new folder.
pub fn fresh_file() -> SqliteFile {
    let folder = std::env::temp_dir().join(format!("postrider-{}", Uuid::now_v7().simple()));
    std::fs::create_dir(&folder).expect("a folder can be made");
    let path = folder.join("test.db");
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .disable_statement_logging();
    SqliteFile {
        pool: SqlitePoolOptions::new()
            .max_connections(4)
            .connect_lazy_with(options),
        url: format!("sqlite:{}", path.display()),
        path,
        folder,
    }
}

impl SqliteFile {
    /// Runs statements, any number of them.
    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&self.pool)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
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
        let text = |row: &sqlx::sqlite::SqliteRow| -> Option<String> {
            let bytes: Option<Vec<u8>> = row.try_get_unchecked(0).expect("has a column");
            bytes.map(|bytes| String::from_utf8(bytes).expect("is UTF-8"))
        };
        rows.iter().map(text).collect()
    }

    /// Rows of a table, or of any `FROM …` clause's rest.
    pub async fn count(&self, from: &str) -> i64 {
        let count = self.text(&format!("SELECT count(*) FROM {from}")).await;
        count.and_then(|count| count.parse().ok()).expect("a count")
    }
}

impl Drop for SqliteFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

/// Runs a statement on a connection.
pub async fn run(connection: &mut sqlx::SqliteConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}
