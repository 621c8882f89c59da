//! The statements of an outbox, from its layout. `o` is the outbox, `t` the troubles, `f` fates.

mod audit;
mod claim;
mod dead;
mod floor;
mod insert;
mod lease;
pub(crate) mod records;
mod settle;
#[cfg_attr(not(feature = "postgres"), allow(dead_code, unused_imports))]
pub(crate) mod stream;
#[cfg(test)]
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod tests;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::layout::{Identifier, State, TableName};
use postrider_core::{Layout, OnDead, Ordering};

use super::dialect::Dialect;
use super::selection::Selection;
use super::table::{Kind, Table, is_shown_as};
use super::{LANES, TROUBLES};

pub(crate) use audit::{Audit, audit_table};
#[cfg(feature = "postgres")]
pub(crate) use floor::{Drawn, FloorColumn, trouble_value};
pub(crate) use insert::insert;
#[cfg(test)]
#[cfg(all(feature = "postgres", feature = "sqlite"))]
pub(crate) use tests::compare;
pub(crate) use upkeep::{claim_index, dead_check, dead_index, suffixed, troubled_index};

/// What the statements of a store depend on besides the layout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub max_attempts: u32,
    pub on_dead: OnDead,
    pub lease: Duration,
    pub order_is_drawn: bool,
}

/// Every statement of a store. Comments give the parameters; `ids` are of [`Writer::id_list`]'s type.
#[derive(Debug, Clone)]
pub(crate) struct Statements {
    pub selection: Selection,
    /// Its parameters are in `claim.rs`.
    pub claim: Arc<str>,
    /// For leases where rows can be locked.
    #[cfg_attr(not(feature = "postgres"), expect(dead_code))]
    pub lease: Option<Lease>,
    /// ids. Where claims are leases, what marks a claim's records one by one, or where rows cannot be locked.
    pub mark: Option<Arc<str>>,
    /// outbox, record ids as text → record id, attempts, whether it may not be tried now.
    pub troubles_of: Arc<str>,
    /// ids; in lease mode also the token.
    pub settle_published: Arc<str>,
    /// See `settle.rs`: hold and lease differ.
    pub settle_failed: Arc<str>,
    /// What is run before it, with the same parameters, where one statement cannot write to two tables.
    pub mark_failed: Option<Arc<str>>,
    /// outbox, record ids as text.
    pub forget_troubles: Arc<str>,
    /// With troubles: outbox. Forgets those whose record is gone, is another one, or was settled by hand.
    pub sweep: Option<Arc<str>>,
    /// The same → whether there are any, without a change.
    pub any_stray: Arc<str>,
    /// ids → those of them whose records may yet be published.
    pub pending_of: Arc<str>,
    /// → ids of records that failed and are not dead, where only memory knows when they are due.
    pub failed: Option<Arc<str>>,
    /// ids → their lanes, ascending.
    pub lanes_of: Arc<str>,
    /// limit, microseconds to keep.
    pub purge: Option<Arc<str>>,
    /// With troubles: outbox → pending, microseconds of the oldest or NULL, dead.
    pub backlog: Arc<str>,
    pub dead: Dead,
    pub audit: Audit,
}

#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code))]
pub(crate) struct Lease {
    /// Whether claimed records come in no order, to be put in that of their times and ids.
    pub unsorted: bool,
    /// With order per key, and the claim's parameters → how many records it has looked at.
    pub looked_at: Option<Arc<str>>,
    /// The claim's parameters → the records that it would claim, locked and not marked.
    pub choose: Arc<str>,
    /// ids → the time of the claim that holds them.
    pub token_of: Arc<str>,
}

#[derive(Debug, Clone)]
pub(crate) struct Dead {
    /// ids; with troubles: outbox → ids as text.
    pub lock: Arc<str>,
    /// The same without a lock.
    pub find: Arc<str>,
    pub resend: Change,
    pub discard: Change,
}

/// What is done to records in each of their tables.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// ids
    pub outbox: Option<Arc<str>>,
    /// outbox, record ids as text.
    pub troubles: Option<Arc<str>>,
}

impl Change {
    fn new(outbox: Option<String>, troubles: Option<String>) -> Self {
        Self {
            outbox: outbox.map(Into::into),
            troubles: troubles.map(Into::into),
        }
    }
}

/// Writes statements for one outbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub layout: &'a Layout,
    pub table: &'a Table,
    pub dialect: &'a Dialect,
    pub rules: Rules,
}

impl Writer<'_> {
    pub(crate) fn statements(&self) -> Statements {
        let selection = Selection::new(self.layout, self.table, self.dialect);
        let (mark_failed, settle_failed) = self.settle_failed();
        Statements {
            claim: self.claim(&selection).into(),
            lease: self.lease(&selection),
            selection,
            mark: self.mark().map(Into::into),
            troubles_of: self.troubles_of().into(),
            settle_published: self.settle_published().into(),
            settle_failed: settle_failed.into(),
            mark_failed: mark_failed.map(Into::into),
            forget_troubles: self.forget_troubles().into(),
            sweep: self.sweep().map(Into::into),
            any_stray: self.any_stray().into(),
            pending_of: self.pending_of().into(),
            failed: self.find_failed().map(Into::into),
            lanes_of: self.lanes_of().into(),
            purge: self.purge().map(Into::into),
            backlog: self.backlog().into(),
            dead: Dead {
                lock: self.dead_found(self.dialect.lock_to_delete).into(),
                find: self.dead_found("").into(),
                resend: self.dead_resend(),
                discard: self.dead_discard(),
            },
            audit: Audit::new(&self.layout.table, self.dialect),
        }
    }

    fn name(&self) -> String {
        self.layout.table.quoted()
    }

    fn troubles(&self) -> String {
        troubles_table(&self.layout.table).quoted()
    }

    fn id(&self, alias: &str) -> String {
        of(alias, &self.layout.columns.id)
    }

    /// The key, where records of a key keep their order.
    fn ordered_key(&self) -> Option<&Identifier> {
        self.layout
            .columns
            .key
            .as_ref()
            .filter(|_| self.layout.ordering == Ordering::Key)
    }

    fn order(&self, alias: &str) -> String {
        let columns: Vec<String> = self
            .layout
            .order
            .iter()
            .map(|column| of(alias, column))
            .collect();
        columns.join(", ")
    }

    /// The element type of a list of ids, as it stands before `[]`.
    fn id_list(&self) -> String {
        match self.table.kind(&self.layout.columns.id) {
            Kind::Uuid => "uuid".into(),
            Kind::Int => "int8".into(),
            Kind::Text => "text".into(),
            _ => format!("text[]::{}", self.table.sql_type(&self.layout.columns.id)),
        }
    }

    /// A column as text.
    fn as_text(&self, alias: &str, column: &Identifier) -> String {
        (self.dialect.cast)(&of(alias, column), "text")
    }

    /// What stands for a record where others may be in its way: its key where that keeps its order, else itself.
    fn token(&self, alias: &str) -> String {
        let id = (self.dialect.id_token)(&self.as_text(alias, &self.layout.columns.id));
        self.ordered_key().map_or(id.clone(), |key| {
            let key = (self.dialect.key_token)(&self.as_text(alias, key));
            format!("coalesce({key}, {id})")
        })
    }

    /// The id that a record's troubles are kept under, as the outbox has it.
    fn trouble_id(&self) -> String {
        (self.dialect.cast)("t.record_id", self.table.sql_type(&self.layout.columns.id))
    }

    fn lane(&self, alias: &str) -> String {
        self.lane_by(self.ordered_key(), alias)
    }

    fn lane_by(&self, key: Option<&Identifier>, alias: &str) -> String {
        let text = |column: &Identifier| self.as_text(alias, column);
        let id = text(&self.layout.columns.id);
        // Without a key a record is in order with nothing but itself.
        let key = key.map_or(id.clone(), |key| format!("coalesce({}, {id})", text(key)));
        format!("{} % {LANES}", (self.dialect.hash)(&key))
    }

    fn attempts(&self, alias: &str) -> String {
        let Some(column) = &self.layout.columns.attempts else {
            return "0".into();
        };
        let value = of(alias, column);
        if self.table.is_nullable(column) {
            format!("coalesce({value}, 0)")
        } else {
            value
        }
    }

    /// See [`unpublished`].
    fn unpublished(&self, alias: &str) -> String {
        unpublished(self.layout, self.table, alias)
    }

    /// Records that may yet be published, by the row's own columns.
    fn pending(&self, alias: &str) -> String {
        let unpublished = self.unpublished(alias);
        match &self.layout.state {
            State::Timestamp { .. } => {
                format!(
                    "{unpublished} AND {} < {}",
                    self.attempts(alias),
                    self.rules.max_attempts
                )
            }
            _ => unpublished,
        }
    }

    /// Dead records. With troubles, `t` must be joined.
    fn dead(&self, alias: &str) -> String {
        let unpublished = self.unpublished(alias);
        match &self.layout.state {
            State::Timestamp { .. } => {
                let attempts = self.attempts(alias);
                // The first comparison is implied, but lets the database see that its index of troubled records
                // holds all of these.
                format!(
                    "{unpublished} AND {attempts} > 0 AND {attempts} >= {}",
                    self.rules.max_attempts
                )
            }
            State::Flag {
                published,
                dead_is_flagged: true,
                ..
            } => {
                let error = self
                    .layout
                    .columns
                    .last_error
                    .as_ref()
                    .map(|error| of(alias, error));
                let error = error
                    .map(|error| format!(" AND {error} IS NOT NULL"))
                    .unwrap_or_default();
                format!("t.dead AND {} = true{error}", of(alias, published))
            }
            State::Flag { .. } => format!("t.dead AND {unpublished}"),
            State::Status { column, dead, .. } => {
                let tried = match self.dead_was_tried() {
                    true => format!(" AND {} > 0", self.attempts(alias)),
                    false => String::new(),
                };
                format!(
                    "{} AND {} = {}{tried}",
                    self.unsettled_by_row(alias),
                    of(alias, column),
                    literal(dead)
                )
            }
            State::Delete => "t.dead".into(),
            State::Append { .. } => format!("{alias}.dead"),
        }
    }

    /// Whether the table itself refuses a dead record that was never tried: see [`dead_index`].
    pub(crate) fn dead_was_tried(&self) -> bool {
        let attempts = self.layout.columns.attempts.as_ref();
        let checked = attempts.and_then(|attempts| self.table.column(attempts));
        let name = dead_check(&self.layout.table);
        checked.is_some_and(|column| {
            let mut checks = column.details.table_checks.iter();
            checks.any(|check| is_shown_as(&name, check))
        })
    }

    /// `FROM` the outbox, with a record's troubles where they are kept aside.
    fn join_troubles(&self, alias: &str, outbox: u32) -> String {
        if matches!(self.layout.state, State::Append { .. }) {
            let copies = stream::beside(&self.layout.table).troubles.quoted();
            return format!("FROM {copies} AS {alias} WHERE true");
        }
        if !self.layout.needs_troubles() {
            return format!("FROM {} AS {alias} WHERE true", self.name());
        }
        format!(
            "FROM {} AS t JOIN {} AS {alias} ON {} = {} WHERE t.outbox = ${outbox}",
            self.troubles(),
            self.name(),
            self.id(alias),
            self.trouble_id()
        )
    }
}

/// Records that are not published, by the row's own columns; an index on them serves the claim.
fn unpublished(layout: &Layout, table: &Table, alias: &str) -> String {
    match &layout.state {
        State::Timestamp { published_at } => format!("{} IS NULL", of(alias, published_at)),
        State::Flag { published, .. } if table.is_nullable(published) => {
            format!("{} IS NOT TRUE", of(alias, published))
        }
        State::Flag { published, .. } => format!("{} = false", of(alias, published)),
        State::Status {
            column,
            pending,
            failed,
            publishing,
            published_at,
            ..
        } => {
            let waiting = is_one_of(&of(alias, column), &[pending, failed, publishing]);
            match published_at {
                Some(time) => format!("{} IS NULL AND {waiting}", of(alias, time)),
                None => waiting,
            }
        }
        State::Delete => "true".into(),
        State::Append { .. } => format!("NOT {alias}.settled AND NOT {alias}.dead"),
    }
}

/// The side table of an outbox: beside it, in its schema.
pub(crate) fn troubles_table(outbox: &TableName) -> TableName {
    let name = TROUBLES.to_owned().try_into().expect("is a name");
    outbox.sibling(name)
}

/// A column of the table behind an alias, or on its own.
fn of(alias: &str, column: &Identifier) -> String {
    if alias.is_empty() {
        column.quoted()
    } else {
        format!("{alias}.{}", column.quoted())
    }
}

pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn is_one_of(value: &str, words: &[&String]) -> String {
    let words: Vec<String> = words.iter().map(|word| literal(word)).collect();
    format!("{value} IN ({})", words.join(", "))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
