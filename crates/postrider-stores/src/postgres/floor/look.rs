//! The looks that raise the floor.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use postrider_core::StoreError;
use sqlx::{AssertSqlSafe, Row as _};

use super::super::Inner;
use super::super::claim::{Look, claiming};
use super::super::error::store_error;
use super::super::ids::{IdList, PgQuery};
use super::super::outbox::{Ready, writer};
use super::super::tx::Tx;
use super::{EVERY, Holder, MARGIN_MAX, Raised, Range, STUCK_MAX, State, capped};

/// Looks that raise the floor take at most one part in so many of the time.
const RAISE_PART: u32 = 20;
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Where nothing is claimed, how often the outbox is asked what has come that is stuck.
const MARK_EVERY: Duration = Duration::from_secs(5);

/// Not READ ONLY: a balancer might ask a standby then, which knows of no writers.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 10000; \
                     SET LOCAL lock_timeout = 1000; SET LOCAL jit = off; SET LOCAL enable_seqscan = off; \
                     SET LOCAL enable_sort = off; SET LOCAL work_mem = '1GB'";

/// Who may have drawn a value and not yet ended, whether they are prepared, and the time. $2:
/// whether whoever has begun a transaction may have.
const HOLDERS: &str = "
SELECT coalesce(l.virtualtransaction, ''), l.pid IS NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::int8
FROM (SELECT) AS one LEFT JOIN (
  SELECT v.virtualtransaction, v.pid FROM pg_catalog.pg_locks AS v
  JOIN pg_catalog.pg_stat_activity AS a ON a.pid = v.pid AND a.datname = current_database()
  WHERE $2 AND v.locktype = 'virtualxid' AND v.granted AND v.mode = 'ExclusiveLock' AND v.pid <> pg_backend_pid()
  UNION ALL SELECT r.virtualtransaction, r.pid FROM pg_catalog.pg_locks AS r
  WHERE r.locktype = 'relation' AND r.granted AND r.relation = to_regclass($1) AND r.mode = 'RowExclusiveLock'
    AND r.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
) AS l ON true";

/// What is to be done now.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// A value is to be asked for, since no claim has seen one.
    mark: bool,
    review: bool,
}

/// Raises the floor if it can be; says when to come again.
pub(in super::super) async fn tend(
    inner: &Inner,
    ready: &Ready,
) -> Result<Option<Duration>, StoreError> {
    let floor = &ready.floor;
    if floor.kind.is_none() {
        return Ok(None);
    }
    let Ok(_looking) = floor.looking.try_lock() else {
        return Ok(Some(EVERY));
    };
    let began = Instant::now();
    let due = {
        let mut state = floor.lock();
        let has_marks = state.awaited.is_some() || !state.marks.is_empty();
        let due = Due {
            mark: !has_marks && (state.marked_at).is_none_or(|at| at.elapsed() > MARK_EVERY),
            review: (state.raised.as_ref())
                .is_some_and(|raised| state.review.is_due(raised.stuck > 0)),
        };
        if !has_marks && !due.mark && !due.review {
            state.tended_at = began;
            return Ok(Some(EVERY));
        }
        due
    };
    let tended = look(inner, ready, due).await;
    let mut state = floor.lock();
    if tended.is_ok() {
        state.tended_at = Instant::now();
    }
    tended.map_err(store_error("look where claims begin", &inner.name()))?;
    Ok(Some((began.elapsed() * RAISE_PART).clamp(EVERY, PAUSE_MAX)))
}

async fn look(inner: &Inner, ready: &Ready, due: Due) -> Result<(), sqlx::Error> {
    let (mut tx, _) = Tx::begin(&inner.pool, BEGIN.into()).await?;
    if due.mark {
        mark(inner, ready, &mut tx).await?;
    }
    // Before the floor is raised, so that it passes over nothing of a key that is free by now.
    if due.review {
        let began = Instant::now();
        ready.floor.lock().review.found = false;
        review(inner, ready, &mut tx).await?;
        ready.floor.lock().review.was_made(began);
    }
    raise(inner, ready, &mut tx).await?;
    tx.rollback().await
}

/// What came and was never claimed, because it stands behind others, is to be passed over too.
async fn mark(inner: &Inner, ready: &Ready, tx: &mut Tx) -> Result<(), sqlx::Error> {
    let from = {
        let mut state = ready.floor.lock();
        state.marked_at = Some(Instant::now());
        state
            .raised
            .as_ref()
            .map_or(i64::MIN, |raised| raised.floor)
    };
    let text = writer(&inner.options, &ready.table).last_unsettled();
    let last = statement(text);
    let last = ready.floor.bind_value(last, from);
    let row = last.fetch_optional(tx.connection()).await?;
    if let Some(row) = row {
        let value = row.try_get_unchecked(0)?;
        ready.floor.lock().mark(value);
    }
    Ok(())
}

async fn raise(inner: &Inner, ready: &Ready, tx: &mut Tx) -> Result<(), sqlx::Error> {
    let floor = &ready.floor;
    // The holders are those of a moment after this one.
    let asked_at = Instant::now();
    let (holders, clock) = holders(inner, ready, tx).await?;
    let (raised, upto) = {
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
        let raised = state.raised.clone().unwrap_or(Raised {
            settled: i64::MIN,
            floor: i64::MIN,
            stuck: 0,
            keys: Arc::default(),
            failed_keys: Arc::default(),
            since: clock,
        });
        match reached {
            Some(upto) if raised.floor < upto => (raised, upto),
            _ => return Ok(()),
        }
    };
    let free = first_free(inner, ready, &raised, upto, tx).await?;
    let between = (raised.floor, free.unwrap_or(upto));
    let room = STUCK_MAX.saturating_sub(raised.stuck);
    let passed = unsettled(inner, ready, between, room, tx).await?;
    floor.lock().raised = Some(raised.over(passed, between.1));
    Ok(())
}

/// Of records in a part of the outbox that are not settled.
#[derive(Debug, Default)]
struct Unsettled {
    count: usize,
    first: Option<i64>,
    keys: BTreeSet<i64>,
    failed_keys: BTreeSet<i64>,
    /// The first one that there was no room for.
    more: Option<i64>,
}

impl Raised {
    /// A floor above these, up to a value or as far as there is room to remember.
    fn over(self, passed: Unsettled, upto: i64) -> Self {
        let floor = passed.more.unwrap_or(upto);
        let mut keys = passed.keys;
        keys.extend(self.keys.iter());
        let mut failed_keys = passed.failed_keys;
        failed_keys.extend(self.failed_keys.iter());
        let settled = match self.stuck {
            0 => passed.first.unwrap_or(floor),
            _ => self.settled,
        };
        Self {
            settled,
            floor,
            stuck: self.stuck + passed.count,
            keys: Arc::new(keys.into_iter().collect()),
            failed_keys: Arc::new(failed_keys.into_iter().collect()),
            since: self.since,
        }
    }
}

async fn first_free(
    inner: &Inner,
    ready: &Ready,
    raised: &Raised,
    upto: i64,
    tx: &mut Tx,
) -> Result<Option<i64>, sqlx::Error> {
    let text = writer(&inner.options, &ready.table).first_free();
    let text = Arc::from(text.unwrap_or_default());
    let range = Range {
        from: raised.floor,
        upto: upto.saturating_sub(1),
        keys: Arc::clone(&raised.failed_keys),
        is_below: false,
    };
    let look = Look {
        limit: 1,
        lanes: None,
        depth: None,
        range: &range,
    };
    let claim = claiming(inner, ready, &text, look);
    let claim = claim.map_err(|error| sqlx::Error::Encode(error.into()))?;
    let row = claim.fetch_one(tx.connection()).await?;
    row.try_get_unchecked(0)
}

async fn unsettled(
    inner: &Inner,
    ready: &Ready,
    (from, upto): (i64, i64),
    room: usize,
    tx: &mut Tx,
) -> Result<Unsettled, sqlx::Error> {
    let text = writer(&inner.options, &ready.table).unsettled_between();
    let look = ready.floor.bind_value(statement(text), from);
    let look = ready.floor.bind_value(look, upto);
    let look = look.bind(i64::try_from(room + 1).unwrap_or(i64::MAX));
    let look = look.bind(ready.table.full_name.clone());
    let waiting = inner.memory.resting().uncounted();
    let waiting = IdList::new(ready.id_kind, &waiting);
    let waiting = waiting.map_err(|error| sqlx::Error::Encode(error.into()))?;
    let look = waiting.bind(look);
    let mut found = Unsettled::default();
    let mut rows = look.fetch(tx.connection());
    while let Some(row) = rows.try_next().await? {
        let value = row.try_get_unchecked(0)?;
        if found.count == room {
            found.more = Some(value);
            break;
        }
        found.count += 1;
        found.first.get_or_insert(value);
        let key: Option<i64> = row.try_get(1)?;
        found.keys.extend(key);
        if row.try_get(2)? {
            found.failed_keys.extend(key);
        }
    }
    Ok(found)
}

/// Looks for what is not settled where everything was, and learns anew what lies below the floor.
async fn review(inner: &Inner, ready: &Ready, tx: &mut Tx) -> Result<(), sqlx::Error> {
    let Some(raised) = ready.floor.lock().raised.clone() else {
        return Ok(());
    };
    let late = unsettled(inner, ready, (i64::MIN, raised.settled), 1, tx).await?;
    if late.first.is_some() {
        let mut state = ready.floor.lock();
        state.fall();
        state.margin = (state.margin * 4).min(MARGIN_MAX);
        tracing::info!(
            table = inner.name(),
            margin = ?state.margin,
            "a record appeared below those that were settled: somebody set it back, or wrote it with an old time"
        );
        return Ok(());
    }
    if raised.stuck == 0 {
        return Ok(());
    }
    let between = (raised.settled, raised.floor);
    let stuck = unsettled(inner, ready, between, STUCK_MAX, tx).await?;
    if stuck.more.is_none() {
        ready.floor.lock().raised = Some(Raised {
            settled: stuck.first.unwrap_or(raised.floor),
            floor: raised.floor,
            stuck: stuck.count,
            keys: Arc::new(stuck.keys.into_iter().collect()),
            failed_keys: Arc::new(stuck.failed_keys.into_iter().collect()),
            since: raised.since,
        });
    }
    Ok(())
}

async fn holders(
    inner: &Inner,
    ready: &Ready,
    tx: &mut Tx,
) -> Result<(Vec<Holder>, i64), sqlx::Error> {
    let rows = sqlx::query(HOLDERS)
        .bind(inner.options.layout.table.quoted())
        .bind(ready.floor.drawn_at_begin)
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

/// A statement of ours: put together from checked and quoted names only.
fn statement(text: Option<String>) -> PgQuery {
    sqlx::query(AssertSqlSafe(text.unwrap_or_default()))
}
