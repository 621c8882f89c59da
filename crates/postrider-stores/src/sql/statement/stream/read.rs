//! Reading: where a stream stands, and the next records of it.

use std::sync::Arc;

use super::segments::{SEGMENTS, segment};
use super::{Stream, StreamWriter};
use crate::sql::statement::literal;

/// Finding the records of a difference of snapshots. All statements take limit, the groups that are
/// wanted or NULL for all, and how many there are, first.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    /// One per segment: lowest position, not included; highest; the first transaction that is later
    /// than `from`; `to` → records of later transactions, in order of position.
    pub later: Vec<Arc<str>>,
    /// transactions, position, another → records of these transactions above the first position and
    /// up to the other, in order of position.
    pub running: Arc<str>,
    /// One per segment: what `later` takes, then what `running` takes → what both find, in order of
    /// position.
    pub both: Vec<Arc<str>>,
}

impl Stream {
    /// Where `groups` stand, as [`StreamWriter::look`] has it. Run as it stands, so that it can go
    /// with others in one message.
    pub(crate) fn look(&self, groups: &[u32]) -> String {
        let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
        self.look
            .replace("{groups}", &format!("{{{}}}", groups.join(",")))
    }
}

impl StreamWriter<'_> {
    pub(super) fn groups(&self) -> String {
        format!(
            "SELECT coalesce(max(s.groups), 0) FROM {} AS s",
            self.progress()
        )
    }

    /// Its value of the sequence is a lower bound for what later transactions draw, so this comes
    /// before anything that gives the claim a transaction number. It is also an upper bound for
    /// what the snapshot has: the snapshot is taken first.
    pub(super) fn look(&self) -> String {
        format!(
            "SELECT pg_relation_filenode({sequence_literal})::int8 AS file, s.grp, s.groups, s.version, s.epoch, s.position, s.from_snapshot::text, s.from_low, s.to_snapshot::text, \
             s.to_low, s.to_high, s.next_low, s.system, s.timeline, pg_current_snapshot()::text AS now, {drawn} AS drawn, \
             EXISTS (SELECT FROM {troubles}) AS troubled, pg_postmaster_start_time()::text AS here_since, \
             CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS here_timeline, \
             current_setting('transaction_read_only') = 'on' AS read_only\n\
             FROM {sequence} AS q CROSS JOIN unnest('{{groups}}'::int4[]) AS w(grp) CROSS JOIN LATERAL {latest} AS s",
            sequence_literal = literal(&self.sequence()),
            drawn = self.drawn("q"),
            troubles = self.troubles(),
            sequence = self.sequence(),
            latest = self.latest("w.grp"),
        )
    }

    pub(super) fn set_back(&self) -> String {
        format!(
            "SELECT EXISTS (SELECT FROM ({}) AS p CROSS JOIN {} AS o\n\
             WHERE {} >= pg_snapshot_xmax(p.from_snapshot) AND {} <= p.from_low)",
            self.standing(),
            self.outbox(),
            self.xid("o"),
            self.position("o"),
        )
    }

    pub(super) fn prepare(&self) -> String {
        let (progress, troubles) = (self.progress(), self.troubles());
        format!("LOCK TABLE {progress}, {troubles} IN ROW EXCLUSIVE MODE")
    }

    /// A group's progress is one row whose version grows. It is found from the index's end, so that
    /// versions that are gone but cannot be cleaned up, because some transaction stays open, are
    /// not waded through.
    pub(super) fn latest(&self, group: &str) -> String {
        format!(
            "(SELECT * FROM {} AS s WHERE s.grp = {group} ORDER BY s.version DESC LIMIT 1)",
            self.progress()
        )
    }

    pub(super) fn difference(&self) -> Difference {
        Difference {
            later: (0..SEGMENTS)
                .map(|number| self.later(number).into())
                .collect(),
            running: self.running(4).into(),
            both: (0..SEGMENTS)
                .map(|number| self.both(number).into())
                .collect(),
        }
    }

    /// Records of transactions that began after `from`. A segment is read by itself: in order of
    /// its own index there is nothing to merge and nothing to sort. What is the same for all rows
    /// is worked out once, in subqueries.
    fn later(&self, number: i64) -> String {
        format!(
            "SELECT {list} FROM {segment} AS o\n\
             WHERE {position} > $4::int8 AND {position} <= $5::int8\n\
             AND {xid} >= (SELECT $6::text::xid8) AND pg_visible_in_snapshot({xid}, (SELECT $7::text::pg_snapshot))\n\
             AND {wanted}\n\
             ORDER BY {position} LIMIT $1::int8",
            list = self.selection.list(),
            segment = segment(&self.writer.layout.table, number).quoted(),
            position = self.position("o"),
            xid = self.xid("o"),
            wanted = self.wanted(),
        )
    }

    fn both(&self, number: i64) -> String {
        let (later, running) = (self.later(number), self.running_of_each(8));
        format!("SELECT * FROM (({later})\nUNION ALL\n({running})) AS u ORDER BY c0 LIMIT $1::int8")
    }

    fn running(&self, first: u32) -> String {
        format!(
            "{} ORDER BY b.c0 LIMIT $1::int8",
            self.running_of_each(first)
        )
    }

    /// Records of transactions that ran when `from` was taken: as a rule none, or few, but not more
    /// of each than are wanted. Ordered by transaction first, so that no index but that of
    /// transactions will do. `first` is the number of its first parameter after those of all.
    fn running_of_each(&self, first: u32) -> String {
        format!(
            "SELECT b.* FROM unnest(${first}::text[]) AS x(xid) CROSS JOIN LATERAL (\n\
             SELECT {list} FROM {outbox} AS o\n\
             WHERE ({xid}, {position}) > (x.xid::xid8, ${after}::int8) AND {xid} <= x.xid::xid8 AND {position} <= ${upto}::int8 AND {wanted}\n\
             ORDER BY {xid}, {position} LIMIT $1::int8) AS b",
            after = first + 1,
            upto = first + 2,
            list = self.selection.list(),
            outbox = self.outbox(),
            position = self.position("o"),
            xid = self.xid("o"),
            wanted = self.wanted(),
        )
    }

    /// Whether a record is of the wanted groups, $2, of $3.
    fn wanted(&self) -> String {
        format!(
            "($2::int4[] IS NULL OR {} = ANY($2::int4[]))",
            self.group("o", "$3::int4")
        )
    }

    /// Whether a record is of the group that `p` tells of.
    pub(super) fn mine(&self) -> String {
        format!("{} = p.grp", self.group("o", "p.groups"))
    }
}
