//! Where a group stands, and the next records of its stream.

use std::collections::HashMap;

use postrider_core::{Record, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::Stream;
use super::history;
use super::open::Opened;
use crate::postgres::Inner;
use crate::postgres::claim::records;
use crate::postgres::error::store_error;
use crate::postgres::outbox::{Ready, query};

/// Saved progress, with the end of the difference that is being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) group: i32,
    pub(super) version: i64,
    pub(super) epoch: i64,
    /// Within the difference, records up to this position are settled.
    pub(super) position: i64,
    pub(super) from: String,
    pub(super) from_low: i64,
    pub(super) to: String,
    pub(super) to_low: i64,
    pub(super) to_high: i64,
    /// Whether `to` was taken by this very claim and is not saved yet.
    pub(super) fresh: bool,
    /// Whether a snapshot is of a time that this database has not reached.
    pub(super) is_ahead: bool,
    pub(super) system: Option<String>,
    pub(super) timeline: String,
}

/// A group's next records.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) progress: Progress,
    /// In order of position.
    pub(super) records: Vec<Record>,
    /// Whether the difference may have more.
    pub(super) more: bool,
}

/// Reads up to `limit` records of every group that is held.
pub(super) async fn read(
    inner: &Inner,
    ready: &Ready,
    opened: &mut Opened,
    limit: u32,
) -> Result<Vec<Chunk>, StoreError> {
    let failed = store_error("claim records", &inner.name());
    let rows = query(&ready.stream()?.statements.read)
        .bind(opened.groups.clone())
        .bind(i64::from(limit))
        .bind(vec![-1_i64; opened.groups.len()])
        .fetch_all(opened.tx.connection())
        .await
        .map_err(&failed)?;
    let mut standing: Vec<Progress> = Vec::new();
    let mut of_group: HashMap<i32, Vec<PgRow>> = HashMap::new();
    for row in rows {
        let group: i32 = row.try_get("grp").map_err(&failed)?;
        let progress: Option<String> = row.try_get("progress").map_err(&failed)?;
        match progress {
            Some(text) => {
                standing.push(parse(group, &text).ok_or_else(|| unreadable(inner, group))?)
            }
            None => of_group.entry(group).or_default().push(row),
        }
    }
    let mut chunks = Vec::new();
    for progress in standing {
        history::check(inner, &progress, &opened.here)?;
        let rows = of_group.remove(&progress.group).unwrap_or_default();
        chunks.push(Chunk {
            more: rows.len() >= limit as usize,
            records: records(inner, ready, &rows)?,
            progress,
        });
    }
    Ok(chunks)
}

/// Where every group stands, its next records unread.
pub(super) async fn standing(inner: &Inner, stream: &Stream) -> Result<Vec<Progress>, StoreError> {
    let groups: Vec<i32> = (0..stream.groups)
        .filter_map(|group| i32::try_from(group).ok())
        .collect();
    let failed = store_error("read the stream's progress", &inner.name());
    let rows = query(&stream.statements.read)
        .bind(groups.clone())
        .bind(0_i64)
        .bind(vec![-1_i64; groups.len()])
        .fetch_all(&inner.pool)
        .await
        .map_err(&failed)?;
    rows.iter()
        .map(|row| {
            let group: i32 = row.try_get("grp").map_err(&failed)?;
            let text: String = row.try_get("progress").map_err(&failed)?;
            parse(group, &text).ok_or_else(|| unreadable(inner, group))
        })
        .collect()
}

fn unreadable(inner: &Inner, group: i32) -> StoreError {
    StoreError::Mismatch(format!(
        "the saved progress of group {group} of {} cannot be read; run `postrider init` of this version",
        inner.name()
    ))
}

/// The fields in the order in which the statement puts them.
fn parse(group: i32, text: &str) -> Option<Progress> {
    let mut words = text.split(' ');
    let mut word = || words.next();
    let progress = Progress {
        group,
        version: word()?.parse().ok()?,
        epoch: word()?.parse().ok()?,
        position: word()?.parse().ok()?,
        from_low: word()?.parse().ok()?,
        to_low: word()?.parse().ok()?,
        to_high: word()?.parse().ok()?,
        fresh: word()? == "t",
        is_ahead: word()? == "t",
        system: word()
            .filter(|system| *system != "-")
            .map(ToOwned::to_owned),
        timeline: word()?.into(),
        from: word()?.into(),
        to: word()?.into(),
    };
    words.next().is_none().then_some(progress)
}
