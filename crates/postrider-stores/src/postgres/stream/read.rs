//! The next records of a group's stream. Those of a difference never change, so they may be read
//! before they are wanted.

use std::sync::Arc;

use postrider_core::{Record, RecordId, StoreError};

use super::progress::Progress;
use super::team::Team;
use crate::postgres::Inner;
use crate::postgres::claim::{Fetched, fetch};
use crate::postgres::ids::PgQuery;
use crate::postgres::outbox::{Ready, query};
use crate::postgres::tx::Tx;
use crate::sql::statement::stream::{SEGMENT_BITS, SEGMENTS};

/// A team's next records.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// In order of position.
    pub(super) records: Vec<Record>,
    /// Whether the team may have more.
    pub(super) more: bool,
}

/// How much is read at a time: so many records of so many bytes, but always one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) limit: u32,
    pub(super) bytes: usize,
}

/// Reads one team.
pub(super) struct Reading<'a> {
    pub(super) inner: &'a Inner,
    pub(super) ready: &'a Ready,
    pub(super) team: &'a Team,
    pub(super) room: Room,
}

impl Reading<'_> {
    /// The next records above a position of the difference.
    pub(super) async fn chunk(&self, tx: &mut Tx, after: i64) -> Result<Chunk, StoreError> {
        let progress = self.progress();
        let upto = self.team.upto.unwrap_or(i64::MAX);
        let (low, high) = (after.max(progress.from_low), progress.to_high.min(upto));
        let within: Vec<i64> = segments(low, high).collect();
        let ended = progress.from.ended_in(&progress.to);
        let running_then = Running {
            ended: &ended,
            after,
            upto,
        };
        let Room { limit, bytes } = self.room;
        let mut found = match &within[..] {
            // One round trip: under a steady load, every claim of a few records comes here.
            [segment] if !ended.is_empty() => {
                let difference = &self.ready.stream()?.statements.difference;
                let both = self.statement(&difference.both[number(*segment)], limit.into())?;
                let both = self.bind_later(both, (low, high));
                vec![self.fetch(tx, running_then.bind(both), bytes).await?]
            }
            _ => {
                let mut found = vec![self.later(tx, &within, (low, high)).await?];
                if !ended.is_empty() {
                    let running = &self.ready.stream()?.statements.difference.running;
                    let running = self.statement(running, limit.into())?;
                    found.push(self.fetch(tx, running_then.bind(running), bytes).await?);
                }
                found
            }
        };
        // What comes after the end of one that was cut off may have something of it before.
        let complete_upto = found.iter().filter(|of| of.is_cut);
        let complete_upto = complete_upto
            .filter_map(|of| of.records.last())
            .map(position);
        let complete_upto = complete_upto.min();
        let mut records: Vec<Record> = found
            .iter_mut()
            .flat_map(|of| of.records.drain(..))
            .collect();
        if !ended.is_empty() {
            records.sort_by_key(position);
        }
        if let Some(upto) = complete_upto {
            records.retain(|record| position(record) <= upto);
        }
        // Whoever was cut off at the limit has nothing before the limit that is missing here.
        let more = complete_upto.is_some() || records.len() >= limit as usize;
        records.truncate(limit as usize);
        Ok(Chunk { records, more })
    }

    /// Segment by segment, as far as the difference goes.
    async fn later(
        &self,
        tx: &mut Tx,
        within: &[i64],
        (low, high): (i64, i64),
    ) -> Result<Fetched, StoreError> {
        let later = &self.ready.stream()?.statements.difference.later;
        let mut found = Fetched::default();
        let mut bytes = self.room.bytes;
        for segment in within {
            let count = i64::try_from(found.records.len()).unwrap_or(i64::MAX);
            let left = i64::from(self.room.limit) - count;
            if left <= 0 || found.is_cut {
                break;
            }
            let statement = self.statement(&later[number(*segment)], left)?;
            let statement = self.bind_later(statement, (low, high));
            let mut more = self.fetch(tx, statement, bytes).await?;
            bytes = bytes.saturating_sub(more.records.iter().map(Record::size).sum());
            found.records.append(&mut more.records);
            found.is_cut = more.is_cut || bytes == 0;
        }
        Ok(found)
    }

    fn progress(&self) -> &Progress {
        self.team.lead()
    }

    fn statement(&self, text: &Arc<str>, limit: i64) -> Result<PgQuery, StoreError> {
        let stream = self.ready.stream()?;
        let groups = self.team.groups();
        // Whose records they are need not be worked out where all are wanted.
        let wanted = (groups.len() < stream.groups as usize).then_some(groups);
        let statement = query(text).bind(limit).bind(wanted);
        Ok(statement.bind(stream.group_count()))
    }

    fn bind_later(&self, statement: PgQuery, (low, high): (i64, i64)) -> PgQuery {
        statement
            .bind(low)
            .bind(high)
            .bind(self.progress().from.xmax.to_string())
            .bind(self.progress().to.to_string())
    }

    async fn fetch(
        &self,
        tx: &mut Tx,
        statement: PgQuery,
        bytes: usize,
    ) -> Result<Fetched, StoreError> {
        fetch(self.inner, self.ready, statement, bytes, tx.connection()).await
    }
}

/// Transactions that ran when the difference began, and the positions that are read of them.
struct Running<'a> {
    ended: &'a [u64],
    after: i64,
    upto: i64,
}

impl Running<'_> {
    fn bind(&self, statement: PgQuery) -> PgQuery {
        let ended: Vec<String> = self.ended.iter().map(ToString::to_string).collect();
        statement.bind(ended).bind(self.after).bind(self.upto)
    }
}

/// Where a segment's statement is found.
fn number(segment: i64) -> usize {
    usize::try_from(segment % SEGMENTS).unwrap_or(0)
}

/// The segments that may have positions above `low` and up to `high`: at most as many as there are.
fn segments(low: i64, high: i64) -> impl Iterator<Item = i64> {
    let last = high >> SEGMENT_BITS;
    let first = ((low + 1) >> SEGMENT_BITS).max(last - SEGMENTS + 1);
    (first..=last).filter(move |_| low < high)
}

pub(super) fn position(record: &Record) -> i64 {
    match record.id {
        RecordId::Int(position) => position,
        // The column is a bigint; the layout was compared with the table.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_lies_in_the_segments_between_its_ends() {
        let of = |low: i64, high: i64| segments(low, high).collect::<Vec<_>>();
        let segment = 1_i64 << SEGMENT_BITS;
        assert_eq!(of(0, 10), [0]);
        assert_eq!(of(10, 10), [0_i64; 0]);
        assert_eq!(of(segment - 1, segment + 5), [1]);
        assert_eq!(of(5, 2 * segment), [0, 1, 2]);
        assert_eq!(of(0, 20 * segment), (13..=20).collect::<Vec<_>>());
    }
}
