//! Whether the tables of a stream are as reading and settling take them to be.

use postrider_core::StoreError;
use postrider_core::layout::{Identifier, State};
use sqlx::{PgConnection, Row as _};

use crate::postgres::error::store_error;
use crate::postgres::{Inner, shape};
use crate::sql::statement::literal;
use crate::sql::statement::stream::beside;
use crate::sql::table::{Column, Kind, Table};

/// What a copy has beside the columns of its record.
const OF_COPIES: [&str; 4] = ["attempts", "next_attempt_at", "last_error", "dead"];

const SEQUENCE: &str = "
SELECT s.seqcache = 1 AND s.seqincrement > 0 AND NOT s.seqcycle, EXISTS (
  SELECT FROM pg_catalog.pg_attrdef AS d
  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
  JOIN pg_catalog.pg_depend AS x ON x.classid = 'pg_catalog.pg_attrdef'::regclass AND x.objid = d.oid
    AND x.refobjid = s.seqrelid
  WHERE d.adrelid = to_regclass($2) AND a.attname = $3 AND pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%')
FROM pg_catalog.pg_sequence AS s WHERE s.seqrelid = to_regclass($1)";

/// A record's transaction has its number before its position is drawn, and positions go up. Without that, records would be
/// passed over.
pub(super) async fn check_positions(
    inner: &Inner,
    table: &Table,
    connection: &mut PgConnection,
) -> Result<(), StoreError> {
    let layout = &inner.options.layout;
    let State::Append { xid, .. } = &layout.state else {
        return Ok(());
    };
    let (position, sequence) = (&layout.columns.id, beside(&layout.table).sequence.quoted());
    let failed = store_error("look at the sequence of positions", &inner.name());
    let row = sqlx::query(SEQUENCE)
        .persistent(false)
        .bind(&sequence)
        .bind(layout.table.quoted())
        .bind(position.as_str())
        .fetch_one(connection)
        .await
        .map_err(&failed)?;
    let (goes_up, is_drawn): (bool, bool) = (
        row.try_get(0).map_err(&failed)?,
        row.try_get(1).map_err(&failed)?,
    );
    let place = |name: &Identifier| {
        let mut columns = table.columns.iter();
        columns.position(|column| column.name == name.as_str())
    };
    let default = table.column(xid).and_then(|xid| xid.default.as_deref());
    let set = |column: &Identifier, default: &str| {
        let (table, column) = (layout.table.quoted(), column.quoted());
        format!("`ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {default}`")
    };
    let remedy = if place(xid) > place(position) {
        format!(
            "column {xid} must come before {position}; rename the table and its sequence, run `postrider init`, and copy \
             what was not published"
        )
    } else if default != Some("pg_current_xact_id()") {
        set(xid, "pg_current_xact_id()")
    } else if !is_drawn {
        set(position, &format!("nextval({})", literal(&sequence)))
    } else if !goes_up {
        format!("`ALTER SEQUENCE {sequence} CACHE 1 INCREMENT 1 NO CYCLE`")
    } else {
        return Ok(());
    };
    Err(StoreError::Mismatch(format!(
        "{} would be read with gaps, since a record's transaction must have its number before its position is drawn, and \
         positions must go up: {remedy}",
        inner.name()
    )))
}

/// Copies take whatever their records hold, or no failure could be settled.
pub(super) async fn check_copies(
    inner: &Inner,
    table: &Table,
    copied: &[Identifier],
    connection: &mut PgConnection,
) -> Result<(), StoreError> {
    let name = beside(&inner.options.layout.table).troubles;
    let failed = store_error("read the columns of copies", &name.to_string());
    let copies = shape::read(connection, &name).await.map_err(failed)?;
    let Some(copies) = copies else { return Ok(()) };
    let known = copied.iter().filter_map(|name| table.column(name));
    let mut changes: Vec<String> = known
        .filter_map(|column| {
            change(
                column,
                copies.columns.iter().find(|c| c.name == column.name),
            )
        })
        .collect();
    let is_ours = |column: &Column| {
        OF_COPIES.contains(&&*column.name) || copied.iter().any(|name| name.as_str() == column.name)
    };
    let others = copies.columns.iter().filter(|column| !is_ours(column));
    changes.extend(
        others
            .filter(|column| !column.nullable && column.default.is_none())
            .map(|column| format!("ALTER COLUMN {} DROP NOT NULL", quoted(column))),
    );
    if changes.is_empty() {
        return Ok(());
    }
    Err(StoreError::Mismatch(format!(
        "{name} cannot take every record of {} that fails: `ALTER TABLE {} {}`",
        inner.name(),
        name.quoted(),
        changes.join(", ")
    )))
}

/// What makes a copy's column take what the record's has.
fn change(of: &Column, copy: Option<&Column>) -> Option<String> {
    let (name, sql_type) = (quoted(of), &of.sql_type);
    let Some(copy) = copy else {
        return Some(format!("ADD COLUMN {name} {sql_type}"));
    };
    let is_json = |kind| matches!(kind, Kind::Json | Kind::Jsonb);
    let fits =
        of.kind == copy.kind || copy.kind == Kind::Text || is_json(of.kind) && is_json(copy.kind);
    let is_shorter = copy
        .chars_max
        .is_some_and(|max| of.chars_max.is_none_or(|chars| chars > max));
    if !fits || is_shorter {
        return Some(format!("ALTER COLUMN {name} TYPE {sql_type}"));
    }
    (of.nullable && !copy.nullable).then(|| format!("ALTER COLUMN {name} DROP NOT NULL"))
}

fn quoted(column: &Column) -> String {
    format!("\"{}\"", column.name.replace('"', "\"\""))
}
