//! What works, but not as well as it could.

use postrider_core::layout::{Identifier, State};
use postrider_core::{Finding, Level, OnDead, Ordering};
use sqlx::Row as _;

use crate::postgres::outbox::writer;
use crate::postgres::pool::Pool;
use crate::postgres::{Inner, shape};
use crate::sql::statement::{Writer, claim_index, troubled_index};
use crate::sql::table::Table;

pub(super) async fn findings(inner: &Inner, table: &Table) -> Result<Vec<Finding>, sqlx::Error> {
    let options = &inner.options;
    let writer = writer(options, table);
    let mut findings = Vec::new();
    findings.extend(claim_index_missing(inner, table).await?);
    findings.extend(blocked_keys(inner, table, &writer).await?);
    findings.extend(order_columns(inner, table));
    findings.extend(nullable_state(inner, table));
    Ok(findings)
}

pub(crate) async fn claim_index_missing(
    inner: &Inner,
    table: &Table,
) -> Result<Option<Finding>, sqlx::Error> {
    let writer = writer(&inner.options, table);
    // An append-only outbox comes with its indexes.
    let appends = matches!(inner.options.layout.state, State::Append { .. });
    if appends || shape::has_claim_index(&inner.pool, &writer).await? {
        return Ok(None);
    }
    let message = format!(
        "no index on {} holds the pending records in order: every claim sorts the whole backlog",
        table.full_name
    );
    let create = claim_index(&writer).create("CONCURRENTLY", &table.full_name);
    Ok(Some(
        Finding::new(Level::Warning, &table.full_name, message).remedy(create),
    ))
}

/// With order per key every claim looks up which keys are blocked.
async fn blocked_keys(
    inner: &Inner,
    table: &Table,
    writer: &Writer<'_>,
) -> Result<Option<Finding>, sqlx::Error> {
    let layout = &inner.options.layout;
    let (Some(attempts), Some(index)) = (&layout.columns.attempts, troubled_index(writer)) else {
        return Ok(None);
    };
    let looked_up = match layout.state {
        State::Timestamp { .. } => inner.options.on_dead == OnDead::Park,
        _ => true,
    };
    if layout.ordering == Ordering::None || !looked_up {
        return Ok(None);
    }
    let exists = sqlx::query(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_index AS i WHERE i.indrelid = to_regclass($1) AND i.indisvalid \
         AND strpos(pg_get_expr(i.indpred, i.indrelid), quote_ident($2)) > 0)",
    )
    .bind(layout.table.quoted())
    .bind(attempts.as_str());
    if inner.pool.fetch_one(exists).await?.try_get(0)? {
        return Ok(None);
    }
    let message = format!(
        "no index on {} finds the keys that failed records block",
        table.full_name
    );
    let create = index.create("CONCURRENTLY", &table.full_name);
    Ok(Some(
        Finding::new(Level::Warning, &table.full_name, message).remedy(create),
    ))
}

fn order_columns(inner: &Inner, table: &Table) -> Vec<Finding> {
    let layout = &inner.options.layout;
    let streams = matches!(layout.state, State::Append { .. });
    if layout.ordering == Ordering::None && !streams {
        return Vec::new();
    }
    layout
        .order
        .iter()
        .filter_map(|name| order_column(inner, table, name))
        .collect()
}

/// Order per key needs a value that is drawn at the insert, under the key's lock.
fn order_column(inner: &Inner, table: &Table, name: &Identifier) -> Option<Finding> {
    let column = table.column(name)?;
    let default = column.default.as_deref().unwrap_or_default().to_lowercase();
    let transaction_time = ["now()", "current_timestamp", "transaction_timestamp()"];
    if transaction_time.iter().any(|now| default.contains(now)) {
        let message = format!(
            "column {name} defaults to {default}, the time at which the transaction began: of two transactions on \
             one key, the one that changes it last may sort first"
        );
        let remedy = format!(
            "emit through Postrider, which writes clock_timestamp(), or ALTER TABLE {} ALTER COLUMN {} SET DEFAULT \
             clock_timestamp()",
            table.full_name,
            name.quoted()
        );
        return Some(Finding::new(Level::Warning, name.as_str(), message).remedy(remedy));
    }
    column.sequence_cached.then(|| {
        let draws = format!(
            "column {name} draws from a sequence with CACHE over 1: sessions take numbers in advance"
        );
        let (level, message) = match inner.options.layout.state {
            // A stream takes it that a position is drawn after its transaction has a number.
            State::Append { .. } => (Level::Error, format!("{draws}, and such records are passed over")),
            _ => (Level::Warning, format!("{draws}, so a later record may sort first")),
        };
        Finding::new(level, name.as_str(), message).remedy("ALTER SEQUENCE … CACHE 1")
    })
}

fn nullable_state(inner: &Inner, table: &Table) -> Option<Finding> {
    let State::Status { column, .. } = &inner.options.layout.state else {
        return None;
    };
    table.is_nullable(column).then(|| {
        let message = format!("column {column} may be NULL, and such records are never published");
        let remedy = format!(
            "ALTER TABLE {} ALTER COLUMN {} SET NOT NULL",
            table.full_name,
            column.quoted()
        );
        Finding::new(Level::Warning, column.as_str(), message).remedy(remedy)
    })
}

/// Settings with which a committed event can be lost.
pub(super) async fn settings(pool: &Pool) -> Result<Vec<Finding>, sqlx::Error> {
    let off = sqlx::query(
        "SELECT name FROM pg_catalog.pg_settings \
         WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off' ORDER BY name",
    );
    let off = pool.fetch_all(off).await?;
    let off = off.iter().map(|row| row.try_get(0));
    let off = off.collect::<Result<Vec<String>, _>>()?;
    let finding = |name: String| {
        let message = format!("{name} is off: a crash of the server can lose committed events");
        let remedy = format!("ALTER SYSTEM SET {name} = on");
        Finding::new(Level::Warning, name, message).remedy(remedy)
    };
    Ok(off.into_iter().map(finding).collect())
}
