//! Compares a layout with the real table, and looks for what loses or reorders events. What is an error
//! here is what makes claims refuse to start.

mod advice;
mod structure;

pub(super) use advice::claim_index_missing;
use postrider_core::{Finding, Level, StoreError};

use super::error::store_error;
use super::{Inner, Options, shape};
use crate::sql::table::Table;

/// Everything there is to say, the worst first.
pub(super) async fn findings(inner: &Inner) -> Result<Vec<Finding>, StoreError> {
    let failed = store_error("check the table", &inner.name());
    let mut connection = inner.pool.acquire().await.map_err(&failed)?;
    let table = shape::read(&mut connection, &inner.options.layout.table)
        .await
        .map_err(&failed)?;
    drop(connection);
    let mut findings = structure::findings(&inner.options, table.as_ref());
    let broken = findings.iter().any(|finding| finding.level == Level::Error);
    if let Some(table) = table.filter(|_| !broken) {
        findings.extend(advice::findings(inner, &table).await.map_err(&failed)?);
    }
    findings.extend(advice::settings(&inner.pool).await.map_err(&failed)?);
    findings.sort_by_key(|finding| finding.level);
    Ok(findings)
}

/// The table if the layout fits it, else why not.
pub(super) fn fitting(options: &Options, table: Option<Table>) -> Result<Table, StoreError> {
    let errors: Vec<String> = structure::findings(options, table.as_ref())
        .into_iter()
        .filter(|finding| finding.level == Level::Error)
        .map(|finding| match finding.remedy {
            Some(remedy) => format!("{}; {remedy}", finding.message),
            None => finding.message,
        })
        .collect();
    match table {
        Some(table) if errors.is_empty() => Ok(table),
        _ => Err(StoreError::Mismatch(errors.join("\n"))),
    }
}
