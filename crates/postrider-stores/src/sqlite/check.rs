//! Compares a layout with the real table, and looks for what loses or reorders events. What is an error here is what makes
//! claims refuse to start.

use postrider_core::layout::{ClaimMode, Identifier};
use postrider_core::{Finding, Layout, Level, Ordering, StoreError};
use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

use super::claims::{self, CLAIMS};
use super::error::store_error;
use super::schema::without_schema;
use super::{Inner, Options, shape};
use crate::sql::dialect::SQLITE;
use crate::sql::statement::claim_index;
use crate::sql::table::{Kind, Table};
use crate::structure;

/// Everything there is to say, the worst first.
pub(super) async fn findings(inner: &Inner) -> Result<Vec<Finding>, StoreError> {
    let failed = store_error("check the table", &inner.name());
    let layout = &inner.options.layout;
    let mut connection = inner.database.reader().await.map_err(&failed)?;
    let table = shape::read(&mut connection, &layout.table)
        .await
        .map_err(&failed)?;
    let claims = claims(&mut connection, layout).await.map_err(&failed)?;
    let mut findings = structure::findings(&inner.options, &SQLITE, table.as_ref());
    findings.extend(unfit(layout, table.as_ref(), claims));
    let broken = findings.iter().any(|finding| finding.level == Level::Error);
    if let Some(table) = table.filter(|_| !broken) {
        let index = index(&inner.options, &table, &mut connection).await;
        findings.extend(index.map_err(&failed)?);
        findings.extend(affinities(layout, &table));
        findings.extend(whole_seconds(layout, &table));
        findings.extend(undoes_all(layout, &mut connection).await.map_err(&failed)?);
    }
    findings.extend(settings(&mut connection).await.map_err(&failed)?);
    findings.extend(permissions(inner));
    findings.sort_by_key(|finding| finding.level);
    Ok(findings)
}

/// The table if the layout fits it, else why not.
pub(super) fn fitting(
    options: &Options,
    table: Option<Table>,
    claims: bool,
) -> Result<Table, StoreError> {
    without_schema(&options.layout.table)?;
    let table = structure::fitting(options, &SQLITE, table)?;
    let errors: Vec<String> = unfit(&options.layout, Some(&table), claims)
        .into_iter()
        .map(|finding| match finding.remedy {
            Some(remedy) => format!("{}; {remedy}", finding.message),
            None => finding.message,
        })
        .collect();
    if errors.is_empty() {
        Ok(table)
    } else {
        Err(StoreError::Mismatch(errors.join("\n")))
    }
}

/// Whether the table that claims are written to is there.
pub(super) async fn claims(
    connection: &mut SqliteConnection,
    layout: &Layout,
) -> Result<bool, sqlx::Error> {
    let found = shape::find(connection, &claims::table(&layout.table)).await?;
    Ok(found.is_some())
}

/// What only SQLite cannot do.
fn unfit(layout: &Layout, table: Option<&Table>, claims: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if layout.claim == ClaimMode::Hold && !claims {
        let message = format!("table {CLAIMS} does not exist; relays write there what they hold");
        let missing = Finding::new(Level::Error, CLAIMS, message);
        findings.push(missing.remedy("run `postrider init`"));
    }
    let Some(table) = table else {
        return findings;
    };
    let id = &layout.columns.id;
    if matches!(table.kind(id), Kind::Bytes | Kind::Other | Kind::LocalTime) {
        let message = format!(
            "column {id} of table {} is {:?}; ids are INTEGER or TEXT here",
            table.full_name,
            table.sql_type(id)
        );
        findings.push(Finding::new(Level::Error, id.as_str(), message));
    }
    findings
}

async fn index(
    options: &Options,
    table: &Table,
    connection: &mut SqliteConnection,
) -> Result<Option<Finding>, sqlx::Error> {
    let writer = options.writer(table, &SQLITE);
    let plan = format!("EXPLAIN QUERY PLAN {}", writer.claim_probe());
    let steps = sqlx::query(AssertSqlSafe(plan))
        .fetch_all(connection)
        .await?;
    let sorts = |detail: &String| detail.contains("TEMP B-TREE");
    let mut details = Vec::new();
    for step in &steps {
        details.push(step.try_get::<String, _>(3)?);
    }
    let by_index = details.iter().any(|detail| detail.contains("INDEX"))
        || options.layout.order == [options.layout.columns.id.clone()];
    if by_index && !details.iter().any(sorts) {
        return Ok(None);
    }
    let message = format!(
        "no index on {} holds the pending records in order: every claim sorts the whole backlog, and every emit looks \
         through it",
        table.full_name
    );
    let create = claim_index(&writer).create("IF NOT EXISTS", &layout_table(options));
    Ok(Some(
        Finding::new(Level::Warning, &table.full_name, message).remedy(create),
    ))
}

fn layout_table(options: &Options) -> String {
    options.layout.table.quoted()
}

/// A type without TEXT or BLOB in its name makes numbers of what looks like one.
fn affinities(layout: &Layout, table: &Table) -> Vec<Finding> {
    let columns = &layout.columns;
    let texts = [
        Some(&columns.payload),
        columns
            .key
            .as_ref()
            .filter(|_| layout.ordering == Ordering::Key),
        columns.headers.as_ref(),
    ];
    let numeric = |name: &&Identifier| {
        let declared = table.sql_type(name).to_ascii_uppercase();
        let keeps = ["TEXT", "CHAR", "CLOB", "BLOB", "INT"];
        !declared.is_empty() && !keeps.iter().any(|word| declared.contains(word))
    };
    let finding = |name: &Identifier| {
        let declared = table.sql_type(name);
        let message = format!(
            "column {name} is declared {declared:?}, and SQLite turns what looks like a number there into one: \
             \"1.0\" comes back as \"1\""
        );
        Finding::new(Level::Warning, name.as_str(), message)
            .remedy(format!("declare it {declared} TEXT"))
    };
    let texts = texts.into_iter().flatten();
    texts.filter(numeric).map(finding).collect()
}

/// Times that rows get by default, and that many of a key share. What is emitted through Postrider has its own.
fn whole_seconds(layout: &Layout, table: &Table) -> Option<Finding> {
    let name = layout.order.first()?;
    let column = table.column(name)?;
    let default = column.default.as_deref()?.to_ascii_lowercase();
    let seconds = ["unixepoch(", "'%s'", "current_timestamp"];
    let coarse = seconds.iter().any(|word| default.contains(word)) && !default.contains("subsec");
    if !coarse || layout.ordering == Ordering::None {
        return None;
    }
    let message = format!(
        "column {name} (as order) has whole seconds by default: records of a key that other programs insert in one second \
         are put in the order of the next column"
    );
    let remedy = "emit through Postrider, which writes microseconds, or make the table anew with DEFAULT \
                  (CAST(unixepoch('subsec') * 1000000 AS INTEGER)), which has milliseconds";
    Some(Finding::new(Level::Warning, name.as_str(), message).remedy(remedy))
}

/// Triggers and constraints that undo a whole transaction where they refuse one record. What was published with that
/// record cannot be marked either, so it is sent again.
async fn undoes_all(
    layout: &Layout,
    connection: &mut SqliteConnection,
) -> Result<Vec<Finding>, sqlx::Error> {
    const FIND: &str = "SELECT type, name FROM sqlite_schema \
        WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE AND sql LIKE '%RAISE%(%ROLLBACK%' \
        OR type = 'table' AND sql LIKE '%REFERENCES%' || ?1 || '%' AND sql LIKE '%INITIALLY%DEFERRED%' \
        ORDER BY name LIMIT 20";
    let outbox = layout.table.name.as_str();
    let rows = sqlx::query(FIND).bind(outbox).fetch_all(connection).await?;
    let finding = |row: &sqlx::sqlite::SqliteRow| {
        let (kind, name): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let (what, remedy) = match kind.as_str() {
            "trigger" => ("raises ROLLBACK", "let the trigger use RAISE(ABORT, …)"),
            _ => (
                "has a deferred foreign key to the outbox",
                "declare the key without INITIALLY DEFERRED",
            ),
        };
        let message = format!(
            "{kind} {name} {what}: where it refuses one record, nothing of its claim is marked, and its neighbours are \
             sent again"
        );
        Ok(Finding::new(Level::Warning, name, message).remedy(remedy))
    };
    rows.iter().map(finding).collect()
}

/// Settings with which a committed event can be lost, or writers and readers wait for each other.
async fn settings(connection: &mut SqliteConnection) -> Result<Vec<Finding>, sqlx::Error> {
    let mut findings = Vec::new();
    let mode = sqlx::query("PRAGMA journal_mode")
        .fetch_one(&mut *connection)
        .await?;
    let mode: String = mode.try_get(0)?;
    if !mode.eq_ignore_ascii_case("wal") {
        let message = format!("journal_mode is {mode}: readers and the writer wait for each other");
        let finding = Finding::new(Level::Warning, "journal_mode", message);
        findings.push(finding.remedy("PRAGMA journal_mode = WAL, which `postrider init` sets"));
    }
    let synchronous = sqlx::query("PRAGMA synchronous")
        .fetch_one(&mut *connection)
        .await?;
    let synchronous: i64 = synchronous.try_get_unchecked(0)?;
    if synchronous < 2 {
        let message = "synchronous is below FULL: a power cut can lose the last committed events";
        let finding = Finding::new(Level::Warning, "synchronous", message);
        findings.push(finding.remedy("take `synchronous` out of the database URL"));
    }
    Ok(findings)
}

/// Whether the file and its folder may be written: the log and the lock files are made beside it.
fn permissions(inner: &Inner) -> Option<Finding> {
    let path = inner.database.path();
    let is_read_only = |path: &std::path::Path| {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly())
    };
    let folder = path.parent().filter(|folder| is_read_only(folder));
    let read_only = folder.or(Some(path).filter(|path| is_read_only(path)))?;
    let name = read_only.display().to_string();
    let message = format!("{name} is read-only, and the relay writes to it");
    let finding = Finding::new(Level::Error, name, message);
    Some(finding.remedy("let this user write to the file and to its folder"))
}
