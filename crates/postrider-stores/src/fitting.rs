//! Whether an inbox table and the values for it go together, whatever the database: what it would refuse is refused before
//! it is sent, because an error may end the handler's transaction.

use std::collections::HashSet;
use std::sync::Arc;

use postrider_core::layout::Identifier;
use postrider_core::text::bounded;
use postrider_core::{Admission, Arrival, StoreError};

use crate::sql::dialect::Dialect;
use crate::sql::fit::fit;
use crate::sql::inbox::{InboxLayout, admit, listed};
use crate::sql::table::{Column, Kind, Table};

/// The longest part of a refused value that is shown.
const SHOWN_BYTES_MAX: usize = 100;

/// What a key's columns may have together: an index holds no more than a third of a page.
const KEY_BYTES_MAX: usize = 2_500;

pub(crate) const ADMIT: &str = "admit events";

/// Values that their columns will take.
pub(crate) struct Entries {
    /// A list per column, of which the first has the ids.
    pub(crate) lists: Vec<Vec<Option<String>>>,
    pub(crate) consumer: Option<String>,
}

/// What each event is, given the ids in the order of their arrival and those that were entered. An id that comes twice is
/// first the first time.
pub(crate) fn admissions(ids: Vec<Option<String>>, mut entered: HashSet<String>) -> Vec<Admission> {
    ids.into_iter()
        .map(|id| match id.is_some_and(|id| entered.remove(&id)) {
            true => Admission::First,
            false => Admission::Duplicate,
        })
        .collect()
}

/// A table that the layout fits.
#[derive(Debug)]
pub(crate) struct Fitting {
    table: Table,
    pub(crate) admit: Arc<str>,
}

impl Fitting {
    /// The table if the layout fits it, else why not. `unique` says whether no two entries may have the same key.
    pub(crate) fn new(
        layout: &InboxLayout,
        dialect: &Dialect,
        table: Option<Table>,
        unique: bool,
    ) -> Result<Self, StoreError> {
        let table = fitting(layout, table).map_err(StoreError::Mismatch)?;
        if !unique {
            let key: Vec<&str> = layout.key().map(Identifier::as_str).collect();
            let (name, key) = (&table.full_name, key.join(", "));
            return Err(StoreError::Mismatch(format!(
                "inbox table {name} needs a primary key or unique index on ({key}): nothing else tells duplicates"
            )));
        }
        Ok(Self {
            admit: admit(layout, &table, dialect).into(),
            table,
        })
    }

    /// The values of an insert, or why one of them does not fit.
    pub(crate) fn entries(
        &self,
        layout: &InboxLayout,
        consumer: &str,
        arrivals: &[Arrival<'_>],
    ) -> Result<Entries, StoreError> {
        let columns = &layout.columns;
        let id = self.column(&columns.id)?;
        for arrival in arrivals {
            let bytes = arrival.event_id.as_str().len() + consumer.len();
            if bytes > KEY_BYTES_MAX {
                let reason = format!(
                    "{bytes} bytes with the consumer's name, and an index takes {KEY_BYTES_MAX}"
                );
                return Err(unfit(arrival.event_id.as_str(), id, reason));
            }
        }
        let list = |name: &Identifier| {
            let column = self.column(name)?;
            let value = |arrival: &Arrival<'_>| {
                let value = match name {
                    name if *name == columns.id => Some(arrival.event_id.as_str()),
                    name if columns.event_type.as_ref() == Some(name) => arrival.event_type,
                    _ => arrival.source,
                };
                fitted(value, column)
            };
            arrivals.iter().map(value).collect::<Result<Vec<_>, _>>()
        };
        let lists = listed(layout, &self.table).into_iter().map(list);
        let consumer = match &columns.subscriber {
            Some(name) => fitted(Some(consumer), self.column(name)?)?,
            None => None,
        };
        Ok(Entries {
            lists: lists.collect::<Result<_, _>>()?,
            consumer,
        })
    }

    fn column(&self, name: &Identifier) -> Result<&Column, StoreError> {
        let absent = || StoreError::Mismatch(format!("no column {name}"));
        self.table.column(name).ok_or_else(absent)
    }
}

/// The value as its column takes it.
fn fitted(value: Option<&str>, column: &Column) -> Result<Option<String>, StoreError> {
    let Some(value) = value else {
        if column.nullable {
            return Ok(None);
        }
        return Err(unfit("", column, "the event has no such value".into()));
    };
    let bytes =
        fit(value.as_bytes().into(), column).map_err(|reason| unfit(value, column, reason))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn unfit(value: &str, column: &Column, reason: String) -> StoreError {
    let value = bounded(value, SHOWN_BYTES_MAX);
    StoreError::Unfit {
        action: ADMIT,
        reason: format!("{value:?} does not fit column {}: {reason}", column.name),
    }
}

fn fitting(layout: &InboxLayout, table: Option<Table>) -> Result<Table, String> {
    let Some(table) = table else {
        return Err(format!(
            "inbox table {} does not exist; run `inbox::init`, or the statements of `inbox::ddl`",
            layout.table
        ));
    };
    let columns = &layout.columns;
    let written: Vec<&Identifier> = (columns.subscriber.iter())
        .chain(listed(layout, &table))
        .chain([&columns.time])
        .collect();
    for name in &written {
        let Some(column) = table.column(name) else {
            let has: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            let (table, has) = (&table.full_name, has.join(", "));
            return Err(format!(
                "the inbox needs column {name} in table {table}, which has {has}"
            ));
        };
        permitted(&table, name, "INSERT", column.may_insert)?;
    }
    for name in layout.key() {
        let may_select = table.column(name).is_some_and(|column| column.may_select);
        permitted(&table, name, "SELECT", may_select)?;
    }
    if !matches!(table.kind(&columns.id), Kind::Text | Kind::Uuid) {
        let (name, sql_type) = (&columns.id, table.sql_type(&columns.id));
        return Err(format!(
            "column {name} of inbox table {} is of type {sql_type}; ids are text or uuid",
            table.full_name
        ));
    }
    let unfilled = |column: &&Column| {
        let ours = written.iter().any(|name| name.as_str() == column.name);
        !ours && !column.nullable && column.default.is_none()
    };
    match table.columns.iter().find(unfilled) {
        Some(column) => Err(format!(
            "column {} of inbox table {} is NOT NULL without a default, and the inbox does not fill it",
            column.name, table.full_name
        )),
        None => Ok(table),
    }
}

fn permitted(
    table: &Table,
    name: &Identifier,
    privilege: &str,
    granted: bool,
) -> Result<(), String> {
    if granted {
        return Ok(());
    }
    Err(format!(
        "role {role} lacks {privilege} on column {name}; GRANT {privilege} ({}) ON {} TO {role}",
        name.quoted(),
        table.full_name,
        role = table.role,
    ))
}
