//! Reading: where a stream stands, and the next records of it.

use super::StreamWriter;

impl StreamWriter<'_> {
    pub(super) fn groups(&self) -> String {
        format!(
            "SELECT coalesce(max(s.groups), 0) FROM {} AS s",
            self.progress()
        )
    }

    /// Its value of the sequence is a lower bound for what later transactions draw, so this comes before anything
    /// that gives the claim a transaction number.
    pub(super) fn look(&self, knows_system: bool) -> String {
        let system = if knows_system {
            "(SELECT system_identifier::text FROM pg_control_system())"
        } else {
            "NULL::text"
        };
        format!(
            "SELECT {} AS drawn, EXISTS (SELECT FROM {}) AS troubled, {system} AS system, \
             substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline FROM {} AS q",
            self.drawn("q"),
            self.troubles(),
            self.sequence(),
        )
    }

    /// A group's progress is one row whose version grows. It is found from the index's end, so that versions that are
    /// gone but cannot be cleaned up, because some transaction stays open, are not waded through.
    pub(super) fn latest(&self, group: &str) -> String {
        format!(
            "(SELECT * FROM {} AS s WHERE s.grp = {group} ORDER BY s.version DESC LIMIT 1)",
            self.progress()
        )
    }

    /// $1 groups, $2 limit, $3 versions whose records are not needed.
    ///
    /// The progress comes in one text: version, epoch, position, from_low, to_low, to_high, whether `to` is new, whether
    /// the snapshots lie ahead of the database, system identifier, timeline, from, to.
    pub(super) fn read(&self) -> String {
        let names = self.selection.names();
        let nulls = vec!["NULL"; self.selection.columns.len()].join(", ");
        format!(
            "WITH p AS MATERIALIZED (\n\
             SELECT s.*, w.known, coalesce(s.to_snapshot, pg_current_snapshot()) AS upto,\n  \
             CASE WHEN s.to_snapshot IS NULL THEN s.next_low ELSE s.to_low END AS upto_low,\n  \
             CASE WHEN s.to_snapshot IS NULL THEN {drawn} ELSE s.to_high END AS upto_high\n\
             FROM unnest($1::int4[], $3::int8[]) AS w(grp, known) CROSS JOIN {sequence} AS q\n\
             CROSS JOIN LATERAL {latest} AS s)\n\
             SELECT {nulls}, p.grp, concat_ws(' ', p.version, p.epoch, p.position, p.from_low, p.upto_low, \
             p.upto_high, p.to_snapshot IS NULL, greatest(pg_snapshot_xmax(p.from_snapshot), \
             pg_snapshot_xmax(p.upto)) > pg_snapshot_xmax(pg_current_snapshot()), coalesce(p.system, '-'), p.timeline, \
             p.from_snapshot, p.upto) AS progress FROM p\n\
             UNION ALL\n\
             SELECT {names}, p.grp, NULL FROM p CROSS JOIN LATERAL (\n\
             SELECT u.* FROM (\n{later}\nUNION ALL\n{running}\n) AS u ORDER BY u.c{id} LIMIT $2) AS r",
            drawn = self.drawn("q"),
            sequence = self.sequence(),
            latest = self.latest("w.grp"),
            later = self.later("p.upto", "$2"),
            running = self.running("p.upto", "$2"),
            id = self.selection.id,
        )
    }

    /// Records of transactions that began after `from`.
    fn later(&self, upto: &str, limit: &str) -> String {
        format!(
            "(SELECT {list} FROM {outbox} AS o\n\
             WHERE p.version <> p.known AND {position} > greatest(p.position, p.from_low) AND {position} <= p.upto_high\n\
             AND {xid} >= pg_snapshot_xmax(p.from_snapshot) AND pg_visible_in_snapshot({xid}, {upto}) AND {mine}\n\
             ORDER BY {position} LIMIT {limit})",
            list = self.selection.list(),
            outbox = self.outbox(),
            position = self.position("o"),
            xid = self.xid("o"),
            mine = self.mine(),
        )
    }

    /// Records of transactions that ran when `from` was taken: as a rule none, or few.
    fn running(&self, upto: &str, limit: &str) -> String {
        format!(
            "SELECT b.* FROM pg_snapshot_xip(p.from_snapshot) AS x(xid) CROSS JOIN LATERAL (\n\
             SELECT {list} FROM {outbox} AS o\n\
             WHERE p.version <> p.known AND {xid} = x.xid AND {position} > p.position\n\
             AND pg_visible_in_snapshot(x.xid, {upto}) AND {mine}\n\
             ORDER BY {position} LIMIT {limit}) AS b",
            list = self.selection.list(),
            outbox = self.outbox(),
            position = self.position("o"),
            xid = self.xid("o"),
            mine = self.mine(),
        )
    }

    pub(super) fn mine(&self) -> String {
        format!("{} = p.grp", self.group("o", "p.groups"))
    }
}
