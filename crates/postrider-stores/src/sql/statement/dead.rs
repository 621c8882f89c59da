//! What an operator does with dead records: they are found dead and locked first, then changed, in one transaction.

use postrider_core::layout::State;

use super::{Change, Writer, literal, of};

impl Writer<'_> {
    /// $1 ids, $2 outbox → the ids, as text, of those that are dead. The first look locks them, so that two operators
    /// do not both count them; the second sees what the first had to wait for.
    pub(super) fn dead_found(&self, lock: &str) -> String {
        format!(
            "SELECT {}\n{} AND {}\nAND {}\nORDER BY {} {lock}",
            (self.dialect.cast)(&self.id("o"), "text"),
            self.join_troubles("o", 2),
            self.dead("o"),
            (self.dialect.among)(&self.id("o"), 1, &self.id_list()),
            self.id("o"),
        )
    }

    pub(super) fn dead_resend(&self) -> Change {
        if let Some(resend) = self.stream_resend() {
            return Change::new(Some(resend), None);
        }
        let set = self.set_pending().join(", ");
        let outbox = (!set.is_empty()).then(|| {
            format!(
                "UPDATE {} AS o SET {set} WHERE {}",
                self.name(),
                (self.dialect.among)(&self.id("o"), 1, &self.id_list())
            )
        });
        let troubles = self.layout.needs_troubles().then(|| {
            format!(
                "UPDATE {} AS t SET attempts = 0, dead = false, next_attempt_at = {}, last_error = {}\n\
                 WHERE t.outbox = $1 AND {}",
                self.troubles(),
                self.dialect.now,
                self.resent("t.last_error", None),
                self.named_aside(),
            )
        });
        Change::new(outbox, troubles)
    }

    pub(super) fn dead_discard(&self) -> Change {
        if let Some(discard) = self.stream_discard() {
            return Change::new(Some(discard), None);
        }
        let outbox = format!(
            "DELETE FROM {} AS o WHERE {}",
            self.name(),
            (self.dialect.among)(&self.id("o"), 1, &self.id_list())
        );
        let troubles = self.layout.needs_troubles().then(|| self.forget_troubles());
        Change::new(Some(outbox), troubles)
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
                // Not now: a claim that began earlier would pass over it and take a later record of its key.
                let due = of("o", &columns.created_at);
                set.push(format!("{} = {due}", retry_at.quoted()));
            }
            State::Timestamp { .. } | State::Flag { .. } | State::Delete | State::Append { .. } => {
            }
        }
        set
    }

    /// An error that stays readable, marked as resent.
    pub(super) fn resent(&self, error: &str, chars_max: Option<u32>) -> String {
        let now = self.dialect.now_text;
        let chars = chars_max.unwrap_or(1024);
        let text = format!("'resent ' || {now} || coalesce(': ' || {error}, '')");
        (self.dialect.left)(&text, chars)
    }
}
