//! Compares a layout with the real table, and looks for what loses or reorders events. What is an error
//! here is what makes claims refuse to start.

mod advice;
mod hot;

pub(super) use advice::claim_index_missing;
pub(super) use hot::share as hot_share;
use postrider_core::{Finding, Level, StoreError};

use super::error::store_error;
use super::tx::{OPERATOR_MAX, Tx, bounded};
use super::{Inner, shape};
use crate::sql::dialect::POSTGRES;
use crate::structure;

/// Everything there is to say, the worst first.
pub(super) async fn findings(inner: &Inner) -> Result<Vec<Finding>, StoreError> {
    let failed = store_error("check the table", &inner.name());
    let begun = Tx::begin(&inner.pool, bounded(OPERATOR_MAX).into()).await;
    let (mut tx, _) = begun.map_err(&failed)?;
    let table = shape::read(&mut tx, &inner.options.layout.table)
        .await
        .map_err(&failed)?;
    tx.commit().await.map_err(&failed)?;
    let mut findings = structure::findings(&inner.options, &POSTGRES, table.as_ref());
    let broken = findings.iter().any(|finding| finding.level == Level::Error);
    if let Some(table) = table.filter(|_| !broken) {
        findings.extend(advice::findings(inner, &table).await.map_err(&failed)?);
        findings.extend(hot::findings(inner, &table).await.map_err(&failed)?);
    }
    findings.extend(advice::settings(&inner.pool).await.map_err(&failed)?);
    findings.sort_by_key(|finding| finding.level);
    Ok(findings)
}
