//! The statements of an append-only outbox. `o` is the outbox or a copy of its records, `s` saved progress, `p` progress
//! as a claim uses it.
//!
//! A claim reads what is visible in snapshot `to` and was not in snapshot `from`, in order of position. Such a
//! difference has two parts: records of transactions that `from` knew to be running, found by their transaction, and
//! those of later ones (`xid >= xmax(from)`), found by their position, which is above `from_low`.
//!
//! `from_low` is a value of the sequence that was read before a transaction Y got its number, where Y had ended when
//! `from` was taken. So a record with `xid >= xmax(from)` has a later transaction than Y, and drew its position after
//! its transaction's number: the outbox's first column is the transaction, and columns get their defaults in order.
//! (The sequence as it stood just before `from` would not do: transactions that run above `xmax` may have drawn from it
//! already, and no snapshot names them.)

mod anchor;
mod operate;
mod read;
mod segments;
mod settle;
#[cfg(test)]
mod tests;
mod troubles;

use std::sync::Arc;

use postrider_core::layout::{Identifier, State, TableName};
use postrider_core::{OnDead, Ordering};

use super::{Writer, literal, of, suffixed};
use crate::sql::selection::Selection;

pub(crate) use anchor::Anchor;
pub(crate) use read::Difference;
pub(crate) use segments::{SEGMENT_BITS, SEGMENTS, Segment, segment};
pub(crate) use settle::{Advance, Moved, Stamp};

/// Every statement of a stream. Comments give the parameters.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// → how many groups there are.
    pub groups: Arc<str>,
    look: Arc<str>,
    /// → whether records came after a group's `from` with positions up to its `from_low`: they would be in no difference. Looks
    /// at what is unread, by the index on transactions.
    pub set_back: Arc<str>,
    /// Takes the table locks that settling needs: whoever keeps others from writing is met before anything is published, and
    /// so is a missing right.
    pub prepare: Arc<str>,
    /// → the database's system identifier; `None` where the role may not know.
    pub system: Option<Arc<str>>,
    pub difference: Difference,
    /// groups, limit, how many groups there are → records that failed and are due, with attempts and group.
    pub due: Arc<str>,
    /// keys → those of which records are kept aside that later ones must not overtake, and how many.
    pub parked: Arc<str>,
    pub advance: Advance,
    /// positions, attempts, errors or NULL, microseconds to wait, dead.
    pub copy: Arc<str>,
    /// Gives copies of records that are gone positions before all others, if one of them has the position of another record.
    pub aside: Arc<str>,
    /// positions.
    pub forget: Arc<str>,
    /// positions, attempts, errors, microseconds to wait, dead.
    pub retry: Arc<str>,
    /// → pending, microseconds of the oldest or NULL, dead.
    pub backlog: Arc<str>,
    pub segments: segments::Statements,
    pub anchor: Anchor,
    /// Those of a record that its copy has too.
    pub copied: Vec<Identifier>,
}

/// Planning this was a third of what a look costs, so it is not asked in each.
const SYSTEM: &str = "SELECT system_identifier::text FROM pg_control_system()";

/// The tables of a stream beside its outbox.
#[derive(Debug, Clone)]
pub(crate) struct Beside {
    /// Saved progress.
    pub progress: TableName,
    /// Copies of records that failed, and of what waits behind them.
    pub troubles: TableName,
    /// Where positions come from.
    pub sequence: TableName,
}

pub(crate) fn beside(outbox: &TableName) -> Beside {
    let sibling = |suffix: &str| outbox.sibling(suffixed(&outbox.name, suffix));
    Beside {
        progress: sibling("_stream"),
        troubles: sibling("_troubles"),
        sequence: sibling("_position"),
    }
}

impl Writer<'_> {
    fn stream_writer(&self) -> Option<StreamWriter<'_>> {
        let State::Append { xid, .. } = &self.layout.state else {
            return None;
        };
        Some(StreamWriter {
            writer: self,
            xid,
            beside: beside(&self.layout.table),
            selection: Selection::new(self.layout, self.table, self.dialect),
        })
    }

    /// Every record that there is, in the outbox or as a copy, with `settled`, `dead`, `attempts`, `last_error` and
    /// `next_attempt_at`.
    pub(super) fn stream_records(&self) -> Option<String> {
        Some(self.stream_writer()?.records())
    }

    /// $1 ids.
    pub(super) fn stream_resend(&self) -> Option<String> {
        Some(self.stream_writer()?.resend())
    }

    /// $1 ids.
    pub(super) fn stream_discard(&self) -> Option<String> {
        Some(self.stream_writer()?.discard())
    }

    /// For layouts that append. `knows_system`: whether the database says which it is.
    pub(crate) fn stream(&self, knows_system: bool) -> Option<Stream> {
        let stream = self.stream_writer()?;
        Some(Stream {
            groups: stream.groups().into(),
            look: stream.look().into(),
            set_back: stream.set_back().into(),
            prepare: stream.prepare().into(),
            system: knows_system.then(|| SYSTEM.into()),
            difference: stream.difference(),
            due: stream.due().into(),
            parked: stream.parked().into(),
            advance: stream.advance(),
            copy: stream.copy().into(),
            aside: stream.aside().into(),
            forget: stream.forget().into(),
            retry: stream.retry().into(),
            backlog: stream.backlog().into(),
            segments: stream.segments(),
            anchor: stream.anchor(),
            copied: stream.record_columns().into_iter().cloned().collect(),
        })
    }
}

/// Writes the statements of one stream.
struct StreamWriter<'a> {
    writer: &'a Writer<'a>,
    xid: &'a Identifier,
    beside: Beside,
    selection: Selection,
}

impl StreamWriter<'_> {
    fn outbox(&self) -> String {
        self.writer.name()
    }

    fn progress(&self) -> String {
        self.beside.progress.quoted()
    }

    fn troubles(&self) -> String {
        self.beside.troubles.quoted()
    }

    fn sequence(&self) -> String {
        self.beside.sequence.quoted()
    }

    fn position(&self, alias: &str) -> String {
        self.writer.id(alias)
    }

    fn xid(&self, alias: &str) -> String {
        of(alias, self.xid)
    }

    /// Whether a copy is that of a record. Where positions were set back, another record may have the position of a copy.
    fn is_copy(&self, copy: &str, record: &str) -> String {
        let columns = &self.writer.layout.columns;
        let telling = columns.event_id.as_ref().unwrap_or(&columns.created_at);
        format!(
            "{} = {} AND {} IS NOT DISTINCT FROM {}",
            self.position(copy),
            self.position(record),
            of(copy, telling),
            of(record, telling)
        )
    }

    /// The group that a record belongs to, of so many. By key even where order does not matter: progress is per group, so whose a
    /// record is must not hang on a setting that may change.
    fn group(&self, alias: &str, groups: &str) -> String {
        let key = self.writer.layout.columns.key.as_ref();
        format!("{} % {groups}", self.writer.lane_by(key, alias))
    }

    fn ordered(&self) -> bool {
        self.writer.layout.ordering == Ordering::Key
    }

    fn parks(&self) -> bool {
        self.writer.rules.on_dead == OnDead::Park
    }

    /// The last position that was drawn from the sequence, of which `alias` is the row. The row alone will not do: every 32
    /// values Postgres writes one to its log that is 32 ahead, and whoever reads the row meanwhile gets that. The function
    /// waits for it. It gives NULL until a first value was drawn, and then all before the segment may have been.
    fn drawn(&self, alias: &str) -> String {
        format!(
            "coalesce(pg_sequence_last_value({}::regclass), \
             greatest(({alias}.last_value >> {SEGMENT_BITS} << {SEGMENT_BITS}) - 1, 0))",
            literal(&self.sequence())
        )
    }
}
