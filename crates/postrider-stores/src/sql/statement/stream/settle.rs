//! Writing down how far a stream was read, and copies of what could not be published.

use super::StreamWriter;
use crate::sql::dialect::list;

impl StreamWriter<'_> {
    /// $1 groups, $2 versions, $3 epochs, $4 positions, $5 from, $6 from_low, $7 to or NULL, $8 to_low, $9 to_high,
    /// $10 the sequence before this transaction had a number, $11 system identifier or NULL, $12 timeline.
    pub(super) fn advance(&self) -> String {
        format!(
            "UPDATE {} AS s SET version = s.version + 1, position = f.position, from_snapshot = f.since::pg_snapshot, \
             from_low = f.since_low, to_snapshot = f.upto::pg_snapshot, to_low = f.upto_low, to_high = f.upto_high, \
             next_low = $10, system = $11, timeline = $12, updated_at = now()\n\
             FROM unnest($1::int4[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[], $7::text[], \
             $8::int8[], $9::int8[]) AS f(grp, version, epoch, position, since, since_low, upto, upto_low, upto_high)\n\
             WHERE s.grp = f.grp AND s.version = f.version AND s.epoch = f.epoch",
            self.progress()
        )
    }

    /// $1 positions, $2 attempts, $3 errors or NULL, $4 microseconds to wait, $5 dead.
    pub(super) fn copy(&self) -> String {
        let columns = self.record_columns();
        let names: Vec<String> = columns.iter().map(|column| column.quoted()).collect();
        let values: Vec<String> = columns
            .iter()
            .map(|column| super::of("o", column))
            .collect();
        format!(
            "INSERT INTO {troubles} ({names}, attempts, last_error, next_attempt_at, dead)\n\
             SELECT {values}, f.attempts, f.error, {due}, f.dead FROM {fates}\n\
             JOIN {outbox} AS o ON {position} = f.position",
            troubles = self.troubles(),
            names = names.join(", "),
            values = values.join(", "),
            due = (self.writer.dialect.after)(self.writer.dialect.clock, "f.wait"),
            fates = self.fates(),
            outbox = self.outbox(),
            position = self.position("o"),
        )
    }

    pub(super) fn forget(&self) -> String {
        let named = (self.writer.dialect.among)(&self.position("o"), 1, "int8");
        format!("DELETE FROM {} AS o WHERE {named}", self.troubles())
    }

    /// $1 positions, $2 attempts, $3 errors, $4 microseconds to wait, $5 dead.
    pub(super) fn retry(&self) -> String {
        format!(
            "UPDATE {} AS o SET attempts = f.attempts, last_error = coalesce(f.error, o.last_error), \
             next_attempt_at = {}, dead = f.dead\n\
             FROM {} WHERE {} = f.position",
            self.troubles(),
            (self.writer.dialect.after)(self.writer.dialect.clock, "f.wait"),
            self.fates(),
            self.position("o"),
        )
    }

    fn fates(&self) -> String {
        let lists = [
            list(1, "int8", "position"),
            list(2, "int4", "attempts"),
            list(3, "text", "error"),
            list(4, "int8", "wait"),
            list(5, "bool", "dead"),
        ];
        (self.writer.dialect.rows)(&lists, "f")
    }

    /// The columns of a record that its copy has too.
    pub(super) fn record_columns(&self) -> Vec<&postrider_core::layout::Identifier> {
        let columns = &self.writer.layout.columns;
        let mut names = vec![&columns.id];
        let more = [
            columns.event_id.as_ref(),
            columns.event_type.as_ref(),
            columns.aggregate_type.as_ref(),
            columns.aggregate_id.as_ref(),
            columns.topic.as_ref(),
            columns.key.as_ref(),
            columns.idempotency_key.as_ref(),
            columns.version.as_ref(),
            Some(&columns.payload),
            columns.headers.as_ref(),
            columns.metadata.as_ref(),
            Some(&columns.created_at),
        ];
        for name in more.into_iter().flatten() {
            if !names.contains(&name) && self.writer.table.column(name).is_some() {
                names.push(name);
            }
        }
        names
    }
}
