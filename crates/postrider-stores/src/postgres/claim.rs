//! What claims of both modes share: how their transaction begins, lanes, and the sorting of fates.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use postrider_core::layout::State;
use postrider_core::{Layout, Ordering, Record, StoreError, Want};
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection, Row as _};

use super::error::store_error;
use super::floor::{Range, SESSION_SINCE, Stand};
use super::ids::{IdList, PgQuery};
use super::outbox::{Ready, query, writer};
use super::rows::{self, PgCells};
use super::settling::SAVEPOINT;
use super::tx::Tx;
use super::{Inner, Options};
use crate::fates::lanes;
use crate::rows::Reader;
use crate::sql::LANES;
use crate::sql::statement::literal;

/// How long a claim waits for somebody else's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Records of more bytes are read into a buffer that is given back.
const LARGE: usize = 1 << 20;
/// How much longer than the relay the server waits before it ends a session that does nothing.
const SESSION_MARGIN: Duration = Duration::from_secs(5);

/// A transaction that may claim, and the lanes that it may claim from: all if there are none named.
pub(super) struct Begun {
    pub tx: Tx,
    pub lanes: Option<Vec<i32>>,
    /// How many lanes are locked.
    pub lanes_held: u32,
    /// Whether anything is kept aside of records above the floor.
    pub troubled: bool,
}

/// Begins in one message. With order per key the lanes are locked before, not in, the statement that
/// reads records: its snapshot then has all that their last holder wrote.
pub(super) async fn begin(
    inner: &Inner,
    ready: &Ready,
    want: Want,
    stand: &mut Stand,
) -> Result<Option<Begun>, sqlx::Error> {
    let options = &inner.options;
    let ordered = options.layout.ordering == Ordering::Key;
    let wanted = lanes(want.share);
    if ordered && wanted.is_empty() {
        return Ok(None);
    }
    let mut text = begin_text(options, ready.table.claim_index);
    if ordered {
        text.push_str("; ");
        text.push_str(&lock_lanes(&options.layout, &wanted));
    }
    if options.layout.needs_troubles() {
        text.push_str("; ");
        text.push_str(&writer(options, &ready.table).any_troubles(stand.floor()));
    }
    if stand.is_raised() {
        text.push_str("; ");
        text.push_str(SESSION_SINCE);
    }
    text.push_str("; ");
    text.push_str(SAVEPOINT);
    let (tx, rows) = Tx::begin(&inner.pool, text.into()).await?;
    // Other rows are the explanation that locks the table.
    let got: Vec<i32> = rows
        .iter()
        .filter_map(|row| row.try_get("lane").ok())
        .collect();
    if ordered && got.is_empty() {
        tx.rollback().await?;
        return Ok(None);
    }
    let was_raised = stand.is_raised();
    stand.prove(&ready.floor, &rows);
    let lanes_held = u32::try_from(got.len()).unwrap_or(LANES);
    let all = !ordered || lanes_held == LANES;
    Ok(Some(Begun {
        tx,
        lanes: if all { None } else { Some(got) },
        lanes_held,
        troubled: was_raised && !stand.is_raised()
            || (rows.iter()).any(|row| row.try_get("troubled").unwrap_or(false)),
    }))
}

/// What is wanted beside these.
pub(super) fn less(want: Want, records: &[Record]) -> Want {
    let bytes: usize = records.iter().map(Record::size).sum();
    let count = u32::try_from(records.len()).unwrap_or(u32::MAX);
    Want {
        limit: want.limit.saturating_sub(count),
        bytes: want.bytes.saturating_sub(bytes),
        ..want
    }
}

/// Lets go of the last ones that do not fit, be it all of them.
pub(super) fn cut(records: &mut Vec<Record>, bytes: usize) {
    let mut sum = 0_usize;
    let fits = |record: &Record| {
        sum = sum.saturating_add(record.size());
        sum <= bytes
    };
    let count = records.iter().map(fits).take_while(|fits| *fits).count();
    records.truncate(count);
}

/// What one statement of a claim looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look<'a> {
    pub limit: u32,
    /// All if there are none named.
    pub lanes: Option<&'a [i32]>,
    /// By lease in order: how many records to look at.
    pub depth: Option<u32>,
    pub range: &'a Range,
}

/// A claim's statement with all parameters of `sql/statement/claim.rs`.
pub(super) fn claiming(
    inner: &Inner,
    ready: &Ready,
    statement: &Arc<str>,
    look: Look<'_>,
) -> Result<PgQuery, StoreError> {
    let layout = &inner.options.layout;
    let alone = inner.memory.refusals().left_alone(layout.ordering)?;
    let (due, waiting) = match layout.state {
        State::Timestamp { .. } => {
            let mut resting = inner.memory.resting();
            (resting.due(), resting.uncounted())
        }
        _ => (Vec::new(), Vec::new()),
    };
    let bound = query(statement)
        .bind(i64::from(look.limit))
        .bind(look.lanes.map(<[i32]>::to_vec))
        .bind(ready.table.full_name.clone())
        .bind(alone.ids)
        .bind(alone.keys);
    let bound = IdList::new(ready.id_kind, &due)?
        .bind(bound)
        .bind(look.depth.map(i64::from))
        .bind(None::<i64>);
    let bound = ready.floor.bind_from(bound, look.range);
    let bound = IdList::new(ready.id_kind, &waiting)?.bind(bound);
    Ok(ready.floor.bind_rest(bound, look.range))
}

fn begin_text(options: &Options, claim_index: bool) -> String {
    let mut text = begin_settings(options);
    if claim_index {
        // A table that was empty when it was last analysed makes the planner sort what it need not.
        text.push_str("; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off");
        // What is stuck is looked up in a hash, if the planner thinks that it fits. It takes no more than it needs: a
        // million tokens are some 60 MB. There is nothing to sort.
        text.push_str("; SET LOCAL work_mem = '1GB'");
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
pub(super) const WAITING_FOR_THE_DISK: &str = "SET LOCAL synchronous_commit TO DEFAULT";

/// What every claim's transaction begins with.
pub(super) fn begin_settings(options: &Options) -> String {
    let idle_max = options.hold_max + SESSION_MARGIN;
    format!(
        // Under a stricter isolation the claim would read what the lanes' last holder had not yet written.
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {idle_max}; \
         SET LOCAL idle_in_transaction_session_timeout = {idle_max}; SET LOCAL jit = off; {WITHOUT_WAITING}",
        LOCK_TIMEOUT.as_millis(),
        idle_max = idle_max.as_millis().min(i32::MAX as u128),
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

/// Records that were read, and whether there were more than the bytes that were wanted.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    pub records: Vec<Record>,
    pub is_cut: bool,
}

/// Runs a statement that gives records. Rows become records as they come, so that only these are kept in memory, and no
/// more are taken than have `bytes` in all: the driver passes over the rest.
pub(super) async fn fetch(
    inner: &Inner,
    ready: &Ready,
    statement: PgQuery,
    bytes: usize,
    connection: &mut PgConnection,
) -> Result<Fetched, StoreError> {
    fetch_with(inner, ready, statement, bytes, connection, |_| Ok(true)).await
}

/// The same, for a statement whose first row tells more: `look` reads it, and says whether it is a record too.
pub(super) async fn fetch_with(
    inner: &Inner,
    ready: &Ready,
    statement: PgQuery,
    bytes: usize,
    connection: &mut PgConnection,
    mut look: impl FnMut(&PgRow) -> Result<bool, sqlx::Error>,
) -> Result<Fetched, StoreError> {
    let failed = store_error("claim records", &inner.name());
    let mut reader = Reader::new(&ready.statements.selection);
    let mut fetched = Fetched::default();
    let mut left = bytes;
    let mut rows = statement.fetch(&mut *connection);
    while let Some(row) = rows.try_next().await.map_err(&failed)? {
        if fetched.records.is_empty() {
            if !look(&row).map_err(&failed)? {
                continue;
            }
            check_columns(inner, ready, &row)?;
        }
        let cells = PgCells::new(&row, &ready.statements.selection);
        let record = reader.record(cells).map_err(&failed)?;
        let size = record.size();
        if size > left && !fetched.records.is_empty() {
            fetched.is_cut = true;
            break;
        }
        left = left.saturating_sub(size);
        fetched.records.push(record);
    }
    drop(rows);
    // The driver would keep room for as much again, in each connection.
    if fetched.records.iter().any(|record| record.size() > LARGE) {
        connection.shrink_buffers();
    }
    Ok(fetched)
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
