//! Postrider's own outbox: partitions that are emptied as a whole, saved progress, and copies of what failed.
//!
//! Unique constraints and identity columns do not go with such partitions before Postgres 17, so positions come from a
//! plain default and every partition has an index of its own.

use postrider_core::Layout;
use postrider_core::layout::{Identifier, PayloadType, State, TableName};

use super::presets::{block, quote};
use crate::sql::statement::stream::{SEGMENT_BITS, SEGMENTS, beside, segment};
use crate::sql::statement::{literal, suffixed};
use crate::sql::table::{Kind, Table};

/// The outbox itself.
pub(crate) fn table(layout: &Layout) -> Vec<String> {
    let State::Append { xid, .. } = &layout.state else {
        return Vec::new();
    };
    let (id, table) = (layout.columns.id.quoted(), layout.table.quoted());
    let sequence = beside(&layout.table).sequence.quoted();
    // The transaction comes first, so that it has its number before the position is drawn: reading depends on it.
    let mut columns = vec![
        format!(
            "{} xid8 NOT NULL DEFAULT pg_current_xact_id()",
            xid.quoted()
        ),
        format!(
            "{id} bigint NOT NULL DEFAULT nextval({})",
            literal(&sequence)
        ),
    ];
    columns.extend(content(
        layout,
        payload_type(layout, &Table::unseen(&layout.table)),
    ));
    let mut statements = vec![
        format!("CREATE SEQUENCE IF NOT EXISTS {sequence} AS bigint CACHE 1"),
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  {}\n) PARTITION BY LIST ((({id} >> {SEGMENT_BITS}) % {SEGMENTS}))",
            columns.join(",\n  ")
        ),
        format!("ALTER SEQUENCE {sequence} OWNED BY {table}.{id}"),
    ];
    for number in 0..SEGMENTS {
        let part = segment(&layout.table, number);
        let index = |suffix: &str| suffixed(&part.name, suffix).quoted();
        let name = part.quoted();
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {name} PARTITION OF {table} FOR VALUES IN ({number})"
        ));
        statements.push(format!(
            "CREATE UNIQUE INDEX IF NOT EXISTS {} ON {name} ({id})",
            index("_by_position")
        ));
        statements.push(format!(
            "CREATE INDEX IF NOT EXISTS {} ON {name} ({}, {id})",
            index("_by_xid"),
            xid.quoted()
        ));
    }
    statements
}

/// What payloads are stored as: as the table has it, if it is there.
fn payload_type(layout: &Layout, table: &Table) -> &'static str {
    let wanted = match &layout.state {
        State::Append { payload, .. } => *payload,
        _ => PayloadType::Bytea,
    };
    match (table.kind(&layout.columns.payload), wanted) {
        (Kind::Json, _) | (Kind::Other, PayloadType::Json) => "json",
        _ => "bytea",
    }
}

/// What a record and its copy both have.
fn content(layout: &Layout, payload: &str) -> Vec<String> {
    let columns = &layout.columns;
    let optional = [
        (
            columns.event_id.as_ref(),
            "uuid NOT NULL DEFAULT gen_random_uuid()",
        ),
        (columns.topic.as_ref(), "text NOT NULL"),
        (columns.key.as_ref(), "text"),
        (columns.event_type.as_ref(), "text"),
        (columns.aggregate_type.as_ref(), "text"),
        (columns.aggregate_id.as_ref(), "text"),
        (columns.idempotency_key.as_ref(), "text"),
        (columns.version.as_ref(), "integer NOT NULL DEFAULT 1"),
        (columns.headers.as_ref(), "json"),
        (columns.metadata.as_ref(), "json"),
        (Some(&columns.payload), payload),
        (
            Some(&columns.created_at),
            "timestamptz NOT NULL DEFAULT clock_timestamp()",
        ),
    ];
    let mut names: Vec<&Identifier> = vec![&columns.id];
    let mut lines = Vec::new();
    for (name, definition) in optional {
        if let Some(name) = name.filter(|name| !names.contains(name)) {
            names.push(name);
            lines.push(format!("{} {definition}", name.quoted()));
        }
    }
    lines
}

/// What stands beside an append-only outbox, whoever made it.
pub(crate) fn companions(layout: &Layout, table: &Table) -> Vec<String> {
    let State::Append { groups, .. } = &layout.state else {
        return Vec::new();
    };
    let names = beside(&layout.table);
    let mut statements = vec![progress(&names.progress), start(&names.progress, *groups)];
    let payload = payload_type(layout, table);
    statements.extend(troubles(layout, &names.troubles, payload));
    statements.extend(emit(layout, payload));
    statements
}

fn progress(table: &TableName) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (\n  grp integer NOT NULL,\n  groups integer NOT NULL,\n  \
         version bigint NOT NULL DEFAULT 0,\n  epoch bigint NOT NULL DEFAULT 0,\n  position bigint NOT NULL DEFAULT 0,\n  \
         from_snapshot pg_snapshot NOT NULL,\n  from_low bigint NOT NULL DEFAULT 0,\n  to_snapshot pg_snapshot,\n  \
         to_low bigint NOT NULL DEFAULT 0,\n  to_high bigint NOT NULL DEFAULT 0,\n  next_low bigint NOT NULL DEFAULT 0,\n  \
         system text,\n  timeline text NOT NULL,\n  updated_at timestamptz NOT NULL DEFAULT now(),\n  \
         PRIMARY KEY (grp, version)\n)",
        table.quoted()
    )
}

/// Every group starts before the first transaction there can be, so whatever the outbox holds is read.
fn start(table: &TableName, groups: u32) -> String {
    block(&format!(
        "DECLARE\n  here text;\nBEGIN\n  BEGIN\n    \
         SELECT system_identifier::text INTO here FROM pg_control_system();\n  \
         EXCEPTION WHEN insufficient_privilege THEN\n    here := NULL;\n  END;\n  \
         INSERT INTO {name} (grp, groups, from_snapshot, system, timeline)\n    \
         SELECT grp, {groups}, '3:3:', here, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)\n    \
         FROM generate_series(0, {groups} - 1) AS grp WHERE NOT EXISTS (SELECT FROM {name});\nEND",
        name = table.quoted(),
    ))
}

fn troubles(layout: &Layout, table: &TableName, payload: &str) -> Vec<String> {
    let id = layout.columns.id.quoted();
    let mut lines = vec![format!("{id} bigint PRIMARY KEY")];
    lines.extend(content(layout, payload));
    for line in [
        "attempts integer NOT NULL",
        "next_attempt_at timestamptz NOT NULL",
        "last_error text",
        "dead boolean NOT NULL DEFAULT false",
    ] {
        lines.push(line.into());
    }
    let mut statements = vec![format!(
        "CREATE TABLE IF NOT EXISTS {} (\n  {}\n)",
        table.quoted(),
        lines.join(",\n  ")
    )];
    if let Some(key) = &layout.columns.key {
        // A key may be longer than an index takes. The index by the key's text is of earlier versions.
        let by_text = table.sibling(suffixed(&table.name, "_by_key"));
        statements.push(format!("DROP INDEX IF EXISTS {}", by_text.quoted()));
        statements.push(format!(
            "CREATE INDEX IF NOT EXISTS {} ON {} (hashtextextended({} COLLATE \"C\", 0), {id})",
            suffixed(&table.name, "_by_key_token").quoted(),
            table.quoted(),
            key.quoted()
        ));
    }
    statements
}

/// The SQL function that other languages emit through: `postrider_emit` beside `postrider_outbox`, else named after its
/// table.
fn emit(layout: &Layout, payload: &str) -> Vec<String> {
    let columns = &layout.columns;
    let (Some(topic), Some(key), Some(event_type), Some(headers), Some(event_id)) = (
        &columns.topic,
        &columns.key,
        &columns.event_type,
        &columns.headers,
        &columns.event_id,
    ) else {
        return Vec::new();
    };
    let name = match layout.table.name.as_str() {
        "postrider_outbox" => "postrider_emit".to_owned().try_into().expect("is a name"),
        _ => suffixed(&layout.table.name, "_emit"),
    };
    let function = layout.table.sibling(name).quoted();
    let create = |payload_type: &str, payload: &str| {
        format!(
            "CREATE OR REPLACE FUNCTION {function}(topic text, key text, type text, payload {payload_type}, \
             headers json DEFAULT NULL)\nRETURNS uuid LANGUAGE sql AS {}",
            quote(&format!(
                "INSERT INTO {} ({}, {}, {}, {}, {}) VALUES ($1, $2, $3, {payload}, $5) RETURNING {}",
                layout.table.quoted(),
                topic.quoted(),
                key.quoted(),
                event_type.quoted(),
                columns.payload.quoted(),
                headers.quoted(),
                event_id.quoted(),
            ))
        )
    };
    match payload {
        "json" => vec![
            create("bytea", "convert_from($4, 'UTF8')::json"),
            create("text", "$4::json"),
        ],
        _ => vec![
            create("bytea", "$4"),
            create("text", "convert_to($4, 'UTF8')"),
        ],
    }
}
