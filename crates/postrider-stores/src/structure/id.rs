//! Whether the id tells records apart: a record is settled by its id, and known by it to whoever retries it.

use postrider_core::layout::State;
use postrider_core::{Finding, Layout, Level};

use crate::sql::dialect::Dialect;
use crate::sql::statement::suffixed;
use crate::sql::table::{Column, Kind, Partitions, Rows, Table};

pub(super) fn findings(layout: &Layout, dialect: &Dialect, table: &Table) -> Vec<Finding> {
    let Some(id) = table.column(&layout.columns.id) else {
        return Vec::new();
    };
    if let Some(finding) = unseen(layout, table, id) {
        return vec![finding];
    }
    let findings = [
        ambiguous(layout, dialect, table, id),
        nullable(layout, dialect, table, id),
        given_again(layout, id),
    ];
    findings.into_iter().flatten().collect()
}

fn is_unique(table: &Table, id: &Column) -> bool {
    let alone = |set: &Vec<String>| set.len() == 1 && set[0] == id.name;
    table.unique.iter().any(alone)
}

/// Of a view nothing is known, and an index does not speak for tables that inherit from its own.
fn unseen(layout: &Layout, table: &Table, id: &Column) -> Option<Finding> {
    let why = match table.rows {
        Rows::Elsewhere => "it is a view or a foreign table",
        Rows::Inherited if is_unique(table, id) => "other tables inherit from it",
        Rows::Inherited | Rows::Here => return None,
    };
    let message = format!(
        "whether a value of column {} (as id) comes twice, or is NULL, cannot be told from {}: {why}. Publishing one of two \
         records with one id would mark both, and one without an id is never published",
        id.name, table.full_name
    );
    let remedy = format!(
        "see that {} is NOT NULL and unique wherever rows are",
        layout.columns.id.quoted()
    );
    Some(Finding::new(Level::Warning, id.name.as_str(), message).remedy(remedy))
}

/// Where two records have one id, publishing one marks both. A stream's ids are positions, which are read and never
/// settled one by one.
fn ambiguous(layout: &Layout, dialect: &Dialect, table: &Table, id: &Column) -> Option<Finding> {
    if matches!(layout.state, State::Append { .. }) || is_unique(table, id) {
        return None;
    }
    let name = &id.name;
    let says = |level, message: String| Finding::new(level, name.as_str(), message);
    if let Some(together) = (table.partitions.as_ref()).and_then(|parts| together(table, parts, id))
    {
        let message = format!(
            "column {name} (as id) is unique {together}, as {} is partitioned: where a value comes twice all the same, \
             publishing one record marks both, and an event is lost",
            table.full_name
        );
        let level = match is_drawn(id) {
            true => Level::Note,
            false => Level::Warning,
        };
        let remedy = "let the database draw ids, by a sequence or gen_random_uuid(), and never write them by hand";
        return Some(says(level, message).remedy(remedy));
    }
    let quoted = layout.columns.id.quoted();
    let message = format!(
        "column {name} (as id) of table {} may come twice, and publishing one of two records would mark both: no primary \
         key or unique index covers it alone. One that is partial, by an expression, deferrable or invalid does not count. \
         Values that are there twice are found by SELECT {quoted} FROM {} GROUP BY 1 HAVING count(*) > 1",
        table.full_name, table.full_name
    );
    Some(says(Level::Error, message).remedy(unique_index(layout, dialect, table)))
}

/// What the id is unique with, where a partitioned table cannot have it unique alone.
fn together(table: &Table, partitions: &Partitions, id: &Column) -> Option<String> {
    let with_key = table.unique.iter().find(|set| {
        let ours = |column: &&String| **column != id.name;
        set.contains(&id.name) && set.iter().filter(ours).all(|c| partitions.by.contains(c))
    });
    if let Some(set) = with_key {
        let others = set.iter().filter(|column| **column != id.name);
        let others: Vec<&str> = others.map(String::as_str).collect();
        return Some(format!("only together with {}", others.join(", ")));
    }
    let in_each = partitions.unique_in_each.contains(&id.name);
    in_each.then(|| "only in each partition".into())
}

fn is_drawn(id: &Column) -> bool {
    let default = id.default.as_deref().unwrap_or_default();
    let drawn = ["nextval(", "uuid"];
    default == "identity" || drawn.iter().any(|word| default.contains(word))
}

fn unique_index(layout: &Layout, dialect: &Dialect, table: &Table) -> String {
    let id = layout.columns.id.quoted();
    let name = suffixed(&layout.table.name, "_postrider_id").quoted();
    let create = "CREATE UNIQUE INDEX";
    if !dialect.locks_rows {
        return format!(
            "{create} IF NOT EXISTS {name} ON {} ({id})",
            layout.table.quoted()
        );
    }
    match &table.partitions {
        None => format!("{create} CONCURRENTLY {name} ON {} ({id})", table.full_name),
        Some(parts) if parts.by_expression => format!(
            "{create} CONCURRENTLY on ({id}) of each partition; the table itself, which is partitioned by an expression, \
             takes none"
        ),
        Some(parts) => {
            let by = parts
                .by
                .iter()
                .filter(|column| **column != layout.columns.id.as_str());
            let by: Vec<String> = by
                .map(|column| format!(", \"{}\"", column.replace('"', "\"\"")))
                .collect();
            format!(
                "{create} {name} ON {} ({id}{})",
                table.full_name,
                by.concat()
            )
        }
    }
}

fn nullable(layout: &Layout, dialect: &Dialect, table: &Table, id: &Column) -> Option<Finding> {
    if !id.nullable {
        return None;
    }
    let message = format!(
        "column {} (as id) may be NULL, and such records are never published",
        id.name
    );
    let remedy = not_null(layout, dialect, table);
    Some(Finding::new(Level::Warning, id.name.as_str(), message).remedy(remedy))
}

/// How many records that wait have no id.
pub(crate) fn without_id(
    layout: &Layout,
    dialect: &Dialect,
    table: &Table,
    count: i64,
    limit: u32,
) -> Option<Finding> {
    if count == 0 {
        return None;
    }
    let or_more = if count >= i64::from(limit) {
        " or more"
    } else {
        ""
    };
    let id = &layout.columns.id;
    let message = format!(
        "{count}{or_more} records have no id (column {id} is NULL): they are passed over, and never published"
    );
    let value = match table.column(id) {
        Some(column) if dialect.locks_rows && column.default.is_some() => "DEFAULT",
        Some(column) if dialect.locks_rows && column.kind == Kind::Uuid => "gen_random_uuid()",
        _ => "…",
    };
    let remedy = format!(
        "UPDATE {} SET {id} = {value} WHERE {id} IS NULL, and they are published; then {}",
        table.full_name,
        not_null(layout, dialect, table),
        id = id.quoted(),
    );
    Some(Finding::new(Level::Error, id.as_str(), message).remedy(remedy))
}

fn not_null(layout: &Layout, dialect: &Dialect, table: &Table) -> String {
    let id = layout.columns.id.quoted();
    if dialect.locks_rows {
        return format!(
            "ALTER TABLE {} ALTER COLUMN {id} SET NOT NULL",
            table.full_name
        );
    }
    format!(
        "make the table anew with {id} declared NOT NULL, which SQLite does not add to a table that is there, and copy \
         its rows"
    )
}

/// An event that has the id of an earlier one is a duplicate to every inbox.
fn given_again(layout: &Layout, id: &Column) -> Option<Finding> {
    let columns = &layout.columns;
    let events_have_it = columns
        .event_id
        .as_ref()
        .is_none_or(|event_id| *event_id == columns.id)
        && columns.event_id_header.is_none();
    if !id.details.given_again || !events_have_it {
        return None;
    }
    // Every record that is published is deleted, so the next one gets its number for certain.
    let (level, when) = match layout.state {
        State::Delete => (
            Level::Error,
            "the latest record is published, which deletes it",
        ),
        _ => (
            Level::Warning,
            "the latest records were deleted by cleanup or `dead discard`",
        ),
    };
    let message = format!(
        "column {} (as id, which is also the event's) is INTEGER PRIMARY KEY without AUTOINCREMENT: after {when}, their \
         numbers are given again, and consumers drop new events as duplicates",
        id.name
    );
    let remedy = format!(
        "make the table anew with {} INTEGER PRIMARY KEY AUTOINCREMENT, which SQLite does not add to a table that is there, \
         and copy its rows; or give events ids of their own, and name their column in the layout (columns.event_id)",
        columns.id.quoted()
    );
    Some(Finding::new(level, id.name.as_str(), message).remedy(remedy))
}
