//! What holds the backlog up right now, as far as the database knows.

use postrider_core::{Finding, Level, Limits, Records as _, StoreError};

use super::PostgresStore;

/// Parked keys that a diagnosis names.
const PARKED_MAX: u32 = 5;

pub(super) async fn findings(
    store: &PostgresStore,
    _limits: &Limits,
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
    findings.sort_by_key(|finding| finding.level);
    Ok(findings)
}
