//! Where claims begin: see `postgres/floor`.

use postrider_core::OnDead;
use postrider_core::layout::{Identifier, State};

use super::{Writer, is_one_of, literal, of};
use crate::sql::table::{Column, Kind, Rank};

#[derive(Debug)]
pub(crate) struct FloorColumn<'a> {
    pub name: &'a Identifier,
    pub kind: Kind,
    /// Nothing where writers may bring values of their own.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub drawn: Option<Drawn>,
}

/// When the database draws a value that a writer leaves to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drawn {
    AtInsert,
    AtBegin,
}

impl Drawn {
    fn by(column: &Column) -> Option<Self> {
        let default = column.default.as_deref().unwrap_or_default();
        let is_sequence = default == "identity" || default.starts_with("nextval(");
        // Of low precision, a later value may be rounded to below an earlier one.
        let is_fine = column.details.rank == Rank::Fine;
        match column.kind {
            Kind::Time if default == "clock_timestamp()" && is_fine => Some(Self::AtInsert),
            Kind::Time if ["now()", "CURRENT_TIMESTAMP"].contains(&default) && is_fine => {
                Some(Self::AtBegin)
            }
            Kind::Int if is_sequence && !column.sequence_cached => Some(Self::AtInsert),
            _ => None,
        }
    }
}

impl Writer<'_> {
    /// The first column of the order, where everything below a value of it can be known to be
    /// settled or stuck: one that only grows, and is drawn when a record is inserted or its
    /// transaction begins.
    pub(crate) fn floor_column(&self) -> Option<FloorColumn<'_>> {
        let columns = &self.layout.columns;
        let lead = self.layout.order.first()?;
        let column = self.table.column(lead)?;
        let drawn = Drawn::by(column);
        // Without order, a record that comes late is found late, and nothing worse.
        let late_is_well = self.ordered_key().is_none();
        let grows = match column.kind {
            Kind::Time => lead == &columns.created_at && (drawn.is_some() || late_is_well),
            Kind::Int => lead == &columns.id && drawn.is_some(),
            _ => false,
        };
        // A default says only what happens if a writer leaves the column out. Whether all of them
        // do, their owner knows.
        let grows = grows && (late_is_well || self.rules.order_is_drawn);
        let appends = matches!(self.layout.state, State::Append { .. });
        let has_floor = grows && !column.nullable && !appends && self.dialect.locks_rows;
        (has_floor && self.table.is_plain).then_some(FloorColumn {
            name: lead,
            kind: column.kind,
            drawn: drawn.filter(|_| self.rules.order_is_drawn),
        })
    }

    /// What a claim looks at, by its parameters.
    pub(super) fn in_range(&self, alias: &str) -> Option<String> {
        let lead = of(alias, self.floor_column()?.name);
        Some(format!("{lead} >= $9 AND {lead} <= $12"))
    }

    /// Of troubles that are kept aside, those of records below where the claim begins are of no
    /// interest to it: their keys are told by [`Self::keys_below`].
    pub(super) fn trouble_in_range(&self) -> Option<String> {
        (self.floor_column()?.kind == Kind::Time)
            .then(|| format!(" AND {} >= $9", trouble_value("t.")))
    }

    /// → whether anything is kept aside of records from a value on.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn any_troubles(&self, from: i64) -> String {
        let above = match self.floor_column() {
            Some(FloorColumn {
                kind: Kind::Time, ..
            }) => {
                let from = value_literal(Kind::Time, from);
                format!(" AND {} >= {from}", trouble_value("t."))
            }
            _ => String::new(),
        };
        format!(
            "SELECT EXISTS (SELECT FROM {} AS t WHERE t.outbox = {}{above}) AS troubled",
            self.troubles(),
            literal(&self.table.full_name)
        )
    }

    /// The keys of what lies below where a claim begins and is not settled.
    pub(super) fn keys_below(&self) -> Option<String> {
        self.floor_column()?;
        self.ordered_key()?;
        Some("SELECT unnest($11::int8[])".into())
    }

    /// The claim's parameters → the first value whose record may be claimed, or is being published,
    /// if any.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn first_free(&self) -> Option<String> {
        let FloorColumn { name, kind, .. } = self.floor_column()?;
        let lead = of("o", name);
        let first = |is_free: String| {
            format!(
                "(SELECT {lead} AS v FROM {} AS o WHERE {is_free}\nORDER BY {} LIMIT 1)",
                self.name(),
                self.order("o")
            )
        };
        let mut firsts = vec![first(self.claimable())];
        if let State::Status {
            column, publishing, ..
        } = &self.layout.state
        {
            let mut is_held = vec![self.looked_at()];
            is_held.push(format!("{} = {}", of("o", column), literal(publishing)));
            is_held.extend(self.in_range("o"));
            firsts.push(first(is_held.join(" AND ")));
        }
        Some(format!(
            "SELECT {} FROM ({}) AS f",
            shown("min(f.v)", kind),
            firsts.join("\nUNION ALL ")
        ))
    }

    /// $1 from, $2 up to, $3 limit, $4 the outbox, $5 ids of records that wait though their row
    /// does not show it → of each record in between that is not settled, its value, the token of
    /// its key, if it has one that may not be passed, and whether it has failed, in order. A dead
    /// record is not settled: an operator may resend it.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn unsettled_between(&self) -> Option<String> {
        let FloorColumn { name, kind, .. } = self.floor_column()?;
        let lead = of("o", name);
        let unsettled = self.unsettled_by_row("o");
        let has_id = self.has_id("o").map(|has| format!(" AND {has}"));
        let unsettled = format!(
            "SELECT {} AS v, {} AS key, {} AS failed FROM {} AS o\n\
             WHERE {unsettled}{} AND {lead} >= $1 AND {lead} < $2\nORDER BY {} LIMIT $3",
            shown(&lead, kind),
            self.key_not_to_be_passed(),
            self.has_failed(),
            self.name(),
            has_id.unwrap_or_default(),
            self.order("o"),
        );
        let Some(dead) = self.flagged_dead(kind) else {
            return Some(unsettled);
        };
        Some(format!(
            "SELECT v, key, failed FROM (({unsettled})\nUNION ALL {dead}) AS u ORDER BY v LIMIT $3"
        ))
    }

    /// Whether a record itself is why its key is stuck.
    fn has_failed(&self) -> String {
        match &self.layout.state {
            State::Timestamp { .. } => format!(
                "({} > 0 OR {} IN ({}))",
                self.attempts("o"),
                self.id("o"),
                (self.dialect.values)(5, &self.id_list())
            ),
            State::Status {
                column,
                failed,
                dead,
                ..
            } => is_one_of(&of("o", column), &[failed, dead]),
            State::Flag { .. } | State::Delete | State::Append { .. } => format!(
                "({} IN (SELECT t.id_token FROM {} AS t WHERE t.outbox = $4))",
                (self.dialect.id_token)(&self.as_text("o", &self.layout.columns.id)),
                self.troubles()
            ),
        }
    }

    fn key_not_to_be_passed(&self) -> String {
        let Some(key) = self.ordered_key() else {
            return "NULL::int8".into();
        };
        let token = (self.dialect.key_token)(&self.as_text("o", key));
        let is_dead = match (&self.layout.state, self.rules.on_dead) {
            (_, OnDead::Park) => return token,
            (State::Timestamp { .. }, OnDead::Skip) => {
                format!("{} >= {}", self.attempts("o"), self.rules.max_attempts)
            }
            (State::Status { column, dead, .. }, OnDead::Skip) => {
                format!("{} = {}", of("o", column), literal(dead))
            }
            (State::Flag { .. } | State::Delete | State::Append { .. }, OnDead::Skip) => format!(
                "{} IN (SELECT t.id_token FROM {} AS t WHERE t.outbox = $4 AND t.dead)",
                (self.dialect.id_token)(&self.as_text("o", &self.layout.columns.id)),
                self.troubles()
            ),
        };
        format!("CASE WHEN {is_dead} THEN NULL ELSE {token} END")
    }

    /// Dead records that are marked published. Of those whose value is not known it is the lowest.
    fn flagged_dead(&self, kind: Kind) -> Option<String> {
        if !self.flags_dead() {
            return None;
        }
        let (value, lowest) = match kind {
            Kind::Int => ("t.record_id::int8", "'-9223372036854775808'::int8"),
            _ => ("t.record_created_at", "'-infinity'::timestamptz"),
        };
        let parks = self.ordered_key().is_some() && self.rules.on_dead == OnDead::Park;
        let key = if parks { "t.key_token" } else { "NULL::int8" };
        Some(format!(
            "SELECT coalesce({value}, {lowest}), {key}, true FROM {} AS t\n\
             WHERE t.outbox = $4 AND t.dead AND coalesce({value}, {lowest}) >= $1 AND coalesce({value}, {lowest}) < $2",
            self.troubles()
        ))
    }

    /// → whether there is a record that a claim would look at, from a value on: a literal, because
    /// this runs with others in one message.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn any_unsettled(&self, from: i64) -> String {
        let mut conditions = vec![self.looked_at()];
        conditions.extend(self.has_id("o"));
        if let Some(FloorColumn { name, kind, .. }) = self.floor_column() {
            let from = value_literal(kind, from);
            conditions.push(format!("{} >= {from}", of("o", name)));
        }
        format!(
            "SELECT EXISTS (SELECT FROM {} AS o WHERE {}) AS found",
            self.name(),
            conditions.join(" AND ")
        )
    }

    /// $1 from → the last value whose record is not settled.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn last_unsettled(&self) -> Option<String> {
        let FloorColumn { name, kind, .. } = self.floor_column()?;
        let lead = of("o", name);
        let unsettled = self.unsettled_by_row("o");
        Some(format!(
            "SELECT {} AS v FROM {} AS o WHERE {unsettled} AND {lead} > $1 ORDER BY {lead} DESC LIMIT 1",
            shown(&lead, kind),
            self.name(),
        ))
    }
}

/// The time of the record that a trouble is of. Where it is not known it is no lower than any.
pub(crate) fn trouble_value(prefix: &str) -> String {
    format!("coalesce({prefix}record_created_at, 'infinity'::timestamptz)")
}

/// A value as a literal, for statements that run with others in one message.
fn value_literal(kind: Kind, value: i64) -> String {
    match (kind, value) {
        (Kind::Int, value) => format!("'{value}'::int8"),
        (_, i64::MIN) => "'-infinity'::timestamptz".into(),
        (_, value) => {
            format!("'2000-01-01 00:00:00+00'::timestamptz + {value} * interval '1 microsecond'")
        }
    }
}

/// A value as it is read: as a time, or as a long number.
fn shown(value: &str, kind: Kind) -> String {
    match kind {
        Kind::Int => format!("{value}::int8"),
        _ => value.to_owned(),
    }
}
