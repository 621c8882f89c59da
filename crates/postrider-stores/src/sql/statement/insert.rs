//! Recording events, any number in one statement.

use postrider_core::Layout;
use postrider_core::layout::State;

use super::{of, unpublished};
use crate::sql::dialect::{Dialect, List, list};
use crate::sql::draft::Drafts;
use crate::sql::table::{Kind, Table};

/// One parameter per drafted column, in their order: a list of all events' values, or where the dialect takes no lists,
/// one event's. Returns the event ids that were recorded.
pub(crate) fn insert(
    layout: &Layout,
    table: &Table,
    dialect: &Dialect,
    drafts: &Drafts<'_>,
) -> String {
    let mut names: Vec<String> = drafts
        .columns
        .iter()
        .map(|column| column.name.quoted())
        .collect();
    if drafts.stamped {
        names.push(layout.columns.created_at.quoted());
    }
    let rows = if dialect.inserts_lists {
        rows_of_lists(dialect, drafts)
    } else {
        one_row(layout, table, dialect, drafts)
    };
    // An append-only table has nothing that two events could share, and looking for it would cost.
    let conflict = match layout.state {
        State::Append { .. } => "",
        _ => "ON CONFLICT DO NOTHING ",
    };
    format!(
        "INSERT INTO {} ({})\n{rows}\n{conflict}RETURNING {}",
        layout.table.quoted(),
        names.join(", "),
        recorded_id(layout, dialect),
    )
}

fn rows_of_lists(dialect: &Dialect, drafts: &Drafts<'_>) -> String {
    let aliases: Vec<String> = (1..=drafts.columns.len())
        .map(|n| format!("v{n}"))
        .collect();
    let columns = drafts.columns.iter().zip(&aliases);
    let lists: Vec<List<'_>> = (1..)
        .zip(columns.clone())
        .map(|(n, (column, alias))| match column.kind {
            Kind::Bytes => list(n, "bytea", alias),
            _ => list(n, "text", alias),
        })
        .collect();
    let mut values: Vec<String> = columns
        .map(|(column, alias)| match column.kind {
            Kind::Bytes | Kind::Text => format!("u.{alias}"),
            _ => (dialect.cast)(&format!("u.{alias}"), &column.sql_type),
        })
        .collect();
    if drafts.stamped {
        // Each a microsecond after the one before: in emission order, whatever their ids.
        let clock = format!("(SELECT {})", dialect.clock);
        values.push((dialect.after)(&clock, "(u.n - 1)"));
    }
    format!(
        "SELECT {} FROM {} ORDER BY u.n",
        values.join(", "),
        (dialect.numbered_rows)(&lists, "u")
    )
}

fn one_row(layout: &Layout, table: &Table, dialect: &Dialect, drafts: &Drafts<'_>) -> String {
    let mut values: Vec<String> = (1..=drafts.columns.len())
        .map(|n| format!("${n}"))
        .collect();
    let created_at = &layout.columns.created_at;
    if drafts.stamped && layout.order.contains(created_at) {
        // The clock was read before the write lock was had, and may have been set back. Whoever has the lock writes
        // after all that is there.
        values.push(format!(
            "max({}, (SELECT coalesce(max({}), 0) + 1 FROM {} AS p WHERE {}))",
            dialect.clock,
            of("p", created_at),
            layout.table.quoted(),
            unpublished(layout, table, "p")
        ));
    } else if drafts.stamped {
        values.push(dialect.clock.into());
    }
    format!("VALUES ({})", values.join(", "))
}

/// What tells the recorded events apart.
fn recorded_id(layout: &Layout, dialect: &Dialect) -> String {
    let columns = &layout.columns;
    match (
        &columns.event_id,
        &columns.event_id_header,
        &columns.headers,
    ) {
        (Some(event_id), _, _) => (dialect.cast)(&event_id.quoted(), "text"),
        (None, Some(name), Some(headers)) => {
            format!(
                "{} ->> {}",
                (dialect.cast)(&headers.quoted(), "jsonb"),
                super::literal(name)
            )
        }
        _ => (dialect.cast)(&columns.id.quoted(), "text"),
    }
}
