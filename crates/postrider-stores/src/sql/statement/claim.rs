//! Taking records. Never a cursor: always what is visible and pending now, in order.
//!
//! $1 limit, $2 lanes or NULL for all, $3 outbox, $4 ids and $5 keys that the store leaves alone,
//! as texts, $6 ids of records that failed and are due, where only memory knows, $7 by lease in
//! order: how many records to look at, $8 where rows cannot be locked and order does not matter:
//! the ids that others hold, $9 where the claim begins, $10 ids of records that wait though their
//! row does not show it, where only memory knows, $11 tokens of the keys of what lies below $9 and
//! is not settled, $12 the last value that the claim looks at. Of $9, $11 and $12 see `floor.rs`.

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

    /// $1 ids. Where nobody else can write meanwhile, records are read first and then marked as
    /// being published.
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

    pub(super) fn lock(&self) -> String {
        let lock = match self.layout.state {
            State::Delete => self.dialect.lock_to_delete,
            _ => self.dialect.lock_to_update,
        };
        match self.layout.ordering {
            // A locked record that is passed over would be overtaken by a later one of its key.
            Ordering::Key => lock.to_owned(),
            Ordering::None => format!("{lock}{}", self.dialect.skipping_locked),
        }
    }

    pub(super) fn claimable(&self) -> String {
        let mut conditions = vec![self.pending("o")];
        conditions.extend(self.has_id("o"));
        if let State::Status { .. } = self.layout.state {
            conditions.push(self.due("o"));
        }
        conditions.extend(self.in_range("o"));
        conditions.extend(self.in_lanes());
        conditions.extend(self.not_waiting("o"));
        conditions.extend(self.not_held());
        conditions.push(self.not_stuck(&self.token("o"), self.stuck()));
        conditions.extend(self.not_dead_alone());
        conditions.extend(self.not_stuck_by_id());
        conditions.join("\nAND ")
    }

    /// A record without an id could not be settled. It is passed over, and a diagnosis tells of it.
    pub(super) fn has_id(&self, alias: &str) -> Option<String> {
        let id = &self.layout.columns.id;
        (self.table.is_nullable(id)).then(|| format!("{} IS NOT NULL", of(alias, id)))
    }

    pub(super) fn in_lanes(&self) -> Option<String> {
        self.ordered_key()?;
        let among = (self.dialect.among)(&self.lane("o"), 2, "int4");
        let lanes = (self.dialect.cast)("$2", "int4[]");
        Some(format!("({lanes} IS NULL OR {among})"))
    }

    /// Where the table has no column for the retry time, the store itself remembers who is due.
    fn not_waiting(&self, alias: &str) -> Option<String> {
        if !matches!(self.layout.state, State::Timestamp { .. }) {
            return None;
        }
        let due = (self.dialect.values)(6, &self.id_list());
        let waiting = (self.dialect.values)(10, &self.id_list());
        let (attempts, id) = (self.attempts(alias), self.id(alias));
        Some(format!(
            "({attempts} <= 0 AND {id} NOT IN ({waiting}) OR {id} IN ({due}))"
        ))
    }

    /// Where rows cannot be locked, the store knows which of them others hold. With order per key
    /// it knows lanes.
    fn not_held(&self) -> Option<String> {
        let by_row = self.layout.ordering == Ordering::None
            && self.layout.claim == ClaimMode::Hold
            && !self.dialect.locks_rows;
        by_row.then(|| {
            format!(
                "{} NOT IN ({})",
                self.id("o"),
                (self.dialect.values)(8, &self.id_list())
            )
        })
    }

    /// One look-up in a hash of all that is stuck. The hash is made once per claim and holds short
    /// values only, so it costs the same whatever the planner thinks of the tables.
    pub(super) fn not_stuck(&self, token: &str, stuck: Vec<String>) -> String {
        format!("{token} NOT IN (\n  {})", stuck.join("\n  UNION ALL "))
    }

    /// Selects of the tokens of records and keys that nothing may be claimed of now.
    pub(super) fn stuck(&self) -> Vec<String> {
        let mut stuck = self.left_alone();
        if self.layout.needs_troubles() {
            stuck.push(self.stuck_aside());
        }
        stuck.extend(self.stuck_keys());
        stuck
    }

    /// What only the store knows.
    pub(super) fn left_alone(&self) -> Vec<String> {
        let ids = (self.dialect.id_token)("v.x");
        let keys = (self.dialect.key_token)("v.x");
        let mut selects = vec![format!("SELECT {ids} FROM {}", (self.dialect.texts)(4))];
        if self.ordered_key().is_some() {
            selects.push(format!("SELECT {keys} FROM {}", (self.dialect.texts)(5)));
        }
        selects.extend(self.keys_below());
        selects
    }

    /// What is kept aside, by the key that it blocks or by itself.
    fn stuck_aside(&self) -> String {
        let parks = self.ordered_key().is_some() && self.rules.on_dead == OnDead::Park;
        let waits = format!("t.next_attempt_at > {}", self.dialect.now);
        // A dead record that is marked published is in nobody's way but its key's.
        let blocks = match (self.flags_dead(), parks) {
            (true, false) => format!("NOT t.dead AND {waits}"),
            _ => format!("(t.dead OR {waits})"),
        };
        let token = match self.ordered_key() {
            None => "t.id_token",
            Some(_) if parks => "coalesce(t.key_token, t.id_token)",
            Some(_) => {
                "CASE WHEN t.dead THEN t.id_token ELSE coalesce(t.key_token, t.id_token) END"
            }
        };
        let above = self.trouble_in_range().unwrap_or_default();
        format!(
            "SELECT {token} FROM {} AS t WHERE t.outbox = $3 AND {blocks}{above}",
            self.troubles()
        )
    }

    /// A dead record that blocks no key is left out by itself, beside the keys that others of them
    /// block.
    fn not_dead_alone(&self) -> Option<String> {
        let skips = self.ordered_key().is_some() && self.rules.on_dead == OnDead::Skip;
        if !skips || !self.layout.needs_troubles() || self.flags_dead() {
            return None;
        }
        let id = (self.dialect.id_token)(&self.as_text("o", &self.layout.columns.id));
        Some(format!(
            "{id} NOT IN (\n  SELECT t.id_token FROM {} AS t WHERE t.outbox = $3 AND t.dead)",
            self.troubles()
        ))
    }

    /// SQLite takes any bytes for text. A record whose key cannot be read counts as one without a
    /// key, so it is known by its id alone.
    fn not_stuck_by_id(&self) -> Option<String> {
        self.ordered_key().filter(|_| !self.dialect.locks_rows)?;
        let ids = (self.dialect.id_token)("v.x");
        let mut stuck = vec![format!("SELECT {ids} FROM {}", (self.dialect.texts)(4))];
        if self.layout.needs_troubles() {
            stuck.push(format!(
                "SELECT t.id_token FROM {} AS t WHERE t.outbox = $3 AND t.key_token IS NULL\n    \
                 AND (t.dead OR t.next_attempt_at > {})",
                self.troubles(),
                self.dialect.now
            ));
        }
        let token = (self.dialect.id_token)(&self.as_text("o", &self.layout.columns.id));
        Some(self.not_stuck(&token, stuck))
    }

    /// Whether a dead record is marked published.
    pub(super) fn flags_dead(&self) -> bool {
        let State::Flag {
            dead_is_flagged, ..
        } = &self.layout.state
        else {
            return false;
        };
        *dead_is_flagged
    }

    /// Keys that a record blocks by what its own row says: it is held, waits to be tried again, or
    /// is dead and parks.
    fn stuck_keys(&self) -> Vec<String> {
        let Some(key) = self.ordered_key() else {
            return Vec::new();
        };
        let in_range = self.in_range("b").map(|range| format!(" AND {range}"));
        let blocking = match &self.layout.state {
            // Two selects, so that an index of those that failed serves the first.
            State::Timestamp { .. } => {
                let alive = match self.rules.on_dead {
                    OnDead::Park => self.unpublished("b"),
                    OnDead::Skip => self.pending("b"),
                };
                let due = (self.dialect.values)(6, &self.id_list());
                let waiting = (self.dialect.values)(10, &self.id_list());
                let (attempts, id) = (self.attempts("b"), self.id("b"));
                let in_range = in_range.unwrap_or_default();
                vec![
                    format!("{alive} AND {attempts} > 0 AND {id} NOT IN ({due}){in_range}"),
                    // Found by its id, whatever the planner thinks of the range.
                    format!(
                        "{id} IN ({waiting}) AND {}",
                        self.by_id(format!("{alive}{in_range}"))
                    ),
                ]
            }
            State::Status { .. } => vec![format!(
                "{} AND {}{}",
                self.unsettled_by_row("b"),
                self.blocks("b"),
                in_range.unwrap_or_default()
            )],
            State::Flag { .. } | State::Delete | State::Append { .. } => Vec::new(),
        };
        let select = |blocks: String| {
            format!(
                "SELECT {} FROM {} AS b WHERE {} IS NOT NULL AND {blocks}",
                (self.dialect.key_token)(&self.as_text("b", key)),
                self.name(),
                of("b", key),
            )
        };
        blocking.into_iter().map(select).collect()
    }

    pub(super) fn troubles_of(&self) -> String {
        let dead = if self.flags_dead() {
            "NOT t.dead AND "
        } else {
            "t.dead OR "
        };
        format!(
            "SELECT t.record_id, t.attempts, ({dead}t.next_attempt_at > {}) AS blocked\n\
             FROM {} JOIN {} AS t ON t.outbox = $1 AND t.id_token = {}\n\
             WHERE (SELECT t.record_created_at = {} FROM {} AS o WHERE {} = {} LIMIT 1) IS NOT FALSE",
            self.dialect.now,
            (self.dialect.texts)(2),
            self.troubles(),
            (self.dialect.id_token)("v.x"),
            self.born("o"),
            self.name(),
            self.id("o"),
            self.trouble_id(),
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

    /// See [`super::Statements::failed`].
    pub(super) fn find_failed(&self) -> Option<String> {
        if !matches!(self.layout.state, State::Timestamp { .. }) {
            return None;
        }
        let has_id = self.has_id("o").map(|has| format!(" AND {has}"));
        Some(format!(
            "SELECT {} AS c0, {} AS attempts FROM {} AS o WHERE {} AND {} > 0{}",
            self.id("o"),
            (self.dialect.cast)(&self.attempts("o"), "int4"),
            self.name(),
            self.pending("o"),
            self.attempts("o"),
            has_id.unwrap_or_default(),
        ))
    }
}
