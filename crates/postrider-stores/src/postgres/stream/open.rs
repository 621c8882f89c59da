//! How a claim's transaction begins: locks, then a look at the database, in one message.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use postrider_core::{Share, StoreError};
use sqlx::{AssertSqlSafe, Row as _};

use super::Stream;
use super::history::{self, Here};
use super::progress::{Progress, mark_set_back, nobody};
use crate::postgres::Inner;
use crate::postgres::claim::{begin_settings, lock_lanes};
use crate::postgres::error::store_error;
use crate::postgres::tx::Tx;

/// A transaction that holds groups of lanes.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) tx: Tx,
    /// Where the groups stand that are held.
    pub(super) standing: Vec<Progress>,
    /// The last position that was drawn before this transaction had a number.
    pub(super) drawn: i64,
    /// Whether any record failed and is kept aside.
    pub(super) troubled: bool,
    pub(super) here: Here,
    /// Whether other relays are at work too.
    pub(super) in_company: bool,
    /// Whether reading has taken locks on the outbox.
    has_read: bool,
}

/// The groups are locked before, not in, the statement that reads their progress: its snapshot then has what their last
/// holder saved.
pub(super) async fn open(
    inner: &Inner,
    stream: &Stream,
    share: Share,
) -> Result<Option<Opened>, StoreError> {
    let wanted: Vec<u32> = (0..stream.groups)
        .filter(|group| group % share.of.max(1) == share.index)
        .collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let failed = store_error("claim records", &inner.name());
    let (mut tx, rows) = Tx::begin(&inner.pool, begin_text(inner, stream, &wanted).into())
        .await
        .map_err(&failed)?;
    let held: Vec<i32> = rows
        .iter()
        .filter_map(|row| row.try_get("lane").ok())
        .collect();
    if held.is_empty() {
        tx.rollback().await.map_err(&failed)?;
        return Ok(None);
    }
    let looks = || rows.iter().filter(|row| row.try_get_raw("lane").is_err());
    let look = looks().next().ok_or_else(|| nobody(inner))?;
    let here = stream.here(inner, look, tx.connection()).await?;
    let read_only: bool = look.try_get("read_only").map_err(&failed)?;
    if read_only {
        return Err(StoreError::Unavailable {
            reason: "transactions are read-only, so nothing can be settled".into(),
            source: None,
        });
    }
    let mut standing = Vec::with_capacity(held.len());
    for look in looks() {
        let progress = Progress::of(inner, stream, look)?;
        if held.contains(&progress.group) {
            standing.push(progress);
        }
    }
    // A sequence that was restarted may have passed the old mark before anybody looked.
    let file: i64 = look.try_get("file").map_err(&failed)?;
    let looks_closer = stream.trusted.load(Relaxed) != file;
    if looks_closer {
        let marked = mark_set_back(stream, &mut standing, tx.connection()).await;
        marked.map_err(&failed)?;
    }
    for progress in &standing {
        history::check(inner, progress, &here)?;
    }
    stream.trusted.store(file, Relaxed);
    let in_company = stream.company.was_here(&standing);
    Ok(Some(Opened {
        in_company,
        standing,
        drawn: look.try_get("drawn").map_err(&failed)?,
        troubled: look.try_get("troubled").map_err(&failed)?,
        here,
        tx,
        has_read: looks_closer,
    }))
}

fn begin_text(inner: &Inner, stream: &Stream, wanted: &[u32]) -> String {
    let mut text = begin_settings(&inner.options);
    // The plan is the same whatever the parameters, and must not depend on how full the table was when it was made.
    text.push_str(
        "; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; \
         SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off",
    );
    for statement in [
        lock_lanes(&inner.options.layout, wanted).as_str(),
        &stream.statements.look(wanted),
        &stream.statements.prepare,
        "SAVEPOINT postrider_read",
    ] {
        text.push_str("; ");
        text.push_str(statement);
    }
    text
}

impl Opened {
    pub(super) fn has_read(&self) -> bool {
        self.has_read
    }

    /// To read from the outbox.
    pub(super) fn reads(&mut self) -> &mut Tx {
        self.has_read = true;
        &mut self.tx
    }

    /// From here on until reading ends, no statement takes longer.
    pub(super) async fn bound_reading(&mut self, max: Duration) -> Result<(), sqlx::Error> {
        let bound = format!("SET LOCAL statement_timeout = {}", max.as_millis());
        sqlx::raw_sql(AssertSqlSafe(bound))
            .execute(self.reads().connection())
            .await
            .map(drop)
    }

    /// Gives back the locks that reading took on the outbox, also where it failed.
    pub(super) async fn end_reading(&mut self) -> Result<(), sqlx::Error> {
        if !std::mem::take(&mut self.has_read) {
            return Ok(());
        }
        sqlx::raw_sql("ROLLBACK TO SAVEPOINT postrider_read")
            .execute(self.tx.connection())
            .await
            .map(drop)
    }
}
