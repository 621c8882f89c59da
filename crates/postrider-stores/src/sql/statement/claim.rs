//! Taking records. Never a cursor: always what is visible and pending now, in order.

use postrider_core::layout::{ClaimMode, State};
use postrider_core::{OnDead, Ordering};

use super::{Writer, is_one_of, literal, micros, of};
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

    fn claim_by_lease(&self, selection: &Selection) -> String {
        let State::Status {
            column,
            publishing,
            last_attempt_at,
            ..
        } = &self.layout.state
        else {
            return String::new();
        };
        let sorted: Vec<String> = self
            .layout
            .order
            .iter()
            .enumerate()
            .map(|(n, c)| format!("{} AS s{n}", of("o", c)))
            .collect();
        let id = self.id("o");
        let sort: Vec<String> = (0..sorted.len()).map(|n| format!("s{n}")).collect();
        format!(
            "WITH claimed AS (\n\
             UPDATE {table} AS o SET {status} = {publishing}, {last_attempt_at} = {now}\n\
             WHERE {chosen}\n\
             RETURNING {list}, {token} AS token, {sorted})\n\
             SELECT {names}, token FROM claimed ORDER BY {sort}",
            table = self.name(),
            status = column.quoted(),
            publishing = literal(publishing),
            now = self.dialect.now,
            chosen = (self.dialect.among_selected)(
                &id,
                &format!(
                    "SELECT {id}\nFROM {table} AS o\nWHERE {claimable}\nORDER BY {order}\nLIMIT $1\n{lock}\n",
                    table = self.name(),
                    claimable = self.claimable(),
                    order = self.order("o"),
                    lock = self.lock(),
                )
            ),
            list = selection.list(),
            token = (self.dialect.cast)(&of("o", last_attempt_at), "timestamptz"),
            last_attempt_at = last_attempt_at.quoted(),
            sorted = sorted.join(", "),
            names = selection.names(),
            sort = sort.join(", "),
        )
    }

    fn lock(&self) -> &'static str {
        match self.layout.ordering {
            // A locked record that is passed over would be overtaken by a later one of its key.
            Ordering::Key => self.dialect.lock_waiting,
            Ordering::None => self.dialect.lock_skipping,
        }
    }

    fn claimable(&self) -> String {
        let mut conditions = vec![self.pending("o")];
        if let State::Status { .. } = self.layout.state {
            conditions.push(self.due());
        }
        conditions.extend(self.in_lanes());
        conditions.extend(self.not_troubled());
        conditions.extend(self.not_resting());
        conditions.extend(self.not_held());
        conditions.extend(self.key_not_blocked());
        conditions.join("\nAND ")
    }

    fn in_lanes(&self) -> Option<String> {
        self.ordered_key()?;
        let among = (self.dialect.among)(&self.lane("o"), 2, "int4");
        let lanes = (self.dialect.cast)("$2", "int4[]");
        Some(format!("({lanes} IS NULL OR {among})"))
    }

    /// In lease mode: nobody's now, or nobody's any more, and not before its time.
    ///
    /// A new record's time is by default when its transaction began, which may be after this claim's did. It is
    /// due all the same: a later record of its key, from a transaction that began earlier and then waited for the
    /// key, would overtake it.
    fn due(&self) -> String {
        let State::Status {
            column,
            pending,
            failed,
            publishing,
            retry_at,
            ..
        } = &self.layout.state
        else {
            return "true".into();
        };
        let status = of("o", column);
        let retry_at = of("o", retry_at);
        format!(
            "({waiting} AND ({retry_at} IS NULL OR {retry_at} <= {now} \
             OR {status} = {pending} AND {retry_at} <= {created_at})\n  \
             OR {status} = {publishing} AND NOT ({held}))",
            waiting = is_one_of(&status, &[pending, failed]),
            pending = literal(pending),
            created_at = of("o", &self.layout.columns.created_at),
            now = self.dialect.now,
            publishing = literal(publishing),
            held = self.held("o"),
        )
    }

    /// Whether a record that is being published is still leased. Without a time nobody holds it.
    fn held(&self, alias: &str) -> String {
        let State::Status {
            last_attempt_at, ..
        } = &self.layout.state
        else {
            return "false".into();
        };
        let claimed_at = of(alias, last_attempt_at);
        let lease = micros(self.rules.lease);
        let oldest = (self.dialect.after)(self.dialect.now, &format!("-{lease}"));
        format!("{claimed_at} IS NOT NULL AND {claimed_at} >= {oldest}")
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
            State::Status {
                column,
                failed,
                publishing,
                retry_at,
                ..
            } => {
                let (status, retry_at) = (of("b", column), of("b", retry_at));
                let dead = if parks {
                    format!(" OR {}", self.dead("b"))
                } else {
                    String::new()
                };
                format!(
                    "({status} = {} AND {} OR {status} = {} AND {retry_at} > {now}{dead})",
                    literal(publishing),
                    self.held("b"),
                    literal(failed),
                )
            }
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
