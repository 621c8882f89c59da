//! What claims of both modes share: how their transaction begins, lanes, and the sorting of fates.

use std::time::Duration;

use futures::TryStreamExt as _;
use postrider_core::layout::State;
use postrider_core::{Layout, Ordering, Record, StoreError, Want};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::error::store_error;
use super::ids::PgQuery;
use super::outbox::Ready;
use super::rows::{self, PgCells};
use super::tx::Tx;
use super::{Inner, Options};
use crate::fates::lanes;
use crate::rows::Reader;
use crate::sql::LANES;
use crate::sql::statement::literal;

/// How long a claim waits for somebody else's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// How much longer than the relay the server waits before it ends a session that does nothing.
const SESSION_MARGIN: Duration = Duration::from_secs(5);

/// A transaction that may claim, and the lanes that it may claim from: all if there are none named.
pub(super) struct Begun {
    pub tx: Tx,
    pub lanes: Option<Vec<i32>>,
    /// How many lanes are locked.
    pub lanes_held: u32,
}

/// Begins in one message. With order per key the lanes are locked before, not in, the statement that
/// reads records: its snapshot then has all that their last holder wrote.
pub(super) async fn begin(
    inner: &Inner,
    ready: &Ready,
    want: Want,
) -> Result<Option<Begun>, sqlx::Error> {
    let options = &inner.options;
    let wanted = lanes(want.share);
    let mut text = begin_text(options, ready.table.claim_index);
    if options.layout.ordering == Ordering::None {
        let (tx, _) = Tx::begin(&inner.pool, text.into()).await?;
        return Ok(Some(Begun {
            tx,
            lanes: None,
            lanes_held: 0,
        }));
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    text.push_str("; ");
    text.push_str(&lock_lanes(&options.layout, &wanted));
    let (tx, rows) = Tx::begin(&inner.pool, text.into()).await?;
    // Other rows are the explanation that locks the table.
    let got: Vec<i32> = rows
        .iter()
        .filter_map(|row| row.try_get("lane").ok())
        .collect();
    if got.is_empty() {
        tx.rollback().await?;
        return Ok(None);
    }
    let lanes_held = u32::try_from(got.len()).unwrap_or(LANES);
    let lanes = if lanes_held == LANES { None } else { Some(got) };
    Ok(Some(Begun {
        tx,
        lanes,
        lanes_held,
    }))
}

fn begin_text(options: &Options, claim_index: bool) -> String {
    let mut text = begin_settings(options);
    if claim_index {
        // A table that was empty when it was last analysed makes the planner sort what it need not.
        text.push_str("; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off");
    }
    if let Some(lock_table) = lock_table(&options.layout) {
        text.push_str("; ");
        text.push_str(&lock_table);
    }
    text
}

/// If the server crashes, what was claimed and published in the last moments is published again. Nothing else hangs on such a
/// commit, so it does not wait for the disk, nor for a standby.
pub(super) const WITHOUT_WAITING: &str = "SET LOCAL synchronous_commit = off";

/// What failed is not to be forgotten: its attempts are counted, and it may be dead.
pub(super) async fn wait_for_the_disk(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("SET LOCAL synchronous_commit TO DEFAULT")
        .execute(connection)
        .await
        .map(drop)
}

/// What every claim's transaction begins with.
pub(super) fn begin_settings(options: &Options) -> String {
    let idle_max = options.hold_max + SESSION_MARGIN;
    format!(
        // Under a stricter isolation the claim would read what the lanes' last holder had not yet written.
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}; SET LOCAL jit = off; {WITHOUT_WAITING}",
        LOCK_TIMEOUT.as_millis(),
        idle_max.as_millis().min(i32::MAX as u128),
    )
}

/// Takes the table lock that settling needs, and by explaining a statement rather than running it, fires no
/// trigger. Whoever keeps others from writing, as CREATE INDEX does, is met before anything is published.
fn lock_table(layout: &Layout) -> Option<String> {
    let table = layout.table.quoted();
    let column = match &layout.state {
        State::Delete => return Some(format!("EXPLAIN DELETE FROM {table} WHERE false")),
        State::Status { .. } | State::Append { .. } => return None,
        State::Timestamp { published_at } => published_at.quoted(),
        State::Flag { published, .. } => published.quoted(),
    };
    Some(format!(
        "EXPLAIN UPDATE {table} SET {column} = {column} WHERE false"
    ))
}

/// Named by the table's own number, so that every relay on it agrees, whatever its config calls it.
pub(super) fn lock_class(layout: &Layout) -> String {
    format!(
        "hashtext('postrider ' || {}::regclass::oid::text)",
        literal(&layout.table.quoted())
    )
}

pub(super) fn lock_lanes(layout: &Layout, wanted: &[u32]) -> String {
    let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    format!(
        "SELECT lane FROM unnest('{{{}}}'::int4[]) AS lane WHERE pg_try_advisory_xact_lock({}, lane)",
        wanted.join(","),
        lock_class(layout)
    )
}

/// Runs a statement that gives records. Rows become records as they come, so that only these are kept in memory.
pub(super) async fn fetch(
    inner: &Inner,
    ready: &Ready,
    statement: PgQuery,
    connection: &mut PgConnection,
) -> Result<Vec<Record>, StoreError> {
    fetch_with(inner, ready, statement, connection, |_| Ok(true)).await
}

/// The same, for a statement whose first row tells more: `look` reads it, and says whether it is a record too.
pub(super) async fn fetch_with(
    inner: &Inner,
    ready: &Ready,
    statement: PgQuery,
    connection: &mut PgConnection,
    mut look: impl FnMut(&PgRow) -> Result<bool, sqlx::Error>,
) -> Result<Vec<Record>, StoreError> {
    let failed = store_error("claim records", &inner.name());
    let mut reader = Reader::new(&ready.statements.selection);
    let mut records = Vec::new();
    let mut rows = statement.fetch(connection);
    while let Some(row) = rows.try_next().await.map_err(&failed)? {
        if records.is_empty() {
            if !look(&row).map_err(&failed)? {
                continue;
            }
            check_columns(inner, ready, &row)?;
        }
        let cells = PgCells::new(&row, &ready.statements.selection);
        records.push(reader.record(cells).map_err(&failed)?);
    }
    Ok(records)
}

pub(super) fn records(
    inner: &Inner,
    ready: &Ready,
    rows: &[PgRow],
) -> Result<Vec<Record>, StoreError> {
    let selection = &ready.statements.selection;
    if let Some(row) = rows.first() {
        check_columns(inner, ready, row)?;
    }
    let mut reader = Reader::new(selection);
    let records = rows
        .iter()
        .map(|row| reader.record(PgCells::new(row, selection)))
        .collect::<Result<_, _>>();
    records.map_err(store_error("read claimed records", &inner.name()))
}

fn check_columns(inner: &Inner, ready: &Ready, row: &PgRow) -> Result<(), StoreError> {
    if rows::are_as_expected(row, &ready.statements.selection) {
        return Ok(());
    }
    let changed = format!(
        "columns of table {} have changed; it is read anew",
        inner.name()
    );
    Err(StoreError::Mismatch(changed))
}
