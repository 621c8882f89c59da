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
    /// A statement per group. A join of all would do, but where the planner takes the table to be small it reads all of its
    /// index, with every version that cannot be removed yet. Fails with [`Advance::LOST`] where a group is not found as it was.
    pub(crate) fn text(&self, moved: &[Moved], stamp: &Stamp) -> String {
        let each: Vec<String> = moved.iter().map(|moved| self.one(moved, stamp)).collect();
        each.join(";\n")
    }

    fn one(&self, moved: &Moved, stamp: &Stamp) -> String {
        format!(
            "WITH moved AS (UPDATE {progress} AS s SET version = s.version + 1, position = {position}, \
             from_snapshot = {from}, from_low = {from_low}, to_snapshot = {to}, to_low = {to_low}, to_high = {to_high}, \
             next_low = {next_low}, system = {system}, timeline = {timeline}, updated_at = now()\n\
             WHERE s.grp = {group} AND s.version = {version} AND s.epoch = {epoch} RETURNING 1)\n\
             SELECT CASE count(*) WHEN 1 THEN 0 ELSE (count(*) || ' rows of group {group} found')::int4 END FROM moved",
            progress = self.0,
            position = moved.position,
            from = literal(&moved.from),
            from_low = moved.from_low,
            to = or_null(moved.to.as_deref()),
            to_low = moved.to_low,
            to_high = moved.to_high,
            next_low = stamp.next_low,
            system = or_null(stamp.system.as_deref()),
            timeline = literal(&stamp.timeline),
            group = moved.group,
            version = moved.version,
            epoch = moved.epoch,
        )
    }

    /// Of a text that is no number. SQL has no other way to fail on purpose.
    pub(crate) const LOST: &'static str = "22P02";
}

fn or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), literal)
}

impl StreamWriter<'_> {
    pub(super) fn advance(&self) -> Advance {
        Advance(self.progress())
    }

    /// $1 positions, $2 attempts, $3 errors or NULL, $4 microseconds to wait, $5 dead. A record that comes again, because progress
    /// was lost, is as bad as its copy says.
    pub(super) fn copy(&self) -> String {
        let columns = self.record_columns();
        let names: Vec<String> = columns.iter().map(|column| column.quoted()).collect();
        let values: Vec<String> = columns
            .iter()
            .map(|column| super::of("o", column))
            .collect();
        format!(
            "INSERT INTO {troubles} AS c ({names}, attempts, last_error, next_attempt_at, dead)\n\
             SELECT {values}, f.attempts, f.error, {due}, f.dead FROM {fates}\n\
             JOIN {outbox} AS o ON {position} = f.position\n\
             ON CONFLICT ({id}) DO UPDATE SET attempts = greatest(c.attempts, excluded.attempts), \
             last_error = coalesce(excluded.last_error, c.last_error), \
             next_attempt_at = greatest(c.next_attempt_at, excluded.next_attempt_at), dead = c.dead OR excluded.dead\n\
             WHERE {again}",
            troubles = self.troubles(),
            names = names.join(", "),
            values = values.join(", "),
            due = (self.writer.dialect.after)(self.writer.dialect.clock, "f.wait"),
            fates = self.fates(),
            outbox = self.outbox(),
            position = self.position("o"),
            id = self.position(""),
            again = self.is_copy("c", "excluded"),
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
