//! Counting, for those who look after a stream.

use super::StreamWriter;
use crate::sql::statement::of;

impl StreamWriter<'_> {
    /// Every group's progress, as `p`.
    pub(super) fn standing(&self) -> String {
        format!(
            "SELECT s.* FROM generate_series(0, (SELECT max(m.groups) - 1 FROM {} AS m)) AS g(grp) \
             CROSS JOIN LATERAL {} AS s",
            self.progress(),
            self.latest("g.grp"),
        )
    }

    /// Whether a record of `o` has been read, by the progress `p` of its group: then it was published, or copied.
    pub(super) fn settled(&self) -> String {
        format!(
            "(pg_visible_in_snapshot({xid}, p.from_snapshot) OR p.to_snapshot IS NOT NULL \
             AND {position} <= p.position AND pg_visible_in_snapshot({xid}, p.to_snapshot))",
            xid = self.xid("o"),
            position = self.position("o"),
        )
    }

    pub(super) fn backlog(&self) -> String {
        let created_at = of("o", &self.writer.layout.columns.created_at);
        let outbox = self.outbox();
        // Every record is looked at once, whatever its group.
        let later = format!(
            "SELECT {created_at} AS made FROM {outbox} AS o JOIN p ON {mine}\n\
             WHERE {position} > (SELECT min(from_low) FROM p) AND {xid} >= pg_snapshot_xmax(p.from_snapshot) AND NOT {settled}",
            mine = self.mine(),
            position = self.position("o"),
            xid = self.xid("o"),
            settled = self.settled(),
        );
        let running = format!(
            "SELECT {created_at} FROM p CROSS JOIN LATERAL pg_snapshot_xip(p.from_snapshot) AS x(xid) CROSS JOIN LATERAL \
             (SELECT * FROM {outbox} AS o WHERE {xid} = x.xid OFFSET 0) AS o WHERE {mine} AND NOT {settled}",
            mine = self.mine(),
            xid = self.xid("o"),
            settled = self.settled(),
        );
        format!(
            "WITH p AS MATERIALIZED ({standing}), unread AS (\n{later}\nUNION ALL\n{running}\n\
             UNION ALL SELECT {created_at} FROM {troubles} AS o WHERE NOT o.dead)\n\
             SELECT count(*) AS pending, {age} AS oldest,\n\
             (SELECT count(*) FROM {troubles} AS o WHERE o.dead) AS dead FROM unread",
            standing = self.standing(),
            troubles = self.troubles(),
            age = (self.writer.dialect.micros_between)("min(made)", self.writer.dialect.clock),
        )
    }

    /// A record that was copied is what its copy says. Copies outlive the segments of their records.
    pub(super) fn records(&self) -> String {
        let columns = self.record_columns();
        let list = |alias: &str| -> String {
            let names = columns.iter().map(|column| of(alias, column));
            names.collect::<Vec<_>>().join(", ")
        };
        format!(
            "(SELECT {own}, {settled} AS settled, false AS dead, 0 AS attempts, NULL::text AS last_error, \
             NULL::timestamptz AS next_attempt_at\nFROM {outbox} AS o JOIN ({standing}) AS p ON {mine}\n\
             WHERE NOT EXISTS (SELECT FROM {troubles} AS c WHERE {copied})\n\
             UNION ALL SELECT {copies}, false, c.dead, c.attempts, c.last_error, c.next_attempt_at FROM {troubles} AS c)",
            own = list("o"),
            settled = self.settled(),
            outbox = self.outbox(),
            standing = self.standing(),
            mine = self.mine(),
            troubles = self.troubles(),
            copied = self.is_copy("c", "o"),
            copies = list("c"),
        )
    }

    pub(super) fn resend(&self) -> String {
        format!(
            "UPDATE {} AS o SET attempts = 0, dead = false, next_attempt_at = {}, last_error = {} WHERE {}",
            self.troubles(),
            self.writer.dialect.now,
            self.writer.resent("o.last_error", None),
            self.among(),
        )
    }

    /// The record goes with its copy, or it would look published.
    pub(super) fn discard(&self) -> String {
        format!(
            "WITH c AS (DELETE FROM {} AS o WHERE {} RETURNING o.*)\nDELETE FROM {} AS o USING c WHERE {}",
            self.troubles(),
            self.among(),
            self.outbox(),
            self.is_copy("c", "o"),
        )
    }

    fn among(&self) -> String {
        (self.writer.dialect.among)(&self.position("o"), 1, "int8")
    }
}
