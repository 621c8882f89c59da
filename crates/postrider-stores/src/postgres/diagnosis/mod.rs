//! What holds the backlog up right now, as far as the database knows. Nothing is changed and nothing is locked; a look
//! that takes longer than [`PATIENCE_SECS`] is given up and said to be.

mod held;
mod query_text;
mod records;
mod sessions;
mod table;

use postrider_core::{Finding, Level, Limits, OutboxStore as _, StoreError, Timestamp};
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::check::{claim_index_missing, hot_share};
use super::error::{code, store_error};
use super::tx::Tx;
use super::{Inner, PostgresStore};
use held::Held;
pub(in crate::postgres) use records::without_id;

const PATIENCE_SECS: u32 = 5;
/// Clocks that differ by more make ages and histories hard to read.
const SKEW_MICROS_MAX: i64 = 5_000_000;

pub(super) async fn findings(
    store: &PostgresStore,
    limits: &Limits,
) -> Result<Vec<Finding>, StoreError> {
    let inner = &*store.inner;
    let failed = store_error("look for what holds the backlog up", &inner.name());
    let locked = is_locked(inner).await.map_err(&failed)?;
    let held = match locked {
        true => Vec::new(),
        false => held::records(inner, &*inner.ready().await?)
            .await
            .map_err(&failed)?,
    };
    let mut findings = around(inner, &held).await.map_err(&failed)?;
    if locked {
        findings.push(locked_table(inner));
    } else {
        let ready = inner.ready().await?;
        findings.extend(records::without_id(inner, &ready).await?);
        if !limits.relay_runs {
            let backlog = store.backlog().await?;
            let missing = sessions::relay_missing(inner, &backlog).await;
            findings.extend(missing.map_err(&failed)?);
        }
        findings.extend(records::parked(store).await?);
        findings.extend(records::oversized(inner, &ready, limits).await?);
        let index = claim_index_missing(inner, &ready.table).await;
        findings.extend(index.map_err(&failed)?);
        let share = hot_share(inner, &ready.table).await;
        findings.extend(share.map_err(&failed)?);
    }
    findings.sort_by_key(|finding| finding.level);
    Ok(findings)
}

/// What can be seen without touching the table.
async fn around(inner: &Inner, held: &[Held]) -> Result<Vec<Finding>, sqlx::Error> {
    let table = inner.options.layout.table.quoted();
    let mut tx = patient(inner).await?;
    let mut findings = sessions::findings(&mut tx, inner, held).await?;
    findings.extend(table::findings(&mut tx, &table).await?);
    findings.extend(clock_skew(&mut tx).await?);
    tx.rollback().await?;
    Ok(findings)
}

/// A transaction whose statements are given up after [`PATIENCE_SECS`].
async fn patient(inner: &Inner) -> Result<Tx, sqlx::Error> {
    let begin = format!("BEGIN READ ONLY; SET LOCAL statement_timeout = '{PATIENCE_SECS}s'");
    let (tx, _) = Tx::begin(&inner.pool, begin.into()).await?;
    Ok(tx)
}

/// Whether the table is locked so that nobody can read it.
async fn is_locked(inner: &Inner) -> Result<bool, sqlx::Error> {
    let mut tx = patient(inner).await?;
    let table = inner.options.layout.table.quoted();
    let lock = format!("LOCK TABLE {table} IN ACCESS SHARE MODE NOWAIT");
    let lock = sqlx::query(AssertSqlSafe(lock)).execute(tx.connection());
    let locked = lock
        .await
        .is_err_and(|error| code(&error).as_deref() == Some("55P03"));
    tx.rollback().await?;
    Ok(locked)
}

fn locked_table(inner: &Inner) -> Finding {
    let message =
        "somebody has locked the table: it can be neither read nor written until they are done";
    let remedy =
        "the session that holds the lock is named beside this, once it has had it for a minute";
    Finding::new(Level::Error, inner.name(), message).remedy(remedy)
}

async fn clock_skew(connection: &mut PgConnection) -> Result<Option<Finding>, sqlx::Error> {
    let before = Timestamp::now().as_micros();
    let row = sqlx::query("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8")
        .fetch_one(connection)
        .await?;
    let after = Timestamp::now().as_micros();
    let database: i64 = row.try_get(0)?;
    Ok(skew(before, database, after))
}

/// By how much the database's time lies outside of the time that the question took.
fn skew(before: i64, database: i64, after: i64) -> Option<Finding> {
    let off = (before - database).max(database - after);
    if off <= SKEW_MICROS_MAX {
        return None;
    }
    let which = if database < before {
        "behind"
    } else {
        "ahead of"
    };
    let message = format!(
        "the database's clock is {} s {which} this host's: ages and times that the two write do not agree. Retry times \
         are the database's own and stay right",
        off / 1_000_000
    );
    let remedy = "set both by NTP (`chronyc tracking` or `timedatectl` shows which is off)";
    Some(Finding::new(Level::Warning, "clock", message).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_question_cannot_explain_is_skew() {
        let second = 1_000_000;
        assert_eq!(skew(0, 20 * second, 30 * second), None, "a slow answer");
        assert_eq!(skew(0, 5 * second, 0), None);
        let ahead = skew(0, 6 * second, 0).unwrap();
        assert!(ahead.message.contains("6 s ahead"), "{}", ahead.message);
        let behind = skew(60 * second, 0, 61 * second).unwrap();
        assert!(behind.message.contains("60 s behind"), "{}", behind.message);
    }
}
