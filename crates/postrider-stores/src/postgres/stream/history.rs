//! Whether saved progress and the database belong together. Progress names transactions, and another database has other
//! transactions by the same numbers: to go on would skip records without a word.

use std::sync::{Mutex, PoisonError};

use postrider_core::StoreError;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::Stream;
use super::progress::{self, Progress};
use crate::postgres::Inner;
use crate::postgres::error::store_error;
use crate::postgres::outbox::query;

const REMEDY: &str = "nothing is lost, and nothing is published until `postrider stream re-anchor` has been run for this outbox";

/// Which database this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Here {
    /// `None` where the role may not know.
    pub(super) system: Option<String>,
    pub(super) timeline: String,
}

/// The last server that was asked which system it is: when it was started, and its answer. A server that was started at
/// another moment is asked again.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<Option<(String, Option<String>)>>);

impl Asked {
    fn of(&self, since: &str) -> Option<Option<String>> {
        let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, system) = asked.as_ref()?;
        (known == since).then(|| system.clone())
    }

    fn keep(&self, since: String, system: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((since, system));
    }
}

impl Stream {
    /// Where a look was taken, on the connection that took it.
    pub(super) async fn here(
        &self,
        inner: &Inner,
        look: &PgRow,
        connection: &mut PgConnection,
    ) -> Result<Here, StoreError> {
        let failed = store_error("look which database this is", &inner.name());
        let timeline: Option<String> = look.try_get("here_timeline").map_err(&failed)?;
        let timeline = timeline.ok_or_else(|| StoreError::Unavailable {
            reason: "the database is a standby: it is read when it is promoted, or the primary is reached"
                .into(),
            source: None,
        })?;
        let since: String = look.try_get("here_since").map_err(&failed)?;
        let system = match (self.asked.of(&since), &self.statements.system) {
            (Some(system), _) => system,
            (None, None) => None,
            (None, Some(statement)) => {
                let row = query(statement).fetch_one(connection).await;
                let system: Option<String> = row.and_then(|row| row.try_get(0)).map_err(&failed)?;
                self.asked.keep(since, system.clone());
                system
            }
        };
        Ok(Here { system, timeline })
    }
}

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
        _ if progress.drawn < progress.highest => Err(StoreError::Mismatch(format!(
            "positions of outbox {name} have gone back: they were drawn up to {}, and its sequence is at {}: it was set back, \
             or did not come along when the table was copied; {REMEDY}",
            progress.highest, progress.drawn
        ))),
        _ if progress.is_set_back => Err(StoreError::Mismatch(format!(
            "positions of outbox {name} have gone back: records were written with positions that had been read by then, since \
             its sequence was restarted or set back; {REMEDY}"
        ))),
        _ => Ok(()),
    }
}

/// The same for all groups, outside of a claim.
pub(super) async fn check_standing(inner: &Inner, stream: &Stream) -> Result<(), StoreError> {
    let (here, standing) = progress::standing(inner, stream).await?;
    check_all(inner, &standing, &here)
}

/// The same by the connection that is about to rely on it.
pub(super) async fn check_standing_on(
    inner: &Inner,
    stream: &Stream,
    connection: &mut PgConnection,
) -> Result<(), StoreError> {
    let (here, standing) = progress::standing_on(inner, stream, connection).await?;
    check_all(inner, &standing, &here)
}

fn check_all(inner: &Inner, standing: &[Progress], here: &Here) -> Result<(), StoreError> {
    let mut each = standing.iter();
    each.try_for_each(|progress| check(inner, progress, here))
}
