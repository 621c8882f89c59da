//! Taking records. Never a cursor: always what is visible and pending now, in order.

use postrider_core::layout::{ClaimMode, State};
use postrider_core::{OnDead, Ordering};

use super::{Writer, literal, of};
use crate::sql::selection::Selection;

impl Writer<'_> {
    pub(super) fn claim(&self, selection: &Selection) -> String {
        match self.layout.claim {
            ClaimMode::Lease if self.dialect.locks_rows => self.claim_by_lease(selection),
            ClaimMode::Hold | ClaimMode::Lease | ClaimMode::Stream => format!(
                "SELECT {}\nFROM {} AS o\nWHERE {}\nORDER BY {}\nLIMIT $1\n{}",
                selection.list(),
                self.name(),
                self.claimable(),
                self.order("o"),
                self.lock()
            ),
        }
    }

    /// $1 ids. Where nobody else can write meanwhile, records are read first and then marked as being published.
    pub(super) fn mark(&self) -> Option<String> {
        let State::Status {
            column,
            publishing,
            last_attempt_at,
            ..
        } = &self.layout.state
        else {
            return None;
        };
        Some(format!(
            "UPDATE {} AS o SET {} = {}, {} = {}\nWHERE {}",
            self.name(),
            column.quoted(),
            literal(publishing),
            last_attempt_at.quoted(),
            self.dialect.now,
            (self.dialect.among)(&self.id("o"), 1, &self.id_list())
        ))
    }

    fn lock(&self) -> &'static str {
        match self.layout.ordering {
            // A locked record that is passed over would be overtaken by a later one of its key.
            Ordering::Key => self.dialect.lock_waiting,
            Ordering::None => self.dialect.lock_skipping,
        }
    }

    pub(super) fn claimable(&self) -> String {
        let mut conditions = vec![self.pending("o")];
        if let State::Status { .. } = self.layout.state {
            conditions.push(self.due("o"));
        }
        conditions.extend(self.in_lanes());
        conditions.extend(self.not_troubled());
        conditions.extend(self.not_resting());
        conditions.extend(self.not_held());
        conditions.extend(self.key_not_blocked());
        conditions.join("\nAND ")
    }

    pub(super) fn in_lanes(&self) -> Option<String> {
        self.ordered_key()?;
        let among = (self.dialect.among)(&self.lane("o"), 2, "int4");
        let lanes = (self.dialect.cast)("$2", "int4[]");
        Some(format!("({lanes} IS NULL OR {among})"))
    }

    /// A record whose troubles are kept aside: not while it waits, nor when it is dead.
    fn not_troubled(&self) -> Option<String> {
        if !self.layout.needs_troubles() {
            return None;
        }
        let dead_too = match self.layout.state {
            // A dead record is marked published; one that is not was set back by hand.
            State::Flag {
                dead_is_flagged: true,
                ..
            } => "NOT t.dead AND ",
            _ => "t.dead OR ",
        };
        Some(format!(
            "{} NOT IN (\n  SELECT {} FROM {} AS t WHERE t.outbox = $3 AND ({dead_too}t.next_attempt_at > {}))",
            self.id("o"),
            self.trouble_id(),
            self.troubles(),
            self.dialect.now
        ))
    }

    /// Where the table has no column for the retry time, the store itself remembers who rests.
    fn not_resting(&self) -> Option<String> {
        if !matches!(self.layout.state, State::Timestamp { .. }) {
            return None;
        }
        let ids = format!(
            "{} NOT IN ({})",
            self.id("o"),
            (self.dialect.values)(3, &self.id_list())
        );
        let Some(key) = self.ordered_key() else {
            return Some(ids);
        };
        let keys = (self.dialect.values)(4, &format!("text[]::{}", self.table.sql_type(key)));
        let key = of("o", key);
        Some(format!(
            "{ids}\nAND ({key} IS NULL OR {key} NOT IN ({keys}))"
        ))
    }

    /// Where rows cannot be locked, the store knows which of them others hold: $5. With order per key it knows lanes.
    fn not_held(&self) -> Option<String> {
        let by_row = self.layout.ordering == Ordering::None
            && self.layout.claim == ClaimMode::Hold
            && !self.dialect.locks_rows;
        by_row.then(|| {
            format!(
                "{} NOT IN ({})",
                self.id("o"),
                (self.dialect.values)(5, &self.id_list())
            )
        })
    }

    /// Keys of which a record is held, waits to be tried again, or is dead and parks its key. They are
    /// few, and one look-up each in a hash of them does not change how the records are scanned.
    fn key_not_blocked(&self) -> Option<String> {
        let key = of("o", self.ordered_key()?);
        let blocking = self.blocking_keys()?;
        Some(format!("({key} IS NULL OR {key} NOT IN (\n  {blocking}))"))
    }

    /// The select of blocked keys, if this layout has any in its tables.
    pub(crate) fn blocking_keys(&self) -> Option<String> {
        let key = of("b", self.ordered_key()?);
        let parks = self.rules.on_dead == OnDead::Park;
        let now = self.dialect.now;
        let blocks = match &self.layout.state {
            State::Timestamp { .. } if !parks => return None,
            State::Timestamp { .. } => self.dead("b"),
            State::Status { .. } => format!("{} AND {}", self.unsettled_by_row("b"), self.blocks("b")),
            State::Flag { .. } | State::Delete | State::Append { .. } => {
                let waits = format!(
                    "NOT t.dead AND t.next_attempt_at > {now} AND {}",
                    self.pending("b")
                );
                if parks {
                    format!("({waits} OR {})", self.dead("b"))
                } else {
                    waits
                }
            }
        };
        let from = self.join_troubles("b", 3);
        Some(format!(
            "SELECT {key} {from} AND {key} IS NOT NULL AND {blocks}"
        ))
    }

    pub(super) fn troubles_of(&self) -> String {
        let dead = match self.layout.state {
            State::Flag {
                dead_is_flagged: true,
                ..
            } => "NOT t.dead AND ",
            _ => "t.dead OR ",
        };
        format!(
            "SELECT t.record_id, t.attempts, ({dead}t.next_attempt_at > {}) AS blocked\n\
             FROM {} AS t WHERE t.outbox = $1 AND {}",
            self.dialect.now,
            self.troubles(),
            (self.dialect.among)("t.record_id", 2, "text"),
        )
    }

    pub(super) fn lanes_of(&self) -> String {
        format!(
            "SELECT DISTINCT {} AS lane FROM {} AS o WHERE {} ORDER BY lane",
            self.lane("o"),
            self.name(),
            (self.dialect.among)(&self.id("o"), 1, &self.id_list())
        )
    }
}
