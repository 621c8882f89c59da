//! What holds the backlog up right now, as far as the file knows: keys that a record parks, and claims whose time is over
//! and that nobody took over.

use postrider_core::{Finding, Level, Limits, Records as _, StoreError, Timestamp};
use sqlx::{AssertSqlSafe, Row as _};

use super::error::store_error;
use super::outbox::Ready;
use super::{Inner, SqliteStore, claims};
use crate::sql::dialect::SQLITE;
use crate::structure;

/// Parked keys that a diagnosis names.
const PARKED_MAX: u32 = 5;
/// Records without an id that are counted.
const COUNTED_MAX: u32 = 1000;

pub(super) async fn findings(
    store: &SqliteStore,
    limits: &Limits,
) -> Result<Vec<Finding>, StoreError> {
    let parked = store.parked(PARKED_MAX).await?;
    let mut findings: Vec<Finding> = parked
        .into_iter()
        .map(|key| {
            let message = format!(
                "record {} is {} and holds up {} later records of this key: {}",
                key.first.id,
                key.first.state.as_str(),
                key.behind,
                key.first.error.unwrap_or_default()
            );
            Finding::new(Level::Warning, format!("key {}", key.key), message)
        })
        .collect();
    findings.extend(without_id(&store.inner, &*store.inner.ready().await?).await?);
    if !limits.relay_runs {
        findings.extend(left_claims(store).await?);
    }
    findings.sort_by_key(|finding| finding.level);
    Ok(findings)
}

/// Records that no claim takes, because they have no id.
pub(super) async fn without_id(
    inner: &Inner,
    ready: &Ready,
) -> Result<Option<Finding>, StoreError> {
    let layout = &inner.options.layout;
    if !ready.table.is_nullable(&layout.columns.id) {
        return Ok(None);
    }
    let failed = store_error("look for records without an id", &inner.name());
    let question = inner
        .options
        .writer(&ready.table, &SQLITE)
        .null_ids(COUNTED_MAX);
    let mut connection = inner.database.reader().await.map_err(&failed)?;
    let asked = sqlx::query_scalar(AssertSqlSafe(question)).fetch_one(&mut *connection);
    let count: i64 = asked.await.map_err(&failed)?;
    Ok(structure::without_id(
        layout,
        &SQLITE,
        &ready.table,
        count,
        COUNTED_MAX,
    ))
}

/// A claim that is over and still written down: a relay that runs would have ended it.
async fn left_claims(store: &SqliteStore) -> Result<Option<Finding>, StoreError> {
    let inner = &*store.inner;
    let failed = store_error("look for claims", claims::CLAIMS);
    let ready = inner.ready().await?;
    let text = format!(
        "SELECT count(*) FROM {} WHERE outbox = $1 AND until < $2",
        claims::table(&inner.options.layout.table).quoted()
    );
    let mut connection = inner.database.reader().await.map_err(&failed)?;
    let row = sqlx::query(AssertSqlSafe(text))
        .bind(&ready.table.full_name)
        .bind(Timestamp::now().as_micros())
        .fetch_one(&mut *connection)
        .await
        .map_err(&failed)?;
    let left: i64 = row.try_get(0).map_err(&failed)?;
    Ok((left > 0).then(|| {
        let message = format!("{left} claims have run out and no relay has taken them over");
        Finding::new(Level::Warning, claims::CLAIMS, message)
            .remedy("start a relay on this file: `postrider relay`")
    }))
}
