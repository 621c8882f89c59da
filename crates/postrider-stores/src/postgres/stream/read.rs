//! The next records of a group's stream. Those of a difference never change, so they may be read before they are wanted.

use postrider_core::{Record, RecordId, StoreError};

use super::progress::Progress;
use crate::postgres::Inner;
use crate::postgres::claim::fetch;
use crate::postgres::outbox::{Ready, query};
use crate::postgres::tx::Tx;
use crate::sql::statement::stream::{SEGMENT_BITS, SEGMENTS};

/// A group's next records.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// In order of position.
    pub(super) records: Vec<Record>,
    /// Whether the difference may have more.
    pub(super) more: bool,
}

/// Reads one group.
pub(super) struct Reading<'a> {
    pub(super) inner: &'a Inner,
    pub(super) ready: &'a Ready,
    pub(super) progress: &'a Progress,
    pub(super) limit: u32,
}

impl Reading<'_> {
    /// The next records above a position of the difference.
    pub(super) async fn chunk(&self, tx: &mut Tx, after: i64) -> Result<Chunk, StoreError> {
        let progress = self.progress;
        let mut records = self.later(tx, after).await?;
        let ended = progress.from.ended_in(&progress.to);
        if !ended.is_empty() {
            records.append(&mut self.running(tx, after, &ended).await?);
            records.sort_by_key(position);
        }
        // Whoever was cut off at the limit has nothing before the limit that is missing here.
        let more = records.len() >= self.limit as usize;
        records.truncate(self.limit as usize);
        Ok(Chunk { records, more })
    }

    /// Segment by segment, as far as the difference goes.
    async fn later(&self, tx: &mut Tx, after: i64) -> Result<Vec<Record>, StoreError> {
        let (low, high) = (after.max(self.progress.from_low), self.progress.to_high);
        let mut found: Vec<Record> = Vec::new();
        for segment in segments(low, high) {
            let left = i64::from(self.limit) - i64::try_from(found.len()).unwrap_or(i64::MAX);
            if left <= 0 {
                break;
            }
            found.append(&mut self.of_segment(tx, segment, (low, high), left).await?);
        }
        Ok(found)
    }

    async fn of_segment(
        &self,
        tx: &mut Tx,
        segment: i64,
        (low, high): (i64, i64),
        limit: i64,
    ) -> Result<Vec<Record>, StoreError> {
        let stream = self.ready.stream()?;
        let number = usize::try_from(segment % SEGMENTS).unwrap_or(0);
        let statement = query(&stream.statements.difference.later[number])
            .bind(low)
            .bind(high)
            .bind(self.progress.from.xmax.to_string())
            .bind(self.progress.to.to_string())
            .bind(self.progress.group)
            .bind(stream.group_count())
            .bind(limit);
        fetch(self.inner, self.ready, statement, tx.connection()).await
    }

    async fn running(
        &self,
        tx: &mut Tx,
        after: i64,
        ended: &[u64],
    ) -> Result<Vec<Record>, StoreError> {
        let stream = self.ready.stream()?;
        let ended: Vec<String> = ended.iter().map(ToString::to_string).collect();
        let statement = query(&stream.statements.difference.running)
            .bind(ended)
            .bind(after)
            .bind(self.progress.group)
            .bind(stream.group_count())
            .bind(i64::from(self.limit));
        fetch(self.inner, self.ready, statement, tx.connection()).await
    }
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
