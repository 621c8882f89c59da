//! Where claims begin: the *floor*, below which everything is settled for good. Without it a claim begins at the oldest
//! index entry, and while a transaction is open anywhere in the cluster nobody can remove the entries of records that
//! were published meanwhile: each claim would wade through all of them.
//!
//! **Why nothing is passed over.** Take a value V of the order's first column that some record had when a claim saw it, at
//! a time A. The column only grows: a value that is drawn after A lies above V. Whoever inserts a record holds a
//! RowExclusiveLock on the outbox from before the statement draws its values until its transaction ends, prepared or not,
//! and `pg_locks` shows it. So let H be those who hold that lock at a time B after A. Once all of H have ended, every
//! record up to V that can ever be seen can be seen. A look after that finds the first record up to V that is not
//! settled; below it there is none, and there never will be. That is the new floor. A dead record counts as not settled,
//! because an operator may resend it: so one that is dead keeps the floor where it is until it is resent or discarded.
//!
//! **What that rests on.** (1) A value is drawn when a record is inserted. A program that draws its own and inserts
//! within the margin (B - A) is covered too. One that comes later is found later, which matters to nobody unless
//! keys are kept in order; then there is a floor only where the column's default draws it and the owner says that all
//! writers leave it to the default or to our `emit` (`order_is_drawn`). (2) A transaction that is prepared changes its name in `pg_locks`: whenever one of H has gone, those that are
//! prepared by then are waited for as well. (3) A clock that was set back, a record that is set back by hand, and a
//! writer that comes later than the margin are found by looking below the floor from time to time. Then there is no
//! floor for a while, and a larger margin.
//!
//! The floor is a matter of speed alone for the database's other users: it locks nothing and writes nothing.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::{Record, RecordId, StoreError};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo};
use sqlx::{AssertSqlSafe, Encode, Postgres, Row as _, Type};

use super::Inner;
use super::error::store_error;
use super::ids::PgQuery;
use super::outbox::{Ready, writer};
use super::rows::{POSTGRES_EPOCH_MICROS, micros_of};
use super::tx::Tx;
use crate::sql::table::Kind;

/// How often the floor is raised while records come.
const EVERY: Duration = Duration::from_millis(200);
/// How long before a look a value must have been seen. Where the database draws all values none is needed, and claims
/// read again what was published in this time.
const MARGIN: Duration = Duration::from_secs(2);
const MARGIN_DRAWN: Duration = Duration::from_millis(100);
const MARGIN_MAX: Duration = Duration::from_secs(3600);
/// Looking below the floor takes at most one part in so many of the time.
const BELOW_PART: u32 = 100;
const BELOW_EVERY_MIN: Duration = Duration::from_secs(1);
const MARKS_MAX: usize = 64;
/// Where nobody looks below the floor any more, there is none.
const GOOD_FOR: Duration = Duration::from_secs(30);

/// Not READ ONLY: a balancer might ask a standby then, which knows of no writers.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 10000; \
                     SET LOCAL lock_timeout = 1000; SET LOCAL jit = off; SET LOCAL enable_seqscan = off; \
                     SET LOCAL enable_sort = off";

/// Who may have inserted and not yet ended, whether they are prepared, and the time.
const HOLDERS: &str = "
SELECT coalesce(l.virtualtransaction, ''), l.pid IS NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::int8
FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_locks AS l ON l.locktype = 'relation' AND l.granted
  AND l.relation = to_regclass($1) AND l.mode = 'RowExclusiveLock'
  AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())";

/// Values are microseconds since 2000, or ids.
#[derive(Debug)]
pub(super) struct Floor {
    kind: Option<Kind>,
    /// Held by whoever looks: what two had seen could be mixed up.
    looking: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    floor: Option<i64>,
    margin: Duration,
    /// Values that claims have seen, and when.
    marks: VecDeque<(Instant, i64)>,
    /// The value that is to be the floor once all of these have ended.
    awaited: Option<(i64, HashSet<String>)>,
    below_at: Instant,
    tended_at: Instant,
}

impl Floor {
    /// `drawn`: whether all values are drawn by the database.
    pub(super) fn new(kind: Option<Kind>, drawn: bool) -> Self {
        let state = State {
            floor: None,
            margin: if drawn { MARGIN_DRAWN } else { MARGIN },
            marks: VecDeque::new(),
            awaited: None,
            below_at: Instant::now(),
            tended_at: Instant::now(),
        };
        Self {
            kind,
            looking: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parameter of a claim that says where it begins.
    pub(super) fn bind(&self, claim: PgQuery) -> PgQuery {
        let floor = {
            let state = self.lock();
            state.floor.filter(|_| state.tended_at.elapsed() < GOOD_FOR)
        };
        self.bind_value(claim, floor.unwrap_or(i64::MIN))
    }

    fn bind_value(&self, statement: PgQuery, value: i64) -> PgQuery {
        match self.kind {
            None => statement.bind(None::<i64>),
            Some(Kind::Int) => statement.bind(value),
            Some(_) => statement.bind(Time(value)),
        }
    }

    /// Learns that these were claimed. The last will do: the order is theirs.
    pub(super) fn seen(&self, records: &[Record]) {
        let Some(kind) = self.kind else { return };
        let value = records.last().and_then(|record| match kind {
            Kind::Int => match record.id {
                RecordId::Int(id) => Some(id),
                _ => None,
            },
            _ => Some(micros_of(record.created_at)),
        });
        let mut state = self.lock();
        let is_soon = (state.marks.back()).is_some_and(|(at, _)| at.elapsed() < EVERY / 2);
        if let Some(value) = value.filter(|_| !is_soon && state.marks.len() < MARKS_MAX) {
            state.marks.push_back((Instant::now(), value));
        }
    }
}

impl State {
    /// The latest value that was seen long enough before `now`, and how long.
    fn ripe(&mut self, now: Instant) -> Option<(Duration, i64)> {
        let mut ripe = None;
        while let Some((at, value)) = self.marks.front().copied() {
            let age = now.saturating_duration_since(at);
            if age < self.margin {
                break;
            }
            ripe = Some((age, value));
            self.marks.pop_front();
        }
        ripe
    }

    /// Whoever inserted before is either gone or still among the holders, where a prepared transaction has another name
    /// than it had before.
    fn await_end(waited_for: &mut HashSet<String>, holders: &[Holder]) {
        let before = waited_for.len();
        waited_for.retain(|name| holders.iter().any(|holder| holder.name == *name));
        if waited_for.len() < before {
            let prepared = holders.iter().filter(|holder| holder.prepared);
            waited_for.extend(prepared.map(|holder| holder.name.clone()));
        }
    }
}

#[derive(Debug)]
struct Holder {
    name: String,
    prepared: bool,
}

/// Raises the floor if it can be; says when to come again.
pub(super) async fn tend(inner: &Inner, ready: &Ready) -> Result<Option<Duration>, StoreError> {
    let floor = &ready.floor;
    if floor.kind.is_none() {
        return Ok(None);
    }
    let Ok(_looking) = floor.looking.try_lock() else {
        return Ok(Some(EVERY));
    };
    let below = {
        let state = floor.lock();
        let idle = state.awaited.is_none() && state.marks.is_empty();
        let below = state.floor.filter(|_| state.below_at <= Instant::now());
        if idle && below.is_none() {
            return Ok(Some(EVERY));
        }
        below
    };
    let tended = look(inner, ready, below).await;
    let mut state = floor.lock();
    match tended {
        Ok(()) => state.tended_at = Instant::now(),
        // Claims are slower for a while, and pass over nothing.
        Err(_) => state.floor = None,
    }
    tended.map_err(store_error("look where claims begin", &inner.name()))?;
    Ok(Some(EVERY))
}

async fn look(inner: &Inner, ready: &Ready, below: Option<i64>) -> Result<(), sqlx::Error> {
    let (mut tx, _) = Tx::begin(&inner.pool, BEGIN.into()).await?;
    raise(inner, ready, &mut tx).await?;
    if let Some(value) = below {
        look_below(inner, ready, value, &mut tx).await?;
    }
    tx.rollback().await
}

async fn raise(inner: &Inner, ready: &Ready, tx: &mut Tx) -> Result<(), sqlx::Error> {
    let floor = &ready.floor;
    // The holders are those of a moment after this one.
    let asked_at = Instant::now();
    let (holders, clock) = holders(inner, tx).await?;
    let reached = {
        let mut state = floor.lock();
        let reached = state.awaited.as_mut().and_then(|(value, waited_for)| {
            State::await_end(waited_for, &holders);
            waited_for.is_empty().then_some(*value)
        });
        if reached.is_some() || state.awaited.is_none() {
            state.awaited = state.ripe(asked_at).map(|(age, value)| {
                let value = capped(floor.kind, value, clock, age);
                (
                    value,
                    holders.into_iter().map(|holder| holder.name).collect(),
                )
            });
        }
        reached.map(|value| (state.floor.unwrap_or(i64::MIN), value))
    };
    let Some((from, upto)) = reached.filter(|(from, upto)| from < upto) else {
        return Ok(());
    };
    let first = first_unsettled(inner, ready, (from, upto), tx).await?;
    let mut state = floor.lock();
    // Somebody may have found something below it meanwhile.
    if state.floor.unwrap_or(i64::MIN) == from {
        state.floor = Some(first.unwrap_or(upto));
    }
    Ok(())
}

/// A time that lies ahead of the clock says nothing of what comes next.
fn capped(kind: Option<Kind>, value: i64, clock: i64, age: Duration) -> i64 {
    match kind {
        Some(Kind::Int) => value,
        _ => {
            let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
            value.min(
                clock
                    .saturating_sub(POSTGRES_EPOCH_MICROS)
                    .saturating_sub(age),
            )
        }
    }
}

async fn holders(inner: &Inner, tx: &mut Tx) -> Result<(Vec<Holder>, i64), sqlx::Error> {
    let rows = sqlx::query(HOLDERS)
        .bind(inner.options.layout.table.quoted())
        .fetch_all(tx.connection())
        .await?;
    let mut holders = Vec::new();
    let mut clock = i64::MIN;
    for row in rows {
        clock = row.try_get(2)?;
        let holder = Holder {
            name: row.try_get(0)?,
            prepared: row.try_get(1)?,
        };
        if !holder.name.is_empty() {
            holders.push(holder);
        }
    }
    Ok((holders, clock))
}

async fn first_unsettled(
    inner: &Inner,
    ready: &Ready,
    (from, upto): (i64, i64),
    tx: &mut Tx,
) -> Result<Option<i64>, sqlx::Error> {
    let text = writer(&inner.options, &ready.table).first_unsettled();
    let statement = sqlx::query(AssertSqlSafe(text.unwrap_or_default()));
    let statement = ready.floor.bind_value(statement, from);
    let statement = ready.floor.bind_value(statement, upto);
    let statement = match inner.options.layout.needs_troubles() {
        true => statement.bind(ready.table.full_name.clone()),
        false => statement,
    };
    let row = statement.fetch_optional(tx.connection()).await?;
    let first = row.map(|row| row.try_get_unchecked::<Option<i64>, _>(0));
    Ok(first.transpose()?.flatten())
}

async fn look_below(
    inner: &Inner,
    ready: &Ready,
    floor: i64,
    tx: &mut Tx,
) -> Result<(), sqlx::Error> {
    let began = Instant::now();
    let late = first_unsettled(inner, ready, (i64::MIN, floor), tx).await?;
    let mut state = ready.floor.lock();
    state.below_at = Instant::now() + (began.elapsed() * BELOW_PART).max(BELOW_EVERY_MIN);
    if late.is_some() {
        state.floor = None;
        state.awaited = None;
        state.marks.clear();
        state.margin = (state.margin * 4).min(MARGIN_MAX);
        tracing::info!(
            table = inner.name(),
            margin = ?state.margin,
            "a record appeared below those that were settled: somebody set it back, or wrote it with an old time"
        );
    }
    Ok(())
}

/// A time as Postgres has it: microseconds since 2000.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub i64);

impl Type<Postgres> for Time {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl Encode<'_, Postgres> for Time {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str, prepared: bool) -> Holder {
        Holder {
            name: name.into(),
            prepared,
        }
    }

    #[test]
    fn a_transaction_that_was_prepared_meanwhile_is_waited_for_under_its_new_name() {
        let mut waited_for = HashSet::from(["3/7".to_owned()]);
        State::await_end(
            &mut waited_for,
            &[holder("3/7", false), holder("-1/5", true)],
        );
        assert_eq!(waited_for, HashSet::from(["3/7".to_owned()]));
        State::await_end(
            &mut waited_for,
            &[holder("-1/9", true), holder("4/1", false)],
        );
        assert_eq!(waited_for, HashSet::from(["-1/9".to_owned()]));
        State::await_end(&mut waited_for, &[holder("4/1", false)]);
        assert!(waited_for.is_empty());
    }

    #[test]
    fn a_time_ahead_of_the_clock_is_no_floor() {
        let clock = POSTGRES_EPOCH_MICROS + 10_000_000;
        let second = Duration::from_secs(1);
        assert_eq!(capped(Some(Kind::Time), i64::MAX, clock, second), 9_000_000);
        assert_eq!(capped(Some(Kind::Time), 5, clock, second), 5);
        assert_eq!(capped(Some(Kind::Int), 7, clock, second), 7);
    }
}
