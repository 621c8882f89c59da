//! Where a group stands.

use postrider_core::StoreError;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::Stream;
use super::history::Here;
use super::snapshot::Snapshot;
use crate::postgres::Inner;
use crate::postgres::error::store_error;
use crate::postgres::outbox::query;
use crate::postgres::tx::{OPERATOR_MAX, Tx, bounded};

/// Saved progress, with the end of the difference that is being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) group: i32,
    pub(super) version: i64,
    pub(super) epoch: i64,
    /// Within the difference, records up to this position are settled.
    pub(super) position: i64,
    pub(super) from: Snapshot,
    pub(super) from_low: i64,
    pub(super) to: Snapshot,
    pub(super) to_low: i64,
    pub(super) to_high: i64,
    /// Whether `to` was taken by this very claim and is not saved yet.
    pub(super) fresh: bool,
    /// Whether a snapshot is of a time that this database has not reached.
    pub(super) is_ahead: bool,
    /// Whether records came after `from` with positions up to `from_low`, in this group or another.
    pub(super) is_set_back: bool,
    /// The last position that is known to have been drawn, and the one that the sequence now gives.
    pub(super) highest: i64,
    pub(super) drawn: i64,
    pub(super) system: Option<String>,
    pub(super) timeline: String,
}

impl Progress {
    /// From a row of a look.
    pub(super) fn of(inner: &Inner, stream: &Stream, row: &PgRow) -> Result<Self, StoreError> {
        let failed = store_error("read the stream's progress", &inner.name());
        let group: i32 = row.try_get("grp").map_err(&failed)?;
        let groups: i32 = row.try_get("groups").map_err(&failed)?;
        if groups != stream.group_count() {
            return Err(StoreError::Mismatch(format!(
                "outbox {} had {} groups of lanes and has {groups} now; it is read anew",
                inner.name(),
                stream.groups
            )));
        }
        let snapshot = |column: &str| -> Result<Option<Snapshot>, StoreError> {
            let text: Option<String> = row.try_get(column).map_err(&failed)?;
            let read = |text: String| text.parse().map_err(|()| unreadable(inner, group));
            text.map(read).transpose()
        };
        let number = |column: &str| row.try_get::<i64, _>(column).map_err(&failed);
        let whole = |found: Option<Snapshot>| found.ok_or_else(|| unreadable(inner, group));
        let (from, now) = (whole(snapshot("from_snapshot")?)?, whole(snapshot("now")?)?);
        let saved = snapshot("to_snapshot")?;
        let (next_low, drawn) = (number("next_low")?, number("drawn")?);
        let highest = number("from_low")?.max(next_low).max(number("to_high")?);
        let (to_low, to_high) = match saved {
            Some(_) => (number("to_low")?, number("to_high")?),
            None => (next_low, drawn),
        };
        let fresh = saved.is_none();
        let to = saved.unwrap_or_else(|| now.clone());
        Ok(Self {
            group,
            version: number("version")?,
            epoch: number("epoch")?,
            position: number("position")?,
            is_ahead: from.xmax.max(to.xmax) > now.xmax,
            is_set_back: false,
            highest,
            drawn,
            from,
            from_low: number("from_low")?,
            to,
            to_low,
            to_high,
            fresh,
            system: row.try_get("system").map_err(&failed)?,
            timeline: row.try_get("timeline").map_err(&failed)?,
        })
    }

    /// Whether both are at the same difference, and its end is saved of both or of none.
    pub(super) fn is_in_step(&self, other: &Self) -> bool {
        self.fresh == other.fresh && self.is_same_difference(other)
    }

    pub(super) fn is_same_difference(&self, other: &Self) -> bool {
        self.from == other.from
            && self.from_low == other.from_low
            && self.to == other.to
            && self.to_low == other.to_low
            && self.to_high == other.to_high
    }

    /// Whether nothing can be in the difference: nobody has ended a transaction since.
    pub(super) fn is_void(&self) -> bool {
        self.from == self.to
    }
}

#[cfg(test)]
impl Progress {
    pub(super) fn example() -> Self {
        Self {
            group: 0,
            version: 1,
            epoch: 0,
            position: 0,
            from: "3:3:".parse().unwrap(),
            from_low: 0,
            to: "9:9:".parse().unwrap(),
            to_low: 0,
            to_high: 100,
            fresh: true,
            is_ahead: false,
            is_set_back: false,
            highest: 100,
            drawn: 100,
            system: None,
            timeline: "1".into(),
        }
    }
}

/// Where every group stands, and which database this is.
pub(super) async fn standing(
    inner: &Inner,
    stream: &Stream,
) -> Result<(Here, Vec<Progress>), StoreError> {
    let failed = store_error("look at the stream's progress", &inner.name());
    // Records are found by index, however the table was analysed.
    let begin = format!(
        "{}; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off",
        bounded(OPERATOR_MAX)
    );
    let (mut tx, _) = Tx::begin(&inner.pool, begin.into())
        .await
        .map_err(&failed)?;
    let (here, mut standing) = standing_on(inner, stream, tx.connection()).await?;
    let marked = mark_set_back(stream, &mut standing, tx.connection()).await;
    marked.map_err(&failed)?;
    tx.commit().await.map_err(&failed)?;
    Ok((here, standing))
}

/// Looks for records that are in no difference.
pub(super) async fn mark_set_back(
    stream: &Stream,
    standing: &mut [Progress],
    connection: &mut PgConnection,
) -> Result<(), sqlx::Error> {
    let row = query(&stream.statements.set_back).fetch_one(connection);
    let is_set_back = row.await?.try_get(0)?;
    for progress in standing {
        progress.is_set_back = is_set_back;
    }
    Ok(())
}

/// The same by a connection, which may lead elsewhere than others do, and without looking at records.
pub(super) async fn standing_on(
    inner: &Inner,
    stream: &Stream,
    connection: &mut PgConnection,
) -> Result<(Here, Vec<Progress>), StoreError> {
    let groups: Vec<u32> = (0..stream.groups).collect();
    let failed = store_error("look at the stream's progress", &inner.name());
    let look = stream.statements.look(&groups);
    let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(look))
        .fetch_all(&mut *connection)
        .await
        .map_err(&failed)?;
    let first = rows.first().ok_or_else(|| nobody(inner))?;
    let here = stream.here(inner, first, connection).await?;
    let standing = rows.iter().map(|row| Progress::of(inner, stream, row));
    Ok((here, standing.collect::<Result<_, _>>()?))
}

/// Progress rows have gone after the stream was opened.
pub(super) fn nobody(inner: &Inner) -> StoreError {
    StoreError::Mismatch(format!(
        "{} has no progress of its stream; run `postrider init`",
        inner.name()
    ))
}

fn unreadable(inner: &Inner, group: i32) -> StoreError {
    StoreError::Mismatch(format!(
        "the saved progress of group {group} of {} cannot be read; run `postrider init` of this version",
        inner.name()
    ))
}
