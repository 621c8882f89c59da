//! The table itself: dead rows that nobody cleans up, and indexes that are of no use.

use postrider_core::{Finding, Level};
use sqlx::{PgConnection, Row as _};

/// Fewer dead rows than these do not slow a claim down.
const DEAD_ROWS_MIN: i64 = 10_000;

pub(super) async fn findings(
    connection: &mut PgConnection,
    table: &str,
) -> Result<Vec<Finding>, sqlx::Error> {
    let mut findings = bloat(&mut *connection, table).await?;
    findings.extend(invalid_indexes(connection, table).await?);
    Ok(findings)
}

async fn bloat(connection: &mut PgConnection, table: &str) -> Result<Vec<Finding>, sqlx::Error> {
    let row = sqlx::query(
        "SELECT coalesce(s.n_dead_tup, 0), coalesce(s.n_live_tup, 0), s.last_autovacuum::text, s.last_vacuum::text, \
         current_setting('autovacuum')::bool, \
         coalesce(lower(substring(array_to_string(c.reloptions, ',') FROM 'autovacuum_enabled=([^,]*)')) \
           IN ('false', 'off', '0', 'no'), false) \
         FROM pg_catalog.pg_class AS c LEFT JOIN pg_catalog.pg_stat_user_tables AS s ON s.relid = c.oid \
         WHERE c.oid = to_regclass($1)",
    )
    .bind(table)
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else {
        return Ok(Vec::new());
    };
    let (dead, live): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (auto, manual): (Option<String>, Option<String>) = (row.try_get(2)?, row.try_get(3)?);
    let (server_on, table_off): (bool, bool) = (row.try_get(4)?, row.try_get(5)?);
    let mut findings = Vec::new();
    if !server_on || table_off {
        let (whose, remedy) = if table_off {
            let remedy = format!("ALTER TABLE {table} RESET (autovacuum_enabled)");
            ("for this table", remedy)
        } else {
            (
                "for the whole server",
                "ALTER SYSTEM SET autovacuum = on".to_owned(),
            )
        };
        let message = format!(
            "autovacuum is off {whose}: dead rows pile up with every record, and claims get slower"
        );
        findings.push(Finding::new(Level::Warning, "autovacuum", message).remedy(remedy));
    }
    if dead > DEAD_ROWS_MIN && dead > live {
        let ever = |time: Option<String>| time.unwrap_or_else(|| "never".into());
        let message = format!(
            "{dead} dead rows beside {live} live ones; last autovacuum {}, last vacuum {}",
            ever(auto),
            ever(manual)
        );
        let remedy = format!(
            "VACUUM {table}; where that does not help, a long transaction holds them (see above), and where it happens \
             again, ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.01)"
        );
        findings.push(Finding::new(Level::Warning, table, message).remedy(remedy));
    }
    Ok(findings)
}

async fn invalid_indexes(
    connection: &mut PgConnection,
    table: &str,
) -> Result<Vec<Finding>, sqlx::Error> {
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_index AS i \
         JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace \
         WHERE i.indrelid = to_regclass($1) AND NOT i.indisvalid ORDER BY 1",
    )
    .bind(table)
    .fetch_all(connection)
    .await?;
    let finding = |name: String| {
        let message = "is invalid: it costs every write and serves no claim. It is being built right now, or building it failed";
        let remedy = format!("if nobody is building it: REINDEX INDEX CONCURRENTLY {name}");
        Finding::new(Level::Warning, format!("index {name}"), message).remedy(remedy)
    };
    Ok(names.into_iter().map(finding).collect())
}
