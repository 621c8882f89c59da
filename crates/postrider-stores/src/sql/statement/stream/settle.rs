//! Writing down how far a stream was read, and copies of what could not be published.

use super::StreamWriter;
use crate::sql::dialect::list;
use crate::sql::statement::literal;

/// How far groups were read is written as text with its values in it, so that it goes with the commit in one message.
#[derive(Debug, Clone)]
pub(crate) struct Advance(String);

/// What is written of one group.
#[derive(Debug, Clone)]
pub(crate) struct Moved {
    pub group: i32,
    /// As it was found. Where it is another by now, nothing is written.
    pub version: i64,
    pub epoch: i64,
    pub position: i64,
    /// A snapshot.
    pub from: String,
    pub from_low: i64,
    /// `None`: its end is not known yet.
    pub to: Option<String>,
    pub to_low: i64,
    pub to_high: i64,
}

/// What is written of all of them.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    /// The sequence before this transaction had a number.
    pub next_low: i64,
    pub system: Option<String>,
    pub timeline: String,
}

impl Advance {
    /// Fails with [`Advance::LOST`] where a group is not found as it was.
    pub(crate) fn text(&self, moved: &[Moved], stamp: &Stamp) -> String {
        let rows: Vec<String> = moved.iter().map(Moved::row).collect();
        format!(
            "WITH moved AS (UPDATE {progress} AS s SET version = s.version + 1, position = f.position, \
             from_snapshot = f.since, from_low = f.since_low, to_snapshot = f.upto, to_low = f.upto_low, \
             to_high = f.upto_high, next_low = {next_low}, system = {system}, timeline = {timeline}, updated_at = now()\n\
             FROM (VALUES {rows}) AS f(grp, version, epoch, position, since, since_low, upto, upto_low, upto_high)\n\
             WHERE s.grp = f.grp AND s.version = f.version AND s.epoch = f.epoch RETURNING 1)\n\
             SELECT CASE count(*) WHEN {count} THEN 0 ELSE (count(*) || ' of {count} groups found')::int4 END FROM moved",
            progress = self.0,
            next_low = stamp.next_low,
            system = or_null(stamp.system.as_deref()),
            timeline = literal(&stamp.timeline),
            rows = rows.join(", "),
            count = moved.len(),
        )
    }

    /// Of a text that is no number. SQL has no other way to fail on purpose.
    pub(crate) const LOST: &'static str = "22P02";
}

impl Moved {
    fn row(&self) -> String {
        format!(
            "({}, {}::int8, {}::int8, {}::int8, {}::pg_snapshot, {}::int8, {}::pg_snapshot, {}::int8, {}::int8)",
            self.group,
            self.version,
            self.epoch,
            self.position,
            literal(&self.from),
            self.from_low,
            or_null(self.to.as_deref()),
            self.to_low,
            self.to_high,
        )
    }
}

fn or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), literal)
}

impl StreamWriter<'_> {
    pub(super) fn advance(&self) -> Advance {
        Advance(self.progress())
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
