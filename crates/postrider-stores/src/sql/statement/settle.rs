//! Writing fates: one statement for all that were published, one for all that were not. Each touches
//! only records that are still what the claim left them as.

use postrider_core::layout::State;

use super::{Writer, literal, of};
use crate::sql::dialect::list;

impl Writer<'_> {
    /// $1 ids; in lease mode $2 the token.
    pub(super) fn settle_published(&self) -> String {
        let mine = (self.dialect.among)(&self.id("o"), 1, &self.id_list());
        let clock = self.dialect.clock;
        let set = match &self.layout.state {
            State::Delete | State::Append { .. } => {
                return format!("DELETE FROM {} AS o WHERE {mine}", self.name());
            }
            State::Timestamp { published_at } => format!("{} = {clock}", published_at.quoted()),
            State::Flag {
                published,
                published_at,
                ..
            } => {
                let mut set = format!("{} = true", published.quoted());
                if let Some(published_at) = published_at {
                    set += &format!(", {} = {clock}", published_at.quoted());
                }
                // An error on a published record would make it look dead.
                if let Some(error) = &self.layout.columns.last_error {
                    set += &format!(", {} = NULL", error.quoted());
                }
                set
            }
            State::Status {
                column,
                published,
                published_at,
                ..
            } => {
                let mut set = format!("{} = {}", column.quoted(), literal(published));
                if let Some(published_at) = published_at {
                    set += &format!(", {} = {clock}", published_at.quoted());
                }
                set
            }
        };
        format!(
            "UPDATE {} AS o SET {set}\nWHERE {mine} AND {}",
            self.name(),
            self.claimed()
        )
    }

    /// The columns whose values that statement changes, in a record that never failed.
    #[cfg(feature = "postgres")]
    pub(crate) fn changed_by_settle(&self) -> Vec<&postrider_core::layout::Identifier> {
        match &self.layout.state {
            State::Delete | State::Append { .. } => Vec::new(),
            State::Timestamp { published_at } => vec![published_at],
            State::Flag {
                published: column,
                published_at,
                ..
            }
            | State::Status {
                column,
                published_at,
                ..
            } => [column].into_iter().chain(published_at).collect(),
        }
    }

    /// What marks the records, where that takes a statement of its own, and what settles them.
    pub(super) fn settle_failed(&self) -> (Option<String>, String) {
        match &self.layout.state {
            State::Timestamp { .. } => (None, self.settle_failed_by_attempts()),
            State::Status { .. } => (None, self.settle_failed_by_status()),
            State::Flag { .. } | State::Delete | State::Append { .. } => self.settle_failed_aside(),
        }
    }

    /// What still has to be true of a record that this claim holds.
    fn claimed(&self) -> String {
        match &self.layout.state {
            State::Status {
                column,
                publishing,
                last_attempt_at,
                ..
            } => format!(
                "{} = {} AND {} = $2",
                of("o", column),
                literal(publishing),
                of("o", last_attempt_at)
            ),
            _ => self.by_id(self.unpublished("o")),
        }
    }

    /// A condition on a record that is looked up by its id. The CASE matches no index of what is not published: to the planner
    /// such an index looks small, but while a transaction is open elsewhere it has the entries of all that was
    /// published since.
    pub(super) fn by_id(&self, condition: String) -> String {
        match self.dialect.locks_rows {
            true => format!("CASE WHEN {condition} THEN true END"),
            false => condition,
        }
    }

    /// $1 ids, $2 attempts, $3 errors. Enough attempts are death.
    fn settle_failed_by_attempts(&self) -> String {
        let fates = (self.dialect.rows)(
            &[
                list(1, &self.id_list(), "id"),
                list(2, "int4", "attempts"),
                list(3, "text", "error"),
            ],
            "f",
        );
        let mut set = Vec::new();
        if let Some(attempts) = &self.layout.columns.attempts {
            set.push(format!("{} = f.attempts", attempts.quoted()));
        }
        set.extend(self.set_error());
        format!(
            "UPDATE {} AS o SET {}\nFROM {fates}\nWHERE {} = f.id AND {}",
            self.name(),
            set.join(", "),
            self.id("o"),
            self.claimed()
        )
    }

    /// $1 ids, $2 token, $3 states, $4 attempts or NULL, $5 microseconds to wait, $6 errors or NULL.
    fn settle_failed_by_status(&self) -> String {
        let State::Status {
            column, retry_at, ..
        } = &self.layout.state
        else {
            return String::new();
        };
        let fates = (self.dialect.rows)(
            &[
                list(1, &self.id_list(), "id"),
                list(3, "text", "status"),
                list(4, "int4", "attempts"),
                list(5, "int8", "wait"),
                list(6, "text", "error"),
            ],
            "f",
        );
        let status = (self.dialect.cast)("f.status", self.table.sql_type(column));
        let due = (self.dialect.after)(self.dialect.now, "f.wait");
        let mut set = vec![
            format!("{} = {status}", column.quoted()),
            format!("{} = {due}", retry_at.quoted()),
        ];
        if let Some(attempts) = &self.layout.columns.attempts {
            set.push(format!(
                "{} = coalesce(f.attempts, {})",
                attempts.quoted(),
                of("o", attempts)
            ));
        }
        set.extend(self.set_error());
        format!(
            "UPDATE {} AS o SET {}\nFROM {fates}\nWHERE {} = f.id AND {}",
            self.name(),
            set.join(", "),
            self.id("o"),
            self.claimed()
        )
    }

    /// $1 ids, $2 attempts, $3 errors, $4 microseconds to wait, $5 dead, $6 keys, $7 outbox.
    fn settle_failed_aside(&self) -> (Option<String>, String) {
        let fates = (self.dialect.rows)(
            &[
                list(1, &self.id_list(), "id"),
                list(2, "int4", "attempts"),
                list(3, "text", "error"),
                list(4, "int8", "wait"),
                list(5, "bool", "dead"),
                list(6, "text", "key"),
            ],
            "f",
        );
        let mut set: Vec<String> = self.set_error().into_iter().collect();
        if let State::Flag {
            published,
            dead_is_flagged: true,
            ..
        } = &self.layout.state
        {
            set.push(format!("{} = f.dead", published.quoted()));
        }
        let mark = |fates: &str| {
            format!(
                "UPDATE {} AS o SET {} FROM {fates} WHERE {} = f.id AND {}",
                self.name(),
                set.join(", "),
                self.id("o"),
                self.claimed()
            )
        };
        if !self.dialect.writes_nest {
            // Without a condition, ON CONFLICT would be read as a join's.
            let note = self.note_troubles(&format!("{fates} WHERE true"));
            return ((!set.is_empty()).then(|| mark(&fates)), note);
        }
        let note = self.note_troubles("f");
        let fates = format!("WITH f AS (SELECT * FROM {fates})");
        // What changes the outbox comes last: the server tells how many rows that has changed.
        let text = match set.is_empty() {
            true => format!("{fates}\n{note}"),
            false => format!("{fates}, noted AS (\n{note})\n{}", mark("f")),
        };
        (None, text)
    }

    /// Keeps failures aside: the rows of `fates`, under the name `f`. $7 outbox.
    fn note_troubles(&self, fates: &str) -> String {
        let id = (self.dialect.cast)("f.id", "text");
        format!(
            "INSERT INTO {} (outbox, record_id, id_token, key, key_token, record_created_at, attempts, \
             next_attempt_at, last_error, dead)\n\
             SELECT $7, {id}, {}, f.key, {}, (SELECT {} FROM {} AS o WHERE {} = f.id LIMIT 1), f.attempts, {}, f.error, f.dead \
             FROM {fates}\n\
             ON CONFLICT (outbox, id_token) DO UPDATE SET record_id = excluded.record_id, key = excluded.key, \
             key_token = excluded.key_token, record_created_at = excluded.record_created_at, \
             attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, \
             last_error = excluded.last_error, dead = excluded.dead",
            self.troubles(),
            (self.dialect.id_token)(&id),
            (self.dialect.key_token)("f.key"),
            self.born("o"),
            self.name(),
            self.id("o"),
            (self.dialect.after)(self.dialect.clock, "f.wait"),
        )
    }

    /// When a record was made: with its id it tells it from a later one that was given the same id.
    pub(super) fn born(&self, alias: &str) -> String {
        (self.dialect.cast)(&of(alias, &self.layout.columns.created_at), "timestamptz")
    }

    /// See [`super::Statements::pending_of`].
    pub(super) fn pending_of(&self) -> String {
        let mine = (self.dialect.among)(&self.id("o"), 1, &self.id_list());
        format!(
            "SELECT {} AS c0 FROM {} AS o WHERE {mine} AND {}",
            self.id("o"),
            self.name(),
            self.by_id(self.pending("o"))
        )
    }

    /// See [`super::Statements::sweep`].
    pub(super) fn sweep(&self) -> Option<String> {
        let stray = self.stray();
        (self.layout.needs_troubles())
            .then(|| format!("DELETE FROM {} AS t WHERE {stray}", self.troubles()))
    }

    pub(super) fn any_stray(&self) -> String {
        format!(
            "SELECT 1 FROM {} AS t WHERE {} LIMIT 1",
            self.troubles(),
            self.stray()
        )
    }

    /// What is kept aside though its record is gone, is another one, or was settled by hand. By look-ups of the ids: no
    /// plan reads the whole outbox for it.
    fn stray(&self) -> String {
        let unpublished = self.unpublished("o");
        let still = match &self.layout.state {
            State::Flag { published, .. } if self.flags_dead() => {
                let published = of("o", published);
                let error = (self.layout.columns.last_error.as_ref())
                    .map(|error| format!(" AND {} IS NOT NULL", of("o", error)));
                let flagged = format!("{published} = true{}", error.unwrap_or_default());
                format!("CASE WHEN t.dead THEN {flagged} ELSE {unpublished} END")
            }
            _ => self.by_id(self.unpublished("o")),
        };
        format!(
            "t.outbox = $1 AND (\n\
             SELECT true FROM {} AS o WHERE {} = {} AND (t.record_created_at = {}) IS NOT FALSE AND {still} LIMIT 1) IS NULL",
            self.name(),
            self.id("o"),
            self.trouble_id(),
            self.born("o"),
        )
    }

    fn set_error(&self) -> Option<String> {
        let column = self.layout.columns.last_error.as_ref()?;
        let kept = format!("coalesce(f.error, {})", of("o", column));
        let bound = self
            .table
            .column(column)
            .and_then(|column| column.chars_max);
        let error = bound.map_or(kept.clone(), |chars| (self.dialect.left)(&kept, chars));
        Some(format!("{} = {error}", column.quoted()))
    }

    pub(super) fn forget_troubles(&self) -> String {
        let named = self.named_aside();
        format!(
            "DELETE FROM {} AS t WHERE t.outbox = $1 AND {named}",
            self.troubles()
        )
    }

    /// Those kept aside whose record ids are $2, as text.
    pub(super) fn named_aside(&self) -> String {
        let ids = (self.dialect.id_token)("v.x");
        format!(
            "t.id_token IN (SELECT {ids} FROM {})",
            (self.dialect.texts)(2)
        )
    }
}
