//! Records that hold others up, or can never be published.

use postrider_core::{Finding, Level, Limits, RecordState, Records as _, StoreError, text};
use sqlx::{AssertSqlSafe, Row as _};

use super::{PATIENCE_SECS, patient};
use crate::postgres::error::{code, store_error};
use crate::postgres::outbox::{Ready, writer};
use crate::postgres::{Inner, PostgresStore};
use crate::sql::dialect::POSTGRES;
use crate::structure;

/// Parked keys that are named.
const NAMED_MAX: usize = 5;
/// Parked keys that are counted.
const COUNTED_MAX: u32 = 1000;
const ERROR_BYTES_MAX: usize = 200;

pub(super) async fn parked(store: &PostgresStore) -> Result<Vec<Finding>, StoreError> {
    let parked = store.parked(COUNTED_MAX).await?;
    let more = parked.len().saturating_sub(NAMED_MAX);
    let mut findings: Vec<Finding> = parked
        .into_iter()
        .take(NAMED_MAX)
        .map(|key| {
            let first = &key.first;
            let error = first.error.as_deref().unwrap_or("no error is kept");
            let message = format!(
                "record {} is {} (attempts: {}, records behind it: {}): {}",
                first.id,
                first.state.as_str(),
                first.attempts,
                key.behind,
                text::bounded(error, ERROR_BYTES_MAX)
            );
            let remedy = match first.state {
                RecordState::Dead => format!(
                    "mend the cause, then `postrider dead resend --id {0}`; or give it up by `postrider dead discard --id {0}`",
                    first.id
                ),
                _ => "it is tried again by itself; mend the cause".into(),
            };
            let level = match first.state {
                RecordState::Dead => Level::Error,
                _ => Level::Warning,
            };
            Finding::new(level, format!("key {}", text::bounded(&key.key, 100)), message).remedy(remedy)
        })
        .collect();
    if more > 0 {
        let message = format!("{more} more keys are held up, each by an earlier record of its own");
        let remedy = "`postrider dead list` shows the dead ones";
        findings.push(Finding::new(Level::Warning, "keys", message).remedy(remedy));
    }
    Ok(findings)
}

/// Records that no claim takes, because they have no id. Looks no further than the statement's time allows.
pub(in crate::postgres) async fn without_id(
    inner: &Inner,
    ready: &Ready,
) -> Result<Option<Finding>, StoreError> {
    let layout = &inner.options.layout;
    if !ready.table.is_nullable(&layout.columns.id) {
        return Ok(None);
    }
    let failed = store_error("look for records without an id", &inner.name());
    let mut tx = patient(inner).await.map_err(&failed)?;
    let question = writer(&inner.options, &ready.table).null_ids(COUNTED_MAX);
    let asked = sqlx::query_scalar(AssertSqlSafe(question)).persistent(false);
    let found = asked.fetch_one(tx.connection()).await;
    let finding = match found {
        Err(error) if code(&error).as_deref() == Some("57014") => {
            let message =
                format!("whether a record has no id could not be said within {PATIENCE_SECS} s");
            Some(Finding::new(
                Level::Note,
                layout.columns.id.as_str(),
                message,
            ))
        }
        found => {
            let count: i64 = found.map_err(&failed)?;
            structure::without_id(layout, &POSTGRES, &ready.table, count, COUNTED_MAX)
        }
    };
    tx.rollback().await.map_err(&failed)?;
    Ok(finding)
}

/// Records that the broker will refuse. Looks at every payload that is to be published, so it may take too long.
pub(super) async fn oversized(
    inner: &Inner,
    ready: &Ready,
    limits: &Limits,
) -> Result<Option<Finding>, StoreError> {
    let Some(bytes_max) = limits.payload_bytes_max else {
        return Ok(None);
    };
    let failed = store_error("look for large records", &inner.name());
    let mut tx = patient(inner).await.map_err(&failed)?;
    let question = writer(&inner.options, &ready.table).oversized();
    let mut asked = sqlx::query(AssertSqlSafe(question)).persistent(false);
    asked = asked.bind(i64::try_from(bytes_max).unwrap_or(i64::MAX));
    if inner.options.layout.needs_troubles() {
        asked = asked.bind(ready.table.full_name.clone());
    }
    let found = asked.fetch_optional(tx.connection()).await;
    let found = match found {
        Err(error) if code(&error).as_deref() == Some("57014") => {
            let message = format!(
                "whether a record is over the broker's limit could not be said within {PATIENCE_SECS} s"
            );
            tx.rollback().await.map_err(&failed)?;
            return Ok(Some(Finding::new(Level::Note, "payloads", message)));
        }
        found => found.map_err(&failed)?,
    };
    tx.rollback().await.map_err(&failed)?;
    let Some(row) = found else { return Ok(None) };
    let id: String = row.try_get(0).map_err(&failed)?;
    let count: i64 = row.try_get(1).map_err(&failed)?;
    let message = format!(
        "{count} records have a payload over the broker's {bytes_max} bytes and will be refused; the first is {id}"
    );
    let remedy = "raise the limit of the broker and of the topic (docs/brokers.md), or make the events smaller; what died \
                  of it is resent by `postrider dead resend --error limit`";
    Ok(Some(
        Finding::new(Level::Error, "payloads", message).remedy(remedy),
    ))
}
