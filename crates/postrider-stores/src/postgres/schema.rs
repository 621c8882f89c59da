//! Creating tables: only on demand, never altering a table that is there already, and safe from any
//! number of processes at once.

use postrider_core::layout::{ClaimMode, TableName};
use postrider_core::{Layout, StoreError};
use sqlx::{AssertSqlSafe, PgPool};

use super::error::{code, store_error};
use super::outbox::writer;
use super::pool::Pool;
use super::tx::Tx;
use super::wake::channel;
use super::{Options, shape};
use crate::sql::dialect::POSTGRES;
use crate::sql::native;
use crate::sql::presets::{self, block, quote};
use crate::sql::statement::{claim_index, dead_index, literal, suffixed, troubled_index};
use crate::sql::table::Table;

/// Another process that creates the same tables makes us try again; it needs few tries to finish.
const TRIES_MAX: u32 = 20;

/// What `init` does besides creating the tables that a layout needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InitOptions {
    /// Creates the indexes that claims want, also on a table that was there before. Writers wait while
    /// they are built; on a busy table use the statements that `check` prints instead.
    pub claim_index: bool,
    /// Creates a trigger that notifies listening relays once per inserting statement. It takes a lock at
    /// commit that all notifying transactions of the server share.
    pub notify: bool,
}

/// The statements of [`init`], each of which may be run again. For a `custom` layout they leave the
/// outbox table itself to its owner.
pub fn ddl(layout: &Layout, options: &InitOptions) -> Vec<String> {
    let table = Table::unseen(&layout.table);
    let mut statements: Vec<String> = schema(&layout.table).into_iter().collect();
    for statement in presets::table(layout, &POSTGRES)
        .into_iter()
        .chain(beside(layout, options, &table))
    {
        if !statements.contains(&statement) {
            statements.push(statement);
        }
    }
    statements
}

/// Creates what a layout needs and the database lacks, all of it or nothing.
pub async fn init(pool: &PgPool, layout: &Layout, options: &InitOptions) -> Result<(), StoreError> {
    create(pool, &layout.table, |found| {
        let mut statements: Vec<String> = schema(&layout.table).into_iter().collect();
        if found.is_none() {
            statements.extend(presets::table(layout, &POSTGRES));
        }
        let table = found.unwrap_or_else(|| Table::unseen(&layout.table));
        statements.extend(beside(layout, options, &table));
        statements
    })
    .await
}

/// The statements of [`init_table`], each of which may be run again.
pub fn table_ddl(layout: &Layout) -> Vec<String> {
    let table = presets::table(layout, &POSTGRES);
    schema(&layout.table).into_iter().chain(table).collect()
}

/// Creates a preset's table with its indexes where it is missing, and nothing else: all that a service needs which emits
/// and leaves the rest to others. Who publishes needs [`init`].
pub async fn init_table(pool: &PgPool, layout: &Layout) -> Result<(), StoreError> {
    create_missing(pool, &layout.table, &presets::table(layout, &POSTGRES)).await
}

/// Creates a table that is not there, by statements that leave alone what is.
pub(super) async fn create_missing(
    pool: &PgPool,
    table: &TableName,
    statements: &[String],
) -> Result<(), StoreError> {
    create(pool, table, |found| match found {
        Some(_) => Vec::new(),
        None => schema(table)
            .into_iter()
            .chain(statements.iter().cloned())
            .collect(),
    })
    .await
}

/// Runs the statements that are needed, given the table as it is, all of them or none.
async fn create(
    pool: &PgPool,
    table: &TableName,
    statements: impl Fn(Option<Table>) -> Vec<String>,
) -> Result<(), StoreError> {
    let failed = store_error("create tables", &table.to_string());
    let pool = Pool::new(pool.clone());
    let mut tries = 0;
    loop {
        tries += 1;
        match try_create(&pool, table, &statements).await {
            Err(error) if is_race(&error) && tries < TRIES_MAX => {}
            result => return result.map_err(failed),
        }
    }
}

async fn try_create(
    pool: &Pool,
    table: &TableName,
    statements: &impl Fn(Option<Table>) -> Vec<String>,
) -> Result<(), sqlx::Error> {
    // To build an index may take hours, which who asks for it knows.
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = '24h'";
    let (mut tx, _) = Tx::begin(pool, begin.into()).await?;
    let found = shape::read(&mut tx, table).await?;
    for statement in statements(found) {
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(tx.connection())
            .await?;
    }
    tx.commit().await
}

/// Whether somebody else has just created what we were about to.
fn is_race(error: &sqlx::Error) -> bool {
    // Unique violation in the catalogue; duplicate table, object, schema, function; a catalogue row
    // "concurrently updated"; deadlock.
    let codes = [
        "23505", "42P07", "42710", "42P06", "42723", "XX000", "40P01",
    ];
    code(error).is_some_and(|code| codes.contains(&code.as_str()))
}

/// What stands beside the outbox table.
fn beside(layout: &Layout, options: &InitOptions, table: &Table) -> Vec<String> {
    let mut statements = native::companions(layout, table);
    if layout.needs_troubles() {
        statements.push(presets::troubles(&layout.table, &POSTGRES));
        statements.push(presets::troubles_index(&layout.table));
    }
    statements.extend(presets::audit(&layout.table, &POSTGRES));
    // An append-only outbox has the indexes that it needs, one per partition.
    if options.claim_index && layout.claim != ClaimMode::Stream {
        let options = Options::new(layout.clone());
        let writer = writer(&options, table);
        let dead = dead_index(&writer).filter(|_| writer.dead_was_tried());
        let indexes = [Some(claim_index(&writer)), troubled_index(&writer), dead];
        let name = layout.table.quoted();
        statements.extend(
            indexes
                .into_iter()
                .flatten()
                .map(|index| index.create("IF NOT EXISTS", &name)),
        );
    }
    if options.notify {
        statements.extend(notify(&layout.table));
    }
    statements
}

/// Asks before it creates: the right to create schemas is not needed for one that is there.
pub(super) fn schema(table: &TableName) -> Option<String> {
    let schema = table.schema.as_ref()?;
    Some(block(&format!(
        "BEGIN\n  IF to_regnamespace({}) IS NULL THEN\n    CREATE SCHEMA {};\n  END IF;\nEND",
        literal(&schema.quoted()),
        schema.quoted()
    )))
}

fn notify(outbox: &TableName) -> [String; 2] {
    let name = suffixed(&outbox.name, "_postrider_notify");
    let function = outbox.sibling(name.clone()).quoted();
    let table = outbox.quoted();
    [
        format!(
            "CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS {}",
            quote(&format!(
                "BEGIN\n  PERFORM pg_notify({}, '');\n  RETURN NULL;\nEND",
                literal(&channel(&outbox.name))
            ))
        ),
        block(&format!(
            "BEGIN\n  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = {}::regclass AND tgname = {}) THEN\n    \
             CREATE TRIGGER {} AFTER INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {function}();\n  END IF;\nEND",
            literal(&table),
            literal(name.as_str()),
            name.quoted(),
        )),
    ]
}
