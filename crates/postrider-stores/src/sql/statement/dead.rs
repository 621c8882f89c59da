//! What an operator does with dead records. Every statement finds for itself that a record is dead.

use postrider_core::layout::{Identifier, State};

use super::{Writer, literal, of};

impl Writer<'_> {
    /// $1 limit, $2 ids or NULL, $3 event type or NULL, $4 key or NULL, $5 outbox →
    /// id, event type, key, topic, attempts, error, created at.
    pub(super) fn dead_list(&self) -> String {
        let columns = &self.layout.columns;
        let text = |column: &Option<Identifier>| match column {
            Some(column) => (self.dialect.cast)(&of("o", column), "text"),
            None => (self.dialect.cast)("NULL", "text"),
        };
        let (event_type, key) = (text(&columns.event_type), text(&columns.key));
        let (attempts, error) = if self.layout.needs_troubles() {
            ("t.attempts".into(), "t.last_error".into())
        } else {
            (self.attempts("o"), text(&columns.last_error))
        };
        format!(
            "SELECT {}, {event_type}, {key}, {}, {}, {error}, {}\n{} AND {}\n\
             AND ($2::{ids}[] IS NULL OR {})\n\
             AND ($3::text IS NULL OR {event_type} = $3)\nAND ($4::text IS NULL OR {key} = $4)\n\
             ORDER BY {} LIMIT $1",
            (self.dialect.cast)(&self.id("o"), "text"),
            text(&columns.topic),
            (self.dialect.cast)(&attempts, "int8"),
            (self.dialect.cast)(&of("o", &columns.created_at), "timestamptz"),
            self.join_troubles("o", 5),
            self.dead("o"),
            (self.dialect.among)(&self.id("o"), 2, &self.id_list()),
            self.order("o"),
            ids = self.bound_id(),
        )
    }

    /// $1 ids, $2 outbox.
    pub(super) fn dead_resend(&self) -> String {
        let set = self.set_pending().join(", ");
        let mine = (self.dialect.among)(&self.id("o"), 1, &self.id_list());
        if !self.layout.needs_troubles() {
            return format!(
                "UPDATE {} AS o SET {set} WHERE {mine} AND {}",
                self.name(),
                self.dead("o")
            );
        }
        let back = format!(
            "UPDATE {} AS t SET attempts = 0, dead = false, next_attempt_at = {}, last_error = {}\n\
             FROM found WHERE t.outbox = $2 AND {} = found.id",
            self.troubles(),
            self.dialect.now,
            self.resent("t.last_error", None),
            self.trouble_id(),
        );
        let marked = if set.is_empty() {
            String::new()
        } else {
            let name = self.name();
            format!(
                ", marked AS (\nUPDATE {name} AS o SET {set} FROM found WHERE {} = found.id)",
                self.id("o")
            )
        };
        format!("WITH {}{marked}\n{back}", self.found(&mine))
    }

    /// $1 ids, $2 outbox.
    pub(super) fn dead_discard(&self) -> String {
        let mine = (self.dialect.among)(&self.id("o"), 1, &self.id_list());
        if !self.layout.needs_troubles() {
            return format!(
                "DELETE FROM {} AS o WHERE {mine} AND {}",
                self.name(),
                self.dead("o")
            );
        }
        format!(
            "WITH {},\nforgotten AS (\nDELETE FROM {} AS t USING found WHERE t.outbox = $2 AND {} = found.id)\n\
             DELETE FROM {} AS o USING found WHERE {} = found.id",
            self.found(&mine),
            self.troubles(),
            self.trouble_id(),
            self.name(),
            self.id("o")
        )
    }

    /// The dead among the asked for, locked so that two operators do not both count them.
    fn found(&self, mine: &str) -> String {
        format!(
            "found AS MATERIALIZED (\nSELECT {} AS id {} AND {} AND {mine} {})",
            self.id("o"),
            self.join_troubles("o", 2),
            self.dead("o"),
            self.dialect.lock_waiting
        )
    }

    fn set_pending(&self) -> Vec<String> {
        let columns = &self.layout.columns;
        let mut set = Vec::new();
        if let Some(attempts) = &columns.attempts {
            set.push(format!("{} = 0", attempts.quoted()));
        }
        if let Some(error) = &columns.last_error {
            let chars_max = self.table.column(error).and_then(|column| column.chars_max);
            set.push(format!(
                "{} = {}",
                error.quoted(),
                self.resent(&of("o", error), chars_max)
            ));
        }
        match &self.layout.state {
            State::Flag {
                published,
                dead_is_flagged: true,
                ..
            } => {
                set.push(format!("{} = false", published.quoted()));
            }
            State::Status {
                column,
                pending,
                retry_at,
                ..
            } => {
                set.push(format!("{} = {}", column.quoted(), literal(pending)));
                set.push(format!("{} = {}", retry_at.quoted(), self.dialect.now));
            }
            State::Timestamp { .. } | State::Flag { .. } | State::Delete => {}
        }
        set
    }

    /// An error that stays readable, marked as resent.
    fn resent(&self, error: &str, chars_max: Option<u32>) -> String {
        let now = (self.dialect.cast)(self.dialect.now, "text");
        let chars = chars_max.unwrap_or(1024);
        (self.dialect.left)(
            &format!("'resent ' || {now} || coalesce(': ' || {error}, '')"),
            chars,
        )
    }

    fn bound_id(&self) -> String {
        let list = self.id_list();
        list.split_once("[]")
            .map_or(list.clone(), |(bound, _)| bound.into())
    }
}
