//! A layout's table in a database of its own, and rows put into it as any client could.

use std::collections::BTreeMap;
use std::sync::Arc;

use postrider::core::{Layout, OutboxStore};
use postrider::stores::postgres::{self, PostgresStore};
use postrider::stores::sqlite::{self, SqliteStore};
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::sqlite::{SqliteFile, fresh_file};
use sqlx::postgres::PgRow;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _};

use super::values::{Column, Kind, Value};

/// A row's values by the names of their columns. What is not there has its default.
pub(super) type Row = BTreeMap<String, Value>;

/// A row that the database took.
#[derive(Debug)]
pub(super) struct Stored {
    /// None where it has none that could be read.
    pub(super) id: Option<String>,
    /// Whether it is to be published, by its own state.
    pub(super) pending: bool,
}

pub(super) enum Base {
    Postgres(Database),
    Sqlite(SqliteFile),
}

impl Base {
    pub(super) async fn postgres(layout: &Layout) -> Self {
        let database = fresh_schema().await;
        init(&database, layout).await;
        Self::Postgres(database)
    }

    pub(super) async fn sqlite(layout: &Layout) -> Self {
        let file = fresh_file();
        let connected = sqlite::connect(&file.url, 1).unwrap();
        let options = sqlite::InitOptions { claim_index: true };
        sqlite::init(&connected, layout, &options).await.unwrap();
        Self::Sqlite(file)
    }

    /// Lets every column be NULL, the id too, which stays unique: as tables are that `init` did not make.
    pub(super) async fn allow_null(&self, layout: &Layout) {
        let Self::Postgres(database) = self else {
            panic!("SQLite alters no columns");
        };
        let (table, id) = (layout.table.quoted(), layout.columns.id.quoted());
        let name = layout.table.name.as_str();
        database
            .execute(&format!(
                "ALTER TABLE {table} DROP CONSTRAINT {name}_pkey; CREATE UNIQUE INDEX ON {table} ({id})"
            ))
            .await;
        for column in self.columns(layout).await {
            let name = &column.name;
            database
                .execute(&format!(
                    "ALTER TABLE {table} ALTER \"{name}\" DROP NOT NULL"
                ))
                .await;
        }
    }

    /// Changes the table, as those are that `init` did not make, and makes what the layout needs
    /// beside it.
    pub(super) async fn alter(&self, layout: &Layout, statements: &str) {
        let Self::Postgres(database) = self else {
            panic!("SQLite alters no columns");
        };
        // An index of an expression keeps the type of what it reads.
        let indexes = format!(
            "SELECT indexrelid::regclass::text FROM pg_index \
             WHERE indrelid = to_regclass('{}') AND NOT indisunique",
            layout.table.quoted()
        );
        for index in database.texts(&indexes).await.into_iter().flatten() {
            database.execute(&format!("DROP INDEX {index}")).await;
        }
        database.execute(statements).await;
        init(database, layout).await;
    }

    pub(super) fn store(&self, layout: &Layout) -> Arc<dyn OutboxStore> {
        match self {
            Self::Postgres(database) => {
                let pool = postgres::connect(&database.url, 8).unwrap();
                let options = postgres::Options::new(layout.clone());
                Arc::new(PostgresStore::new(pool, options))
            }
            Self::Sqlite(file) => {
                let connected = sqlite::connect(&file.url, 4).unwrap();
                let options = sqlite::Options::new(layout.clone());
                Arc::new(SqliteStore::new(connected, options))
            }
        }
    }

    /// This moment, as an expression.
    pub(super) fn now(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "now()",
            Self::Sqlite(_) => "(unixepoch('subsec') * 1000000)",
        }
    }

    /// Rows of a `FROM …` clause's rest.
    pub(super) async fn count(&self, from: &str) -> i64 {
        match self {
            Self::Postgres(database) => database.count(from).await,
            Self::Sqlite(file) => file.count(from).await,
        }
    }

    /// The table's columns, as the database itself describes them.
    pub(super) async fn columns(&self, layout: &Layout) -> Vec<Column> {
        let name = layout.table.name.as_str();
        match self {
            Self::Postgres(database) => {
                let sql = "SELECT attname::text, format_type(atttypid, atttypmod), NOT attnotnull \
                    FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 \
                    AND NOT attisdropped AND attgenerated = '' ORDER BY attnum";
                let rows = sqlx::query(sql)
                    .bind(name)
                    .fetch_all(&database.pool)
                    .await
                    .unwrap();
                rows.iter().map(postgres_column).collect()
            }
            Self::Sqlite(file) => {
                let sql =
                    "SELECT name, type, \"notnull\", pk FROM pragma_table_info($1) ORDER BY cid";
                let rows = sqlx::query(sql)
                    .bind(name)
                    .fetch_all(&file.pool)
                    .await
                    .unwrap();
                rows.iter().map(sqlite_column).collect()
            }
        }
    }

    /// Inserts rows that have the same columns, in their order and in one transaction.
    pub(super) async fn insert(&self, layout: &Layout, columns: &[Column], rows: &[Row]) {
        let table = layout.table.quoted();
        let names: Vec<&String> = rows[0].keys().collect();
        match self {
            Self::Postgres(database) => {
                let lists = (1..=names.len()).map(|n| format!("${n}::text[]"));
                let values = names
                    .iter()
                    .enumerate()
                    .map(|(n, name)| format!("v.c{n}::{}", sql_type(columns, name)));
                let aliases = (0..names.len()).map(|n| format!("c{n}"));
                let sql = format!(
                    "INSERT INTO {table} ({}) SELECT {} FROM unnest({}) WITH ORDINALITY AS v({}, n) ORDER BY v.n",
                    quoted(&names),
                    join(values),
                    join(lists),
                    join(aliases)
                );
                let mut query = sqlx::query(AssertSqlSafe(sql));
                for name in names {
                    let column: Vec<_> = rows.iter().map(|row| as_text(&row[name])).collect();
                    query = query.bind(column);
                }
                query.execute(&database.pool).await.unwrap();
            }
            Self::Sqlite(file) => {
                let mut tx = file.pool.begin().await.unwrap();
                let sql = sqlite_insert(&table, &rows[0]);
                for row in rows {
                    let query = bound(sqlx::query(AssertSqlSafe(sql.clone())), row);
                    query.execute(&mut *tx).await.unwrap();
                }
                tx.commit().await.unwrap();
            }
        }
    }

    /// Inserts one row, or says why the database does not take it. `pending` is a condition on the table's columns.
    pub(super) async fn try_insert(
        &self,
        layout: &Layout,
        columns: &[Column],
        row: &Row,
        pending: &str,
    ) -> Result<Stored, String> {
        let (table, id) = (layout.table.quoted(), layout.columns.id.quoted());
        // Bytes are no id in SQLite.
        let id_text = match self {
            Self::Postgres(_) => format!("CAST({id} AS text)"),
            Self::Sqlite(_) => {
                format!("CASE typeof({id}) WHEN 'blob' THEN NULL ELSE CAST({id} AS text) END")
            }
        };
        let returning = format!("RETURNING {id_text}, coalesce({pending}, false)");
        let (id, pending): (Option<Vec<u8>>, bool) = match self {
            Self::Postgres(database) => {
                let names: Vec<&String> = row.keys().collect();
                let values = (1..)
                    .zip(&names)
                    .map(|(n, name)| format!("${n}::text::{}", sql_type(columns, name)));
                let sql = format!(
                    "INSERT INTO {table} ({}) VALUES ({}) {returning}",
                    quoted(&names),
                    join(values)
                );
                let mut query = sqlx::query(AssertSqlSafe(sql));
                for value in row.values() {
                    query = query.bind(as_text(value));
                }
                let stored = query.fetch_one(&database.pool).await;
                let stored = stored.map_err(|error| error.to_string())?;
                let id: Option<String> = stored.get(0);
                (id.map(String::into_bytes), stored.get(1))
            }
            Self::Sqlite(file) => {
                let sql = format!("{} {returning}", sqlite_insert(&table, row));
                let query = bound(sqlx::query(AssertSqlSafe(sql)), row);
                let stored = query.fetch_one(&file.pool).await;
                let stored = stored.map_err(|error| error.to_string())?;
                let pending: i64 = stored.try_get_unchecked(1).unwrap();
                (stored.try_get_unchecked(0).unwrap(), pending != 0)
            }
        };
        let id = id.and_then(|id| String::from_utf8(id).ok());
        Ok(Stored { id, pending })
    }
}

async fn init(database: &Database, layout: &Layout) {
    let options = postgres::InitOptions {
        claim_index: true,
        notify: false,
    };
    let made = postgres::init(&database.pool, layout, &options).await;
    made.unwrap();
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn quoted(names: &[&String]) -> String {
    join(names.iter().map(|name| format!("\"{name}\"")))
}

fn sql_type<'a>(columns: &'a [Column], name: &str) -> &'a str {
    let column = columns.iter().find(|column| column.name == name);
    &column
        .unwrap_or_else(|| panic!("the table has no column {name}"))
        .sql_type
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Text(text) => Some(text.clone()),
        Value::Int(int) => Some(int.to_string()),
        Value::Real(real) => Some(real.to_string()),
        Value::Bytes(bytes) | Value::RawText(bytes) => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let mut text = Vec::with_capacity(2 + 2 * bytes.len());
            text.extend(b"\\x");
            for byte in bytes {
                text.extend([byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)]));
            }
            String::from_utf8(text).ok()
        }
    }
}

fn sqlite_insert(table: &str, row: &Row) -> String {
    let names: Vec<&String> = row.keys().collect();
    let values = row.values().map(|value| match value {
        Value::RawText(_) => "CAST(? AS TEXT)".to_owned(),
        _ => "?".to_owned(),
    });
    format!(
        "INSERT INTO {table} ({}) VALUES ({})",
        quoted(&names),
        join(values)
    )
}

type SqliteQuery<'q> = sqlx::query::Query<'q, sqlx::Sqlite, SqliteArguments>;

fn bound<'q>(query: SqliteQuery<'q>, row: &Row) -> SqliteQuery<'q> {
    row.values()
        .fold(query, |query, value| match value.clone() {
            Value::Null => query.bind(None::<String>),
            Value::Text(text) => query.bind(text),
            Value::Bytes(bytes) | Value::RawText(bytes) => query.bind(bytes),
            Value::Int(int) => query.bind(int),
            Value::Real(real) => query.bind(real),
        })
}

fn postgres_column(row: &PgRow) -> Column {
    let (name, sql_type): (String, String) = (row.get(0), row.get(1));
    let length = sql_type.strip_prefix("character varying(");
    let kind = match sql_type.as_str() {
        "text" if name == "status" => Kind::Status,
        "text" => Kind::Text(None),
        "json" => Kind::Json,
        "jsonb" => Kind::Jsonb,
        "uuid" => Kind::Uuid,
        "integer" => Kind::Int,
        "bigint" => Kind::BigInt,
        "double precision" | "numeric" => Kind::Number,
        "timestamp with time zone" => Kind::Time,
        "boolean" => Kind::Bool,
        "bytea" => Kind::Bytes,
        _ => match length.and_then(|length| length.trim_end_matches(')').parse().ok()) {
            Some(max) => Kind::Text(Some(max)),
            None => Kind::Closed,
        },
    };
    Column {
        name,
        sql_type,
        kind,
        nullable: row.get(2),
        lax: false,
    }
}

fn sqlite_column(row: &SqliteRow) -> Column {
    let (name, sql_type): (String, String) = (row.get(0), row.get(1));
    let kind = match sql_type.to_ascii_lowercase().as_str() {
        "integer" if row.get::<i64, _>(3) > 0 => Kind::RowId,
        "text" if name == "status" => Kind::Status,
        "json text" => Kind::Json,
        "uuid text" => Kind::Uuid,
        "integer" => Kind::Int,
        "timestamp integer" => Kind::Time,
        "boolean" => Kind::Bool,
        "blob" => Kind::Bytes,
        _ => Kind::Text(None),
    };
    Column {
        name,
        sql_type,
        kind,
        nullable: row.get::<i64, _>(2) == 0,
        lax: true,
    }
}
