//! The two queries of Talkie's operations document, letter by letter.

use std::io::Write;

use postrider::stores::postgres::PgPool;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

/// The document's text. Each statement ends with a semicolon.
pub const SQL: &str = include_str!("operational.sql");

pub fn queries() -> impl Iterator<Item = &'static str> {
    SQL.split_inclusive(';')
        .map(str::trim)
        .filter(|query| !query.is_empty())
}

/// Runs both and prints what they find.
pub async fn print(pool: &PgPool, out: &mut impl Write) -> anyhow::Result<()> {
    for query in queries() {
        writeln!(out, "{query}\n")?;
        // Simple queries answer in text, whatever the type.
        let rows = sqlx::raw_sql(query).fetch_all(pool).await?;
        for row in &rows {
            writeln!(out, "  {}", line(row)?)?;
        }
        writeln!(out, "  ({} rows)\n", rows.len())?;
    }
    Ok(())
}

fn line(row: &PgRow) -> Result<String, sqlx::Error> {
    let mut line = String::new();
    for column in [
        "id",
        "key",
        "status",
        "retry_count",
        "next_attempt_at",
        "last_error",
    ] {
        let value: Option<String> = row.try_get_unchecked(column)?;
        line += &format!("{column}={} ", value.as_deref().unwrap_or("-"));
    }
    Ok(line)
}
