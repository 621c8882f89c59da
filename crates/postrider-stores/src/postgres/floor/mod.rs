//! Where claims begin: the *floor*, below which nothing is left to claim but what is stuck. Without
//! it a claim begins at the oldest index entry. It would wade through all that is dead, waits to be
//! tried again or stands behind such a record; and while a transaction is open anywhere in the
//! cluster, through the entries of all that was published meanwhile, which nobody can remove.
//!
//! **Why nothing is passed over.** Take a value V of the order's first column that some record had
//! when a claim saw it, at a time A. The column only grows: a value that is drawn after A lies
//! above V. Whoever inserts a record holds a RowExclusiveLock on the outbox from before the
//! statement draws its values until its transaction ends, prepared or not, and `pg_locks` shows it.
//! So let H be those who hold that lock at a time B after A. Once all of H have ended, every record
//! up to V that can ever be seen can be seen. A look after that finds the first record up to V that
//! could be claimed or is being published. That is the new floor. What lies below it and is not
//! settled is stuck, and the look learns its keys.
//!
//! **Why nothing is overtaken.** A claim above the floor leaves alone the keys of everything that
//! was not settled below it. That set can only shrink, so to use an old one is always right. A
//! record that was stuck and is free again (its time has come, an operator resent it, what it stood
//! behind is published) is found by claims that look *below* the floor. They take a bounded part of
//! the time ([`BELOW_PART`]); then the keys are learned anew. A key that was left alone and is free
//! again is not passed over any more, so that what is below the floor of it comes to an end.
//!
//! Where the column's default is `now()`, a value is drawn when a transaction begins, and may lie
//! below V though the transaction inserts after B. So all that are open at B are waited for, which
//! each have a lock on their own number. While one is held open anywhere in the database, such a
//! floor does not rise.
//!
//! **What that rests on.** (1) A value is drawn when a record is inserted. A program that draws its
//! own and inserts within the margin (B - A) is covered too. One that comes later is found later,
//! which matters to nobody unless keys are kept in order; then there is a floor only where the
//! column's default draws it and the owner says that all writers leave it to the default or to our
//! `emit` (`order_is_drawn`). (2) A transaction that is prepared changes its name in `pg_locks`:
//! whenever one of H has gone, those that are prepared by then are waited for as well. (3) A clock
//! that was set back, a record that is set back by hand, and a writer that comes later than the
//! margin are found by looking from time to time for what is not settled where everything was. Then
//! there is no floor for a while, and a larger margin.
//!
//! The floor is a matter of speed alone for the database's other users: it locks nothing and writes
//! nothing.

mod look;
mod review;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postrider_core::{OnDead, Record, RecordId};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgRow, PgTypeInfo};
use sqlx::{Encode, Postgres, Row as _, Type};

use super::ids::PgQuery;
use super::rows::{POSTGRES_EPOCH_MICROS, micros_of};
use crate::sql::LANES;
use crate::sql::statement::{Drawn, FloorColumn};
use crate::sql::table::Kind;

pub(super) use look::tend;
use review::Review;

/// How often the floor is raised while records come.
const EVERY: Duration = Duration::from_millis(100);
/// How long before a look a value must have been seen. Where the database draws all values as they
/// are inserted none is needed, and claims read again what was published in this time.
const MARGIN: Duration = Duration::from_secs(2);
const MARGIN_DRAWN: Duration = Duration::from_millis(100);
const MARGIN_MAX: Duration = Duration::from_secs(3600);
const MARKS_MAX: usize = 64;
/// Where the floor is not looked after any more, there is none.
const GOOD_FOR: Duration = Duration::from_secs(30);
/// So long after the last claim that found something, an outbox is idle.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// Claims that look below the floor and find nothing take at most one part in so many of the time,
/// and those that find something a larger one.
const BELOW_PART: u32 = 100;
const BELOW_PART_FOUND: u32 = 10;
const BELOW_PAUSE_MAX: Duration = Duration::from_secs(15);
/// At most so many records lie below the floor and are not settled. With more of them the floor
/// rises no further.
const STUCK_MAX: usize = 250_000;

/// Values are microseconds since 2000, or ids.
#[derive(Debug)]
pub(super) struct Floor {
    kind: Option<Kind>,
    /// Whether a value is that of the begin of a transaction.
    drawn_at_begin: bool,
    skips_dead: bool,
    /// Held by whoever looks: what two had seen could be mixed up.
    looking: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    raised: Option<Raised>,
    margin: Duration,
    /// Values above which everything lies that was drawn later, and when that was.
    marks: VecDeque<(Instant, i64)>,
    marked_at: Option<Instant>,
    /// When a claim last found something.
    claimed_at: Instant,
    /// The value that is to be the floor once all of these have ended.
    awaited: Option<(i64, HashSet<String>)>,
    review: Review,
    tended_at: Instant,
    /// By lane, when to claim below the floor again. Without order there is one lane.
    below_at: [Instant; LANES as usize],
}

#[derive(Debug, Clone)]
struct Raised {
    /// Below it everything is settled.
    settled: i64,
    floor: i64,
    /// Of what lies in between and is not settled: how many there are at most, and the tokens of
    /// their keys.
    stuck: usize,
    keys: Arc<Vec<i64>>,
    /// Of these, the keys of what is dead or has failed. What comes of them is stuck too; what
    /// comes of the others is free when those below the floor are settled.
    failed_keys: Arc<Vec<i64>>,
    /// By the server's clock, when the first look of this floor was made. A session that is older
    /// proves that the server has not crashed since, and forgotten what was settled last.
    since: i64,
}

/// Where the floor stands, if there is one.
#[derive(Debug)]
pub(super) struct Stand(Option<Raised>);

/// Since when the session has been there, in microseconds since 1970.
pub(super) const SESSION_SINCE: &str = "SELECT (extract(epoch FROM a.backend_start) * 1000000)::int8 AS session_since \
     FROM pg_catalog.pg_stat_get_activity(pg_backend_pid()) AS a";

impl Stand {
    pub(super) fn is_raised(&self) -> bool {
        self.0.is_some()
    }

    /// Forgets a floor that is older than the session, by what [`SESSION_SINCE`] gave.
    pub(super) fn prove(&mut self, floor: &Floor, rows: &[PgRow]) {
        let Some(raised) = &self.0 else { return };
        let session = rows
            .iter()
            .find_map(|row| row.try_get("session_since").ok());
        let is_proven = session.is_some_and(|since: i64| since < raised.since);
        if !is_proven {
            floor.lock().fall();
            self.0 = None;
        }
    }

    pub(super) fn floor(&self) -> i64 {
        self.0.as_ref().map_or(i64::MIN, |raised| raised.floor)
    }
}

/// What a look below the floor has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundBelow {
    Nothing,
    Some,
    /// As much as was wanted: there may be more.
    All,
}

impl FoundBelow {
    pub(super) fn of(count: usize, limit: u32) -> Self {
        match count {
            0 => Self::Nothing,
            count if count >= limit as usize => Self::All,
            _ => Self::Some,
        }
    }
}

/// The part of an outbox that one statement of a claim looks at.
#[derive(Debug, Clone)]
pub(super) struct Range {
    from: i64,
    /// The last value.
    upto: i64,
    /// Tokens of keys that are left alone.
    keys: Arc<Vec<i64>>,
    /// Whether it lies below the floor.
    pub is_below: bool,
}

impl Range {
    fn all() -> Self {
        Self {
            from: i64::MIN,
            upto: i64::MAX,
            keys: Arc::default(),
            is_below: false,
        }
    }
}

impl Floor {
    pub(super) fn new(column: Option<FloorColumn<'_>>, on_dead: OnDead) -> Self {
        let now = Instant::now();
        let drawn = column.as_ref().and_then(|column| column.drawn);
        let state = State {
            raised: None,
            margin: match drawn {
                Some(Drawn::AtInsert) => MARGIN_DRAWN,
                Some(Drawn::AtBegin) | None => MARGIN,
            },
            marks: VecDeque::new(),
            marked_at: None,
            claimed_at: now,
            awaited: None,
            review: Review::new(now),
            tended_at: now,
            below_at: [now; LANES as usize],
        };
        Self {
            kind: column.map(|column| column.kind),
            drawn_at_begin: drawn == Some(Drawn::AtBegin),
            skips_dead: on_dead == OnDead::Skip,
            looking: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a claim goes by from its begin to its end.
    pub(super) fn stand(&self) -> Stand {
        let state = self.lock();
        let is_good = state.tended_at.elapsed() < GOOD_FOR;
        Stand(state.raised.clone().filter(|_| is_good))
    }

    /// Where a claim that holds these lanes looks, one after the other until it has enough.
    pub(super) fn ranges(&self, stand: &Stand, lanes: Option<&[i32]>) -> Vec<Range> {
        let Some(raised) = &stand.0 else {
            return vec![Range::all()];
        };
        let above = Range {
            from: raised.floor,
            keys: Arc::clone(&raised.keys),
            ..Range::all()
        };
        let now = Instant::now();
        let below_at = self.lock().below_at;
        let is_time = numbers(lanes).any(|lane| below_at[lane] <= now);
        if raised.stuck == 0 || !is_time {
            return vec![above];
        }
        let below = Range {
            from: raised.settled,
            upto: raised.floor.saturating_sub(1),
            is_below: true,
            ..Range::all()
        };
        vec![below, above]
    }

    /// Where nothing has been claimed for a while, and it is not time to look below the floor: the
    /// floor, above which all lies that a claim could find.
    pub(super) fn idle_above(&self) -> Option<Stand> {
        let stand = self.stand();
        let (state, now) = (self.lock(), Instant::now());
        let is_time = stand.0.as_ref().is_some_and(|raised| raised.stuck > 0)
            && state.below_at.iter().any(|below_at| *below_at <= now);
        let is_idle = now.saturating_duration_since(state.claimed_at) > IDLE_AFTER && !is_time;
        is_idle.then_some(stand)
    }

    pub(super) fn is_not_idle(&self) {
        self.lock().claimed_at = Instant::now();
    }

    /// Learns how long a look below the floor took, and what it found.
    pub(super) fn looked_below(&self, lanes: Option<&[i32]>, took: Duration, found: FoundBelow) {
        let now = Instant::now();
        let pause = match found {
            FoundBelow::Nothing => took * BELOW_PART,
            FoundBelow::Some => took * BELOW_PART_FOUND,
            FoundBelow::All => Duration::ZERO,
        };
        let again = now + pause.min(BELOW_PAUSE_MAX);
        let mut state = self.lock();
        if found != FoundBelow::Nothing {
            state.claimed_at = now;
            state.review.found = true;
            // What is resent after it was skipped has a key that is not among those that are left
            // alone.
            if self.skips_dead {
                state.fall();
            }
        }
        numbers(lanes).for_each(|lane| state.below_at[lane] = again);
    }

    /// The parameters of a claim that say where it looks: the first of them, and with what comes
    /// between them bound, the others.
    pub(super) fn bind_from(&self, claim: PgQuery, range: &Range) -> PgQuery {
        self.bind_value(claim, range.from)
    }

    pub(super) fn bind_rest(&self, claim: PgQuery, range: &Range) -> PgQuery {
        self.bind_value(claim.bind(range.keys.to_vec()), range.upto)
    }

    fn bind_value(&self, statement: PgQuery, value: i64) -> PgQuery {
        match self.kind {
            None => statement.bind(None::<i64>),
            Some(Kind::Int) => statement.bind(value),
            Some(_) => statement.bind(Time(value)),
        }
    }

    /// Learns that these were claimed above the floor. The last will do: the order is theirs.
    pub(super) fn seen(&self, records: &[Record]) {
        let Some(last) = records.last() else { return };
        let value = match (self.kind, &last.id) {
            (Some(Kind::Int), RecordId::Int(id)) => Some(*id),
            (Some(Kind::Int), _) | (None, _) => None,
            (Some(_), _) => Some(micros_of(last.created_at)),
        };
        let mut state = self.lock();
        state.claimed_at = Instant::now();
        if let Some(value) = value {
            state.mark(value);
        }
    }
}

/// Without lanes all are held.
fn numbers(lanes: Option<&[i32]>) -> impl Iterator<Item = usize> {
    let all = lanes.is_none().then_some(0..LANES as usize);
    let some = lanes.into_iter().flatten();
    let some = some.filter_map(|lane| usize::try_from(*lane).ok());
    (some.filter(|lane| *lane < LANES as usize)).chain(all.into_iter().flatten())
}

impl State {
    /// A value that is drawn now lies above one that was read before.
    fn mark(&mut self, value: i64) {
        let now = Instant::now();
        let is_soon = (self.marks.back()).is_some_and(|(at, _)| now - *at < EVERY / 2);
        if !is_soon && self.marks.len() < MARKS_MAX {
            self.marked_at = Some(now);
            self.marks.push_back((now, value.saturating_add(1)));
        }
    }

    /// Forgets all that was known.
    fn fall(&mut self) {
        self.raised = None;
        self.awaited = None;
        self.marks.clear();
    }

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

    /// Whoever inserted before is either gone or still among the holders, where a prepared
    /// transaction has another name than it had before.
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
