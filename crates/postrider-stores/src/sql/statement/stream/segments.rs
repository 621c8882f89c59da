//! Segments: ranges of positions that share a partition, emptied as a whole.

use std::sync::Arc;

use postrider_core::layout::TableName;

use super::StreamWriter;
use crate::sql::statement::{literal, of, suffixed};

/// Partitions, used one after the other.
pub(crate) const SEGMENTS: i64 = 8;

/// A segment has 2 to the power of this many positions, more than it will ever hold: it ends when it is old enough.
pub(crate) const SEGMENT_BITS: u32 = 32;

#[derive(Debug, Clone)]
pub(crate) struct Statements {
    /// One per partition.
    pub each: Vec<Segment>,
    /// → the number of the segment that is written to.
    pub current: Arc<str>,
    /// the number of a segment: its positions come next. Run under a lock that keeps other cleaners away, because the
    /// sequence must never go back.
    pub rotate: Arc<str>,
}

#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub table: TableName,
    /// microseconds → whether its first record is older.
    pub aged: Arc<str>,
    /// → whether it holds anything.
    pub filled: Arc<str>,
    /// microseconds to keep → whether all in it is old enough and settled, and it is not the one that is written to.
    pub over: Arc<str>,
    /// Keeps writers away, and nobody who reads.
    pub close: Arc<str>,
    pub lock: Arc<str>,
    /// → about how many records it holds: positions that were rolled back count too.
    pub count: Arc<str>,
    pub empty: Arc<str>,
}

/// The partition for a remainder.
pub(crate) fn segment(outbox: &TableName, number: i64) -> TableName {
    outbox.sibling(suffixed(&outbox.name, &format!("_{number}")))
}

impl StreamWriter<'_> {
    pub(super) fn segments(&self) -> Statements {
        Statements {
            each: (0..SEGMENTS).map(|number| self.segment(number)).collect(),
            current: format!(
                "SELECT q.last_value >> {SEGMENT_BITS} FROM {} AS q",
                self.sequence()
            )
            .into(),
            rotate: format!(
                "SELECT setval({}, $1::int8 << {SEGMENT_BITS})",
                literal(&self.sequence())
            )
            .into(),
        }
    }

    fn segment(&self, number: i64) -> Segment {
        let table = segment(&self.writer.layout.table, number);
        let name = table.quoted();
        let created_at = of("o", &self.writer.layout.columns.created_at);
        let before = (self.writer.dialect.after)(self.writer.dialect.clock, "-$1::int8");
        Segment {
            aged: format!(
                "SELECT coalesce((SELECT {created_at} <= {before} FROM {name} AS o ORDER BY {} LIMIT 1), false)",
                self.position("o")
            )
            .into(),
            filled: format!("SELECT EXISTS (SELECT FROM {name})").into(),
            over: self.over(&name, number).into(),
            close: format!("LOCK TABLE ONLY {name} IN SHARE MODE").into(),
            lock: format!("LOCK TABLE ONLY {name} IN ACCESS EXCLUSIVE MODE").into(),
            count: format!(
                "SELECT coalesce(max({id}) - min({id}) + 1, 0) FROM ONLY {name} AS o",
                id = self.position("o")
            )
            .into(),
            empty: format!("TRUNCATE ONLY {name}").into(),
            table,
        }
    }

    /// $1 microseconds. By the indexes on position and transaction this looks at few records, however many there are.
    fn over(&self, segment: &str, number: i64) -> String {
        let keep = (self.writer.dialect.after)(self.writer.dialect.clock, "-$1::int8");
        format!(
            "SELECT coalesce((SELECT {created_at} <= {keep} FROM {segment} AS o ORDER BY {position} DESC LIMIT 1), false)\n\
             AND NOT EXISTS (SELECT FROM ({standing}) AS p CROSS JOIN {segment} AS o\n  \
             WHERE {xid} >= pg_snapshot_xmin(p.from_snapshot) AND {mine}\n  \
             AND NOT pg_visible_in_snapshot({xid}, p.from_snapshot))\n\
             AND EXISTS (SELECT FROM {progress})\n\
             AND (SELECT (q.last_value >> {SEGMENT_BITS}) % {SEGMENTS} <> {number} FROM {sequence} AS q)",
            created_at = of("o", &self.writer.layout.columns.created_at),
            position = self.position("o"),
            standing = self.standing(),
            xid = self.xid("o"),
            mine = self.mine(),
            progress = self.progress(),
            sequence = self.sequence(),
        )
    }
}
