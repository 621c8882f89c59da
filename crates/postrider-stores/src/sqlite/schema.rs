//! Creating tables: only on demand, never altering a table that is there already, and safe from any number of processes
//! at once, since they take turns.

use postrider_core::layout::TableName;
use postrider_core::{Layout, StoreError};
use sqlx::AssertSqlSafe;

use super::connect::Database;
use super::error::store_error;
use super::{Options, claims, shape};
use crate::sql::dialect::SQLITE;
use crate::sql::presets;
use crate::sql::statement::{claim_index, troubled_index};
use crate::sql::table::Table;

/// What `init` does besides creating the tables that a layout needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InitOptions {
    /// Creates the indexes that claims want, also on a table that was there before. Writers wait while they are built.
    pub claim_index: bool,
}

/// The statements of [`init`], each of which may be run again. For a `custom` layout they leave the outbox table itself to
/// its owner.
pub fn ddl(layout: &Layout, options: &InitOptions) -> Vec<String> {
    let table = Table::unseen(&layout.table);
    let mut statements: Vec<String> = Vec::new();
    for statement in presets::table(layout, &SQLITE)
        .into_iter()
        .chain(beside(layout, options, &table))
    {
        if !statements.contains(&statement) {
            statements.push(statement);
        }
    }
    statements
}

/// Creates what a layout needs and the file lacks, all of it or nothing, and the file itself if it is missing.
pub async fn init(
    database: &Database,
    layout: &Layout,
    options: &InitOptions,
) -> Result<(), StoreError> {
    create(database, &layout.table, |found| {
        let mut statements = Vec::new();
        if found.is_none() {
            statements.extend(presets::table(layout, &SQLITE));
        }
        let table = found.unwrap_or_else(|| Table::unseen(&layout.table));
        statements.extend(beside(layout, options, &table));
        statements
    })
    .await
}

/// Runs the statements that are needed, given the table as it is, all of them or none.
pub(super) async fn create(
    database: &Database,
    table: &TableName,
    statements: impl Fn(Option<Table>) -> Vec<String>,
) -> Result<(), StoreError> {
    without_schema(table)?;
    let failed = store_error("create tables", &table.to_string());
    let database = database.creating();
    let mut tx = database.begin_to("create tables").await?;
    let found = shape::read(&mut tx, table).await.map_err(&failed)?;
    for statement in statements(found) {
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(tx.connection())
            .await
            .map_err(&failed)?;
    }
    tx.commit().await.map_err(&failed)
}

/// A schema would be another file, and a transaction over two files may be torn by a power cut.
pub(super) fn without_schema(table: &TableName) -> Result<(), StoreError> {
    match &table.schema {
        None => Ok(()),
        Some(schema) => Err(StoreError::Mismatch(format!(
            "table {table} is in schema {schema}, and a SQLite file has none; name it {} in `table`",
            table.name
        ))),
    }
}

/// What stands beside the outbox table.
fn beside(layout: &Layout, options: &InitOptions, table: &Table) -> Vec<String> {
    let mut statements = vec![claims::create(&layout.table)];
    if layout.needs_troubles() {
        statements.push(presets::troubles(&layout.table, &SQLITE));
    }
    statements.extend(presets::audit(&layout.table, &SQLITE));
    if options.claim_index {
        let options = Options::new(layout.clone());
        let writer = options.writer(table, &SQLITE);
        let indexes = [Some(claim_index(&writer)), troubled_index(&writer)];
        let name = layout.table.quoted();
        statements.extend(
            indexes
                .into_iter()
                .flatten()
                .map(|index| index.create("IF NOT EXISTS", &name)),
        );
    }
    statements
}
