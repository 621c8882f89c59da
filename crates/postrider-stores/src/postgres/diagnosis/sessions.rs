//! Other sessions: the relay's, those that hold locks or the horizon, and how many more the server takes.

use postrider_core::operate::OVERDUE;
use postrider_core::{Backlog, Finding, Level};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::held::{Held, RELAYS};
use super::query_text::without_literals;
use crate::postgres::Inner;
use crate::postgres::connect::relay_name;

/// Sessions that are named.
const NAMED_MAX: i64 = 5;

pub(super) async fn findings(
    connection: &mut PgConnection,
    inner: &Inner,
    held: &[Held],
) -> Result<Vec<Finding>, sqlx::Error> {
    let mut findings = long_transactions(&mut *connection, inner, held).await?;
    findings.extend(held.iter().filter_map(Held::prepared));
    findings.extend(connections(connection).await?);
    Ok(findings)
}

/// Relays name their sessions. One behind a pooler, or with a name of its own in its URL, is not seen.
pub(super) async fn relay_missing(
    inner: &Inner,
    backlog: &Backlog,
) -> Result<Option<Finding>, sqlx::Error> {
    let name = relay_name(&inner.options.name);
    let seen = sqlx::query(
        "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database() AND application_name = $1",
    )
    .bind(&name);
    let seen: i64 = inner.pool.fetch_one(seen).await?.try_get(0)?;
    if seen > 0 {
        return Ok(None);
    }
    let overdue = backlog.oldest_age.is_some_and(|age| age > OVERDUE);
    let level = match backlog.pending {
        0 => Level::Note,
        _ if overdue => Level::Error,
        _ => Level::Warning,
    };
    let message = format!(
        "no relay is connected: no session of this database is called `{name}` ({} records wait). One that goes through \
         a pooler, or whose URL sets application_name, would not be seen",
        backlog.pending
    );
    let remedy = "start `postrider relay`, or look into its log why it stopped";
    Ok(Some(Finding::new(level, "relay", message).remedy(remedy)))
}

/// Transactions that are open for longer than [`OVERDUE`] and hold a lock on the outbox, hold somebody up, or keep dead
/// rows of every table from being cleaned up; and those of a few seconds that hold records ($5) or claims up. A claim that
/// waits has a lock on the outbox itself, or asks for one. A role that may not see when another's transaction began sees who holds what.
const LONG: &str = "
WITH waits AS MATERIALIZED (
  SELECT pg_blocking_pids(w.pid) AS by, w.here
  FROM (SELECT l.pid, bool_or(l.relation = to_regclass($1)) AS here
    FROM pg_catalog.pg_locks AS l GROUP BY l.pid HAVING NOT bool_and(l.granted)) AS w)
SELECT a.pid, extract(epoch FROM clock_timestamp() - a.xact_start)::int8, coalesce(a.state, 'in a state that this role may not see'),
  coalesce(a.usename::text, '?'), coalesce(a.application_name, ''), coalesce(host(a.client_addr), 'local'),
  coalesce(a.query, ''), l.mode, (SELECT count(*) FROM waits AS w WHERE a.pid = ANY(w.by)),
  a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL
FROM pg_catalog.pg_stat_activity AS a
LEFT JOIN LATERAL (
  SELECT l.mode FROM pg_catalog.pg_locks AS l
  WHERE l.pid = a.pid AND l.granted AND l.locktype = 'relation' AND l.relation = to_regclass($1)
    AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
  ORDER BY array_position(ARRAY['AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock',
    'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'], l.mode) DESC LIMIT 1) AS l ON true
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND coalesce(a.backend_type, 'client backend') = 'client backend'
  AND (a.xact_start < clock_timestamp() - $3 * interval '1 second'
      AND (l.mode IS NOT NULL OR a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL
        OR EXISTS (SELECT FROM waits AS w WHERE a.pid = ANY(w.by)))
    OR coalesce(a.xact_start < clock_timestamp() - least($3, $6) * interval '1 second', true)
      AND (a.pid = ANY($5) OR a.pid NOT IN (RELAYS) AND EXISTS (SELECT FROM waits AS w WHERE w.here AND a.pid = ANY(w.by))))
ORDER BY a.pid = ANY($5) DESC, l.mode IS NULL, a.xact_start LIMIT $4";

/// How long a record may be held before who holds it is named: whoever changes it by hand does it in less.
const HELD_SECS: f64 = 3.0;

async fn long_transactions(
    connection: &mut PgConnection,
    inner: &Inner,
    held: &[Held],
) -> Result<Vec<Finding>, sqlx::Error> {
    let pids: Vec<i32> = held.iter().filter_map(|held| held.pid).collect();
    let rows = sqlx::query(AssertSqlSafe(LONG.replace("RELAYS", RELAYS)))
        .bind(inner.options.layout.table.quoted())
        .bind(relay_name(&inner.options.name))
        .bind(inner.options.overdue.as_secs_f64())
        .bind(NAMED_MAX)
        .bind(pids)
        .bind(HELD_SECS)
        .fetch_all(connection)
        .await?;
    let overdue = i64::try_from(inner.options.overdue.as_secs()).unwrap_or(i64::MAX);
    let finding = |row: &PgRow| long_transaction(row, held, overdue);
    rows.iter().map(finding).collect()
}

fn long_transaction(row: &PgRow, held: &[Held], overdue: i64) -> Result<Finding, sqlx::Error> {
    let pid: i32 = row.try_get(0)?;
    let age: Option<i64> = row.try_get(1)?;
    let (state, user): (String, String) = (row.try_get(2)?, row.try_get(3)?);
    let (application, client): (String, String) = (row.try_get(4)?, row.try_get(5)?);
    let query: String = row.try_get(6)?;
    let mode: Option<String> = row.try_get(7)?;
    let (blocks, horizon): (i64, bool) = (row.try_get(8)?, row.try_get(9)?);
    let records = held.iter().find(|held| held.pid == Some(pid));
    let mut holds: Vec<String> = records.map(Held::said).into_iter().collect();
    if blocks > 0 {
        holds.push(format!("makes {blocks} sessions wait"));
    }
    if let Some(mode) = &mode {
        holds.push(format!("holds {mode} on the outbox"));
    }
    if horizon {
        holds.push("keeps dead rows from being cleaned up".into());
    }
    let since = age.map_or("is open".to_owned(), |age| {
        format!("has been open for {age} s")
    });
    let message = format!(
        "a transaction of {user} ({application}, {client}) {since}, is {state}, and {}: {}",
        holds.join(", "),
        without_literals(&query)
    );
    let stops_all = matches!(
        mode.as_deref(),
        Some("AccessExclusiveLock" | "ExclusiveLock" | "ShareRowExclusiveLock" | "ShareLock")
    );
    // A record that could be claimed meanwhile would have been.
    let stalls = records.is_some() && age.is_some_and(|age| age >= overdue);
    let level = if blocks > 0 || stops_all || stalls {
        Level::Error
    } else {
        Level::Warning
    };
    let remedy = format!(
        "end it where it was begun, or SELECT pg_terminate_backend({pid}); idle_in_transaction_session_timeout keeps \
         forgotten ones short"
    );
    Ok(Finding::new(level, format!("session {pid}"), message).remedy(remedy))
}

async fn connections(connection: &mut PgConnection) -> Result<Option<Finding>, sqlx::Error> {
    let row = sqlx::query(
        "SELECT (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'), \
         current_setting('max_connections')::int8 - current_setting('superuser_reserved_connections')::int8",
    )
    .fetch_one(connection)
    .await?;
    Ok(connections_left(row.try_get(0)?, row.try_get(1)?))
}

fn connections_left(used: i64, max: i64) -> Option<Finding> {
    if used * 20 < max * 19 {
        return None;
    }
    let message =
        format!("{used} of {max} connections are taken: relays and services will soon be refused");
    let remedy = "find who holds them (SELECT application_name, state, count(*) FROM pg_stat_activity GROUP BY 1, 2), use a \
                  pooler, or raise max_connections";
    Some(Finding::new(Level::Warning, "connections", message).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_short_from_nineteen_of_twenty_on() {
        assert_eq!(connections_left(94, 100), None);
        assert!(connections_left(95, 100).is_some());
        assert!(connections_left(100, 97).is_some());
    }
}
