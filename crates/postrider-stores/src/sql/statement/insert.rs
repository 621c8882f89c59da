//! Recording events, any number in one statement.

use postrider_core::Layout;
use postrider_core::layout::State;

use crate::sql::dialect::Dialect;
use crate::sql::draft::Drafts;
use crate::sql::table::Kind;

/// One list parameter per drafted column, in their order. Returns the event ids that were recorded.
pub(crate) fn insert(layout: &Layout, dialect: &Dialect, drafts: &Drafts<'_>) -> String {
    let types: Vec<&str> = drafts
        .columns
        .iter()
        .map(|c| {
            if c.kind == Kind::Bytes {
                "bytea"
            } else {
                "text"
            }
        })
        .collect();
    let lists: Vec<(u32, &str)> = (1..).zip(types).collect();
    let mut names: Vec<String> = drafts
        .columns
        .iter()
        .map(|column| column.name.quoted())
        .collect();
    let aliases: Vec<String> = (1..=names.len()).map(|n| format!("v{n}")).collect();
    let mut values: Vec<String> = drafts
        .columns
        .iter()
        .zip(&aliases)
        .map(|(column, alias)| match column.kind {
            Kind::Bytes | Kind::Text => format!("u.{alias}"),
            _ => (dialect.cast)(&format!("u.{alias}"), &column.sql_type),
        })
        .collect();
    if drafts.stamped {
        names.push(layout.columns.created_at.quoted());
        // Each a microsecond after the one before: in emission order, whatever their ids.
        let clock = format!("(SELECT {})", dialect.clock);
        values.push((dialect.after)(&clock, "(u.n - 1)"));
    }
    // An append-only table has nothing that two events could share, and looking for it would cost.
    let conflict = match layout.state {
        State::Append { .. } => "",
        _ => "ON CONFLICT DO NOTHING ",
    };
    format!(
        "INSERT INTO {} ({})\nSELECT {} FROM {} WITH ORDINALITY AS u({}, n) ORDER BY u.n\n\
         {conflict}RETURNING {}",
        layout.table.quoted(),
        names.join(", "),
        values.join(", "),
        (dialect.rows)(&lists),
        aliases.join(", "),
        recorded_id(layout, dialect),
    )
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
