//! Whether the columns that a layout names are there, hold what they should, and may be used.

mod id;
mod order;

use postrider_core::layout::{Identifier, State};
use postrider_core::{Finding, Layout, Level, StoreError};

use crate::options::Options;
use crate::sql::dialect::Dialect;
use crate::sql::statement::{audit_table, dead_check, troubles_table};
use crate::sql::table::{Beside, Column, Kind, Table, is_shown_as};
use crate::sql::{AUDIT, TROUBLES};

pub(crate) use id::without_id;

const ANY: &[Kind] = &[];

/// Whether what was read of the table may be out of date.
pub(crate) fn is_stale(error: &StoreError) -> bool {
    matches!(error, StoreError::Mismatch(_))
}

/// A column that a layout names.
struct Needed<'a> {
    column: &'a Identifier,
    role: &'static str,
    /// What it may hold.
    kinds: &'static [Kind],
    /// Whether the relay writes it.
    written: bool,
}

/// The table if the layout fits it, else why not.
pub(crate) fn fitting(
    options: &Options,
    dialect: &Dialect,
    table: Option<Table>,
) -> Result<Table, StoreError> {
    let errors: Vec<String> = findings(options, dialect, table.as_ref())
        .into_iter()
        .filter(|finding| finding.level == Level::Error)
        .map(|finding| match finding.remedy {
            Some(remedy) => format!("{}; {remedy}", finding.message),
            None => finding.message,
        })
        .collect();
    match table {
        Some(table) if errors.is_empty() => Ok(table),
        _ => Err(StoreError::Mismatch(errors.join("\n"))),
    }
}

pub(crate) fn findings(
    options: &Options,
    dialect: &Dialect,
    table: Option<&Table>,
) -> Vec<Finding> {
    let layout = &options.layout;
    if matches!(layout.state, State::Append { .. }) && !dialect.locks_rows {
        let message = format!(
            "layout {} is read as a stream, which needs Postgres",
            layout.name
        );
        let remedy = "use another layout for a SQLite outbox";
        return vec![Finding::new(Level::Error, layout.table.to_string(), message).remedy(remedy)];
    }
    let Some(table) = table else {
        let message = format!("table {} does not exist", layout.table);
        let remedy = "run `postrider init` to create it, or name another in `table`";
        return vec![Finding::new(Level::Error, layout.table.to_string(), message).remedy(remedy)];
    };
    let needed = needed(layout, dialect, table);
    let mut findings: Vec<Finding> = needed
        .iter()
        .filter_map(|needed| unfit(layout, dialect, table, needed))
        .collect();
    if findings.is_empty() {
        findings.extend(id::findings(layout, dialect, table));
        findings.extend(order::findings(layout, dialect, table));
        findings.extend(status_words(layout, table));
        findings.extend(checked(layout, table, &needed));
        findings.extend(privileges(layout, table, &needed));
        findings.extend(troubles(layout, table));
        findings.extend(audit(layout, table));
    }
    findings
}

fn needed<'a>(layout: &'a Layout, dialect: &Dialect, table: &Table) -> Vec<Needed<'a>> {
    let columns = &layout.columns;
    // The one column that a table may lack.
    let metadata = columns
        .metadata
        .as_ref()
        .filter(|name| table.column(name).is_some());
    let read = [
        ("id", Some(&columns.id)),
        ("payload", Some(&columns.payload)),
        ("event_id", columns.event_id.as_ref()),
        ("event_type", columns.event_type.as_ref()),
        ("aggregate_type", columns.aggregate_type.as_ref()),
        ("aggregate_id", columns.aggregate_id.as_ref()),
        ("topic", columns.topic.as_ref()),
        ("key", columns.key.as_ref()),
        ("idempotency_key", columns.idempotency_key.as_ref()),
        ("version", columns.version.as_ref()),
        ("headers", columns.headers.as_ref()),
        ("metadata", metadata),
    ];
    let read = read
        .into_iter()
        .filter_map(|(role, column)| Some((role, column?)));
    let read = read.chain(layout.order.iter().map(|column| ("order", column)));
    let reading = |kinds| {
        move |(role, column)| Needed {
            column,
            role,
            kinds,
            written: false,
        }
    };
    let mut needed: Vec<Needed<'a>> = read.map(reading(ANY)).collect();
    needed.push(reading(dialect.times)(("created_at", &columns.created_at)));
    needed.extend(written(layout, dialect));
    needed
}

/// The columns that a record's state is written in.
fn written<'a>(layout: &'a Layout, dialect: &Dialect) -> Vec<Needed<'a>> {
    let columns = &layout.columns;
    let write = |role, kinds| {
        move |column| Needed {
            column,
            role,
            kinds,
            written: true,
        }
    };
    let mut needed: Vec<Needed<'a>> = Vec::new();
    needed.extend(columns.attempts.iter().map(write("attempts", &[Kind::Int])));
    needed.extend(
        columns
            .last_error
            .iter()
            .map(write("last_error", &[Kind::Text])),
    );
    needed.extend(
        layout
            .published_at()
            .map(write("published_at", dialect.times)),
    );
    match &layout.state {
        State::Flag { published, .. } => needed.push(write("published", dialect.flags)(published)),
        State::Status {
            column,
            retry_at,
            last_attempt_at,
            ..
        } => {
            needed.push(write("status", &[Kind::Text, Kind::Enum])(column));
            needed.push(write("retry_at", dialect.times)(retry_at));
            needed.push(write("last_attempt_at", dialect.times)(last_attempt_at));
        }
        State::Timestamp { .. } | State::Delete | State::Append { .. } => {}
    }
    needed
}

fn unfit(
    layout: &Layout,
    dialect: &Dialect,
    table: &Table,
    needed: &Needed<'_>,
) -> Option<Finding> {
    let Needed {
        column,
        role,
        kinds,
        ..
    } = needed;
    let Some(found) = table.column(column) else {
        let names: Vec<&str> = table
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        let message = format!(
            "layout {} expects column {column} (as {role}) in table {}, which has {}",
            layout.name,
            table.full_name,
            names.join(", ")
        );
        let remedy = "name the right column or table in the layout";
        return Some(Finding::new(Level::Error, column.as_str(), message).remedy(remedy));
    };
    if kinds.is_empty() || kinds.contains(&found.kind) {
        return None;
    }
    let expected: Vec<&str> = kinds.iter().map(|kind| called(*kind, dialect)).collect();
    let message = format!(
        "layout {} expects column {column} of table {} (as {role}) to be {}, but it is {}",
        layout.name,
        table.full_name,
        expected.join(" or "),
        found.sql_type
    );
    Some(Finding::new(Level::Error, column.as_str(), message))
}

fn called(kind: Kind, dialect: &Dialect) -> &'static str {
    match kind {
        Kind::Uuid => "uuid",
        Kind::Int => "an integer",
        Kind::Text => "text",
        Kind::Json => "json",
        Kind::Jsonb => "jsonb",
        Kind::Bytes => "bytea",
        Kind::Bool => "boolean",
        Kind::Time => dialect.time_type,
        Kind::LocalTime => "timestamp",
        Kind::Enum => "an enum",
        Kind::Other => "another type",
    }
}

/// An enum must know every word that the relay writes.
fn status_words(layout: &Layout, table: &Table) -> Vec<Finding> {
    let State::Status {
        column,
        pending,
        publishing,
        published,
        failed,
        dead,
        ..
    } = &layout.state
    else {
        return Vec::new();
    };
    let Some(found) = table
        .column(column)
        .filter(|found| found.kind == Kind::Enum)
    else {
        return Vec::new();
    };
    [pending, publishing, published, failed, dead]
        .into_iter()
        .filter(|word| !found.labels.contains(word))
        .map(|word| {
            let message = format!(
                "column {column} of table {} has no value `{word}`; it has {}",
                table.full_name,
                found.labels.join(", ")
            );
            Finding::new(Level::Error, column.as_str(), message)
        })
        .collect()
}

/// Conditions that may refuse what the relay writes. The table's own conditions on states are what its words are for; those
/// on what a failure leaves are met only when something fails.
fn checked(layout: &Layout, table: &Table, needed: &[Needed<'_>]) -> Vec<Finding> {
    let written = needed.iter().filter(|needed| needed.written);
    let found = written.filter_map(|needed| {
        let column = table.column(needed.column)?;
        let details = &column.details;
        let of_failures = [&layout.columns.attempts, &layout.columns.last_error];
        let of_failures = of_failures.into_iter().flatten().any(|name| name == needed.column);
        // What `init` has made takes all that a failure leaves.
        let own = dead_check(&layout.table);
        let foreign_checks = details.table_checks.iter();
        let foreign_checks: Vec<&str> = foreign_checks
            .map(String::as_str)
            .filter(|check| !is_shown_as(&own, check))
            .collect();
        let named = if !details.domain_checks.is_empty() {
            format!("domain {} has a CHECK, which", details.domain_checks.join(", "))
        } else if of_failures && !foreign_checks.is_empty() {
            format!("CHECK {}", foreign_checks.join(", "))
        } else {
            return None;
        };
        let message = format!(
            "{named} may refuse what is written to column {} (as {})",
            column.name, needed.role
        );
        let remedy = "see that it takes attempts up to `max_attempts`, errors of up to 1,024 bytes and every word of the layout; \
                      a failure that it refuses cannot be written down, and the record is tried again";
        Some(Finding::new(Level::Note, column.name.as_str(), message).remedy(remedy))
    });
    found.collect()
}

fn privileges(layout: &Layout, table: &Table, needed: &[Needed<'_>]) -> Vec<Finding> {
    let lacking = |privilege: &str, has: fn(&Column) -> bool, of: &dyn Fn(&Needed<'_>) -> bool| {
        let mut columns: Vec<String> = Vec::new();
        for needed in needed.iter().filter(|needed| of(needed)) {
            let quoted = needed.column.quoted();
            if table.column(needed.column).is_some_and(|found| !has(found))
                && !columns.contains(&quoted)
            {
                columns.push(quoted);
            }
        }
        (!columns.is_empty()).then(|| {
            let columns = columns.join(", ");
            let message = format!(
                "role {} lacks {privilege} on {columns} of {}",
                table.role, table.full_name
            );
            let grant = format!(
                "GRANT {privilege} ({columns}) ON {} TO {}",
                table.full_name, table.role
            );
            Finding::new(Level::Error, &table.full_name, message).remedy(grant)
        })
    };
    let mut findings: Vec<Finding> = [
        lacking("SELECT", |column| column.may_select, &|_| true),
        lacking("UPDATE", |column| column.may_update, &|needed| {
            needed.written
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !table.may_delete {
        let needs_it = matches!(layout.state, State::Delete);
        let (level, why) = match needs_it {
            true => (Level::Error, "publishing deletes the record"),
            false => (
                Level::Note,
                "cleaning up and discarding dead records need it",
            ),
        };
        let message = format!(
            "role {} lacks DELETE on {}: {why}",
            table.role, table.full_name
        );
        let grant = format!("GRANT DELETE ON {} TO {}", table.full_name, table.role);
        findings.push(Finding::new(level, &table.full_name, message).remedy(grant));
    }
    findings
}

fn troubles(layout: &Layout, table: &Table) -> Option<Finding> {
    if !layout.needs_troubles() {
        return None;
    }
    let name = troubles_table(&layout.table);
    let (message, remedy) = match table.troubles {
        Beside::Ready => return None,
        Beside::Missing => (
            format!(
                "table {name} does not exist; layout {} keeps retries and deaths there",
                layout.name
            ),
            "run `postrider init`".into(),
        ),
        Beside::Forbidden => (
            format!("role {} may not use table {name}", table.role),
            format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}",
                name.quoted(),
                table.role
            ),
        ),
    };
    Some(Finding::new(Level::Error, TROUBLES, message).remedy(remedy))
}

/// The relay needs no audit. Only an operator's change does.
fn audit(layout: &Layout, table: &Table) -> Option<Finding> {
    let name = audit_table(&layout.table);
    let (level, message, remedy) = match table.audit {
        Beside::Ready => return None,
        Beside::Missing => (
            Level::Warning,
            format!(
                "table {name} does not exist: dead records can be neither resent nor discarded"
            ),
            "run `postrider init`".into(),
        ),
        Beside::Forbidden => (
            Level::Note,
            format!(
                "role {} may not write to table {name}, and so neither resend nor discard dead records",
                table.role
            ),
            format!(
                "GRANT SELECT, INSERT ON {} TO {}",
                name.quoted(),
                table.role
            ),
        ),
    };
    Some(Finding::new(level, AUDIT, message).remedy(remedy))
}
