//! How a claim's transaction begins: locks, then a look at the database, in one message.

use postrider_core::Share;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::Stream;
use crate::postgres::Inner;
use crate::postgres::claim::{begin_settings, lock_lanes};
use crate::postgres::tx::Tx;

/// A transaction that holds groups of lanes.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) tx: Tx,
    pub(super) groups: Vec<i32>,
    /// The last position that was drawn before this transaction had a number.
    pub(super) drawn: i64,
    /// Whether any record failed and is kept aside.
    pub(super) troubled: bool,
    pub(super) here: Here,
}

/// Which database this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Here {
    /// `None` where the role may not know.
    pub(super) system: Option<String>,
    pub(super) timeline: String,
}

/// The groups are locked before, not in, the statement that reads their progress: its snapshot then has what their last
/// holder saved.
pub(super) async fn open(
    inner: &Inner,
    stream: &Stream,
    share: Share,
) -> Result<Option<Opened>, sqlx::Error> {
    let wanted: Vec<u32> = (0..stream.groups)
        .filter(|group| group % share.of.max(1) == share.index)
        .collect();
    if wanted.is_empty() {
        return Ok(None);
    }
    let mut text = begin_settings(&inner.options);
    // The plan is the same whatever the parameters, and must not depend on how full the table was when it was made.
    // A commit that a crash of the server undoes only makes some records come again.
    text.push_str(
        "; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; \
         SET LOCAL enable_bitmapscan = off; SET LOCAL synchronous_commit = off",
    );
    for statement in [
        lock_lanes(&inner.options.layout, &wanted).as_str(),
        "SAVEPOINT postrider_read",
        &stream.statements.look,
    ] {
        text.push_str("; ");
        text.push_str(statement);
    }
    let (tx, rows) = Tx::begin(&inner.pool, text.into()).await?;
    let groups: Vec<i32> = rows
        .iter()
        .filter_map(|row| row.try_get("lane").ok())
        .collect();
    if groups.is_empty() {
        tx.rollback().await?;
        return Ok(None);
    }
    let look = rows.last().ok_or(sqlx::Error::RowNotFound)?;
    Ok(Some(Opened {
        groups,
        drawn: look.try_get("drawn")?,
        troubled: look.try_get("troubled")?,
        here: Here::of(look)?,
        tx,
    }))
}

impl Here {
    pub(super) fn of(look: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            system: look.try_get("system")?,
            timeline: look.try_get("timeline")?,
        })
    }
}

impl Opened {
    /// Gives back the locks that reading took on the outbox.
    pub(super) async fn end_reading(&mut self) -> Result<(), sqlx::Error> {
        sqlx::raw_sql("ROLLBACK TO SAVEPOINT postrider_read")
            .execute(self.tx.connection())
            .await
            .map(drop)
    }
}
