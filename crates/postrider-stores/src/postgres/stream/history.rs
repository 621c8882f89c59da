//! Whether saved progress and the database belong together. Progress names transactions, and another database has other
//! transactions by the same numbers: to go on would skip records without a word.

use postrider_core::StoreError;

use super::Stream;
use super::open::Here;
use super::progress::{self, Progress};
use crate::postgres::Inner;

const REMEDY: &str = "nothing is lost, and nothing is published until `postrider stream re-anchor` has been run for this outbox";

/// A promoted standby or a restored backup of files has the same identifier: records and progress then come from one
/// moment of one history, and go on together.
pub(super) fn check(inner: &Inner, progress: &Progress, here: &Here) -> Result<(), StoreError> {
    let name = inner.name();
    match (&progress.system, &here.system) {
        (Some(saved), Some(here)) if saved != here => Err(StoreError::Mismatch(format!(
            "outbox {name} was read in another database, with system identifier {saved}, and this one has {here}: it was \
             restored from a dump or copied; {REMEDY}"
        ))),
        _ if progress.is_ahead => Err(StoreError::Mismatch(format!(
            "outbox {name} was read up to transactions that this database has not had yet: it was restored from a dump \
             or copied; {REMEDY}"
        ))),
        _ => Ok(()),
    }
}

/// The same for all groups, outside of a claim.
pub(super) async fn check_standing(inner: &Inner, stream: &Stream) -> Result<(), StoreError> {
    let (here, standing) = progress::standing(inner, stream).await?;
    standing
        .iter()
        .try_for_each(|progress| check(inner, progress, &here))
}
