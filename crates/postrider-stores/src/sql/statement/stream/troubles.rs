//! Records that failed, and what waits behind them: copies that outlive their segment.

use super::StreamWriter;

impl StreamWriter<'_> {
    /// $1 groups, $2 limit, $3 how many groups there are → the record, its attempts.
    pub(super) fn due(&self) -> String {
        // One moment for all of it: by a clock that goes on, what waits behind a record could become due before it does.
        let now = "statement_timestamp()";
        let mut conditions = vec![
            format!("NOT o.dead AND o.next_attempt_at <= {now}"),
            format!("{} = ANY($1::int4[])", self.group("o", "$3::int4")),
        ];
        if let (true, Some(key)) = (self.ordered(), &self.writer.layout.columns.key) {
            let dead = if self.parks() {
                "b.dead OR NOT b.dead AND"
            } else {
                "NOT b.dead AND"
            };
            let (blocking, blocked) = (super::of("b", key), super::of("o", key));
            let token = self.writer.dialect.key_token;
            conditions.push(format!(
                "NOT EXISTS (SELECT FROM {} AS b WHERE {} = {} AND {blocking} = {blocked} \
                 AND {} < {} AND ({dead} b.next_attempt_at > {now}))",
                self.troubles(),
                token(&blocking),
                token(&blocked),
                self.position("b"),
                self.position("o"),
            ));
        }
        format!(
            "SELECT {}, o.attempts AS attempts FROM {} AS o\nWHERE {}\nORDER BY {} LIMIT $2",
            self.selection.list(),
            self.troubles(),
            conditions.join("\nAND "),
            self.position("o"),
        )
    }

    /// $1 keys.
    pub(super) fn parked(&self) -> String {
        let Some(key) = &self.writer.layout.columns.key else {
            return "SELECT NULL::text, 0::int8 WHERE false".into();
        };
        let alive = if self.parks() { "" } else { " AND NOT o.dead" };
        let key = super::of("o", key);
        // The index has tokens only.
        let token = self.writer.dialect.key_token;
        format!(
            "SELECT {key}::text, count(*) FROM {} AS o WHERE {} = ANY(ARRAY(SELECT {} FROM unnest($1::text[]) AS v(x)))\n\
             AND {key} = ANY($1::text[]){alive} GROUP BY 1",
            self.troubles(),
            token(&key),
            token("v.x"),
        )
    }

    /// In their order, and before those that are kept: these are younger, since their records are there.
    pub(super) fn aside(&self) -> String {
        let columns = self.record_columns();
        let more = columns[1..].iter().map(|column| column.quoted());
        format!(
            "WITH gone AS (DELETE FROM {troubles} AS c\n\
             WHERE NOT EXISTS (SELECT FROM {outbox} AS o WHERE {own})\n\
             AND EXISTS (SELECT FROM {troubles} AS c JOIN {outbox} AS o ON {at} = {position} AND NOT ({own})) RETURNING c.*)\n\
             INSERT INTO {troubles} ({id}, {more}, attempts, last_error, next_attempt_at, dead)\n\
             SELECT row_number() OVER (ORDER BY {id}) - count(*) OVER () - 1, {more}, attempts, last_error, next_attempt_at, dead \
             FROM gone",
            troubles = self.troubles(),
            outbox = self.outbox(),
            own = self.is_copy("c", "o"),
            at = self.position("c"),
            position = self.position("o"),
            id = self.position(""),
            more = more.collect::<Vec<_>>().join(", "),
        )
    }
}
