//! The statements of an inbox, from its layout.

mod layout;
#[cfg(test)]
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod tests;

use postrider_core::layout::Identifier;

pub use layout::{IdType, InboxColumns, InboxLayout};

use super::dialect::{Dialect, List, list};
use super::statement::suffixed;
use super::table::{Kind, Table};

/// The columns that are written from lists, one value per event: the id, then those of the optional ones that the
/// table has.
pub(crate) fn listed<'a>(layout: &'a InboxLayout, table: &Table) -> Vec<&'a Identifier> {
    let columns = &layout.columns;
    let optional = [&columns.event_type, &columns.source];
    let present = (optional.into_iter().flatten()).filter(|name| table.column(name).is_some());
    std::iter::once(&columns.id).chain(present).collect()
}

/// One list parameter of text per listed column, then the consumer's name if it is part of an entry. Returns the ids
/// that were entered, as text.
///
/// Ids are entered in their own order, so that two transactions that enter the same ones wait for each other in
/// turn and not in a circle.
pub(crate) fn admit(layout: &InboxLayout, table: &Table, dialect: &Dialect) -> String {
    let listed = listed(layout, table);
    let aliases: Vec<String> = (1..=listed.len()).map(|n| format!("v{n}")).collect();
    let lists: Vec<List<'_>> = (1..)
        .zip(&aliases)
        .map(|(n, alias)| list(n, "text", alias))
        .collect();
    let mut names: Vec<String> = listed.iter().map(|column| column.quoted()).collect();
    let mut values: Vec<String> = (listed.iter().zip(&aliases))
        .map(|(column, alias)| typed(&format!("u.{alias}"), column, table, dialect))
        .collect();
    names.push(layout.columns.time.quoted());
    values.push(dialect.now.into());
    if let Some(subscriber) = &layout.columns.subscriber {
        let parameter = (dialect.cast)(&format!("${}", listed.len() + 1), "text");
        names.push(subscriber.quoted());
        values.push(typed(&parameter, subscriber, table, dialect));
    }
    let key: Vec<String> = layout.key().map(Identifier::quoted).collect();
    format!(
        "INSERT INTO {} ({})\nSELECT {} FROM {} ORDER BY u.v1\n\
         ON CONFLICT ({}) DO NOTHING RETURNING {}",
        layout.table.quoted(),
        names.join(", "),
        values.join(", "),
        (dialect.rows)(&lists, "u"),
        key.join(", "),
        (dialect.cast)(&layout.columns.id.quoted(), "text"),
    )
}

fn typed(value: &str, column: &Identifier, table: &Table, dialect: &Dialect) -> String {
    match table.kind(column) {
        Kind::Text => value.into(),
        _ => (dialect.cast)(value, table.sql_type(column)),
    }
}

/// $1 limit, $2 microseconds to keep.
///
/// The age stands outside too: where a table is partitioned, rows of two partitions have the same address.
pub(crate) fn purge(layout: &InboxLayout, dialect: &Dialect) -> String {
    let is_old = format!(
        "o.{} < {}",
        layout.columns.time.quoted(),
        (dialect.after)(dialect.now, &format!("-{}", (dialect.cast)("$2", "int8")))
    );
    let (table, row) = (layout.table.quoted(), format!("o.{}", dialect.row));
    let old = format!(
        "SELECT {row} FROM {table} AS o WHERE {is_old}\nLIMIT $1 {}{}",
        dialect.lock_to_delete, dialect.skipping_locked
    );
    format!(
        "DELETE FROM {table} AS o WHERE {} AND {is_old}",
        (dialect.among_selected)(&row, &old)
    )
}

/// The table and its index by age, if they are not there.
pub(crate) fn create(layout: &InboxLayout, dialect: &Dialect) -> [String; 2] {
    let columns = &layout.columns;
    let id_type = match layout.id_type {
        IdType::Text => "text",
        IdType::Uuid => "uuid",
    };
    let subscriber = (columns.subscriber.iter()).map(|column| (column, "text NOT NULL"));
    let own = [
        (&columns.id, &*format!("{id_type} NOT NULL")),
        (&columns.time, "timestamptz NOT NULL DEFAULT now()"),
    ];
    let optional = columns.event_type.iter().chain(&columns.source);
    let mut lines: Vec<String> = (subscriber.chain(own))
        .chain(optional.map(|column| (column, "text")))
        .map(|(column, sql_type)| format!("{} {}", column.quoted(), dialect.defined(sql_type)))
        .collect();
    let key: Vec<String> = layout.key().map(Identifier::quoted).collect();
    lines.push(format!("PRIMARY KEY ({})", key.join(", ")));
    let table = layout.table.quoted();
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  {}\n)",
            lines.join(",\n  ")
        ),
        format!(
            "CREATE INDEX IF NOT EXISTS {} ON {table} ({})",
            suffixed(&layout.table.name, "_age_idx").quoted(),
            columns.time.quoted()
        ),
    ]
}
