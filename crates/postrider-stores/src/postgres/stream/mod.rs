//! Claims of an append-only outbox. A group of lanes is held by an advisory lock of an open transaction, as in hold mode;
//! settling saves how far its stream was read. No row of the outbox is ever written.
//!
//! While a claim's records are published its transaction holds no lock on the outbox for long: what reading took is given back by
//! rolling back to a savepoint, so that a segment can be emptied meanwhile.

mod ahead;
mod anchor;
mod company;
mod gather;
mod held;
mod history;
mod open;
mod progress;
mod read;
mod segments;
mod settlement;
mod snapshot;
mod tables;
mod team;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Instant;

use futures::TryStreamExt as _;
use postrider_core::layout::State;
use postrider_core::{Claim, MessageKey, Ordering, Record, StoreError, Want};
use sqlx::Row as _;

use super::Inner;
use super::claim::records;
use super::error::store_error;
use super::outbox::{LOOKING_MAX, Ready, query, writer};
use super::tx::{Tx, bounded};
use crate::sql::statement::stream::{self as statement, SEGMENTS, beside, segment};
use crate::sql::table::Table;
use ahead::{Session, Shelf};
use company::Company;
use gather::gather;
use held::Held;
use open::Opened;
use read::{Chunk, Reading, Room};
use settlement::Settlement;
use team::Team;

pub use anchor::{Anchored, GroupStatus};
pub(super) use segments::purge;

/// Rounds in which a claim may find nothing but records that have to wait behind others, before it gives up for now.
const ROUNDS_MAX: u32 = 64;

/// What is known of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) statements: statement::Stream,
    /// Groups of lanes. All relays read this number from the database.
    pub(super) groups: u32,
    /// What was read ahead.
    shelf: Shelf,
    asked: history::Asked,
    /// The file of the sequence with which all was well: it is another one when the sequence is restarted.
    trusted: AtomicI64,
    company: Company,
}

impl Stream {
    /// As a parameter.
    fn group_count(&self) -> i32 {
        i32::try_from(self.groups).unwrap_or(1)
    }
}

impl Inner {
    /// Looks at the tables beside an append-only outbox.
    pub(super) async fn open_stream(&self, table: &Table) -> Result<Option<Stream>, StoreError> {
        let layout = &self.options.layout;
        if !matches!(layout.state, State::Append { .. }) {
            return Ok(None);
        }
        let failed = store_error("read the stream's tables", &self.name());
        let names = beside(&layout.table);
        let segments: Vec<_> = (0..SEGMENTS)
            .map(|number| segment(&layout.table, number))
            .collect();
        let beside = [&names.progress, &names.troubles, &names.sequence];
        for name in beside.into_iter().chain(&segments) {
            let found = sqlx::query("SELECT to_regclass($1) IS NOT NULL").bind(name.quoted());
            let found = self.pool.fetch_one(found).await;
            if !found
                .and_then(|row| row.try_get::<bool, _>(0))
                .map_err(&failed)?
            {
                return Err(StoreError::Mismatch(format!(
                    "{name} does not exist; layout {} needs it beside table {}; run `postrider init`",
                    layout.name, layout.table
                )));
            }
        }
        let knows_system = sqlx::query(
            "SELECT has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')",
        );
        let knows_system = self.pool.fetch_one(knows_system).await;
        let knows_system = knows_system
            .and_then(|row| row.try_get(0))
            .map_err(&failed)?;
        let Some(statements) = writer(&self.options, table).stream(knows_system) else {
            return Ok(None);
        };
        let (mut tx, _) = Tx::begin(&self.pool, bounded(LOOKING_MAX).into())
            .await
            .map_err(&failed)?;
        tables::check_positions(self, table, &mut tx).await?;
        tables::check_copies(self, table, &statements.copied, &mut tx).await?;
        let row = query(&statements.groups).fetch_one(tx.connection()).await;
        tx.commit().await.map_err(&failed)?;
        let groups: i32 = row.and_then(|row| row.try_get(0)).map_err(&failed)?;
        let groups = u32::try_from(groups).unwrap_or(0);
        if groups == 0 {
            return Err(StoreError::Mismatch(format!(
                "{} is empty: nobody has set up the groups of outbox {}; run `postrider init`",
                names.progress, layout.table
            )));
        }
        Ok(Some(Stream {
            statements,
            groups,
            shelf: Shelf::default(),
            asked: history::Asked::default(),
            trusted: AtomicI64::default(),
            company: Company::default(),
        }))
    }
}

impl Ready {
    fn stream(&self) -> Result<&Stream, StoreError> {
        let missing = || StoreError::Mismatch("this outbox is not append-only".into());
        self.stream.as_ref().ok_or_else(missing)
    }
}

/// Whether an append-only outbox can be read on in this database. Others can.
pub(super) async fn check(inner: &Inner, ready: &Ready) -> Result<(), StoreError> {
    match &ready.stream {
        Some(stream) => history::check_standing(inner, stream).await,
        None => Ok(()),
    }
}

pub(super) async fn claim(
    inner: &Arc<Inner>,
    ready: Arc<Ready>,
    want: Want,
) -> Result<Option<Box<dyn Claim>>, StoreError> {
    for _ in 0..ROUNDS_MAX {
        match round(inner, &ready, want).await? {
            Round::Claimed(claim) => return Ok(Some(claim)),
            Round::Nothing => return Ok(None),
            Round::Moved => {}
        }
    }
    Ok(None)
}

enum Round {
    Claimed(Box<Held>),
    Nothing,
    /// There was nothing to publish, but the stream has moved on.
    Moved,
}

async fn round(inner: &Arc<Inner>, ready: &Arc<Ready>, want: Want) -> Result<Round, StoreError> {
    let failed = store_error("claim records", &inner.name());
    let stream = ready.stream()?;
    let Some(mut opened) = open::open(inner, stream, want.share).await? else {
        return Ok(Round::Nothing);
    };
    let room = Room {
        limit: want.limit,
        bytes: want.bytes,
    };
    let chunks = chunks(inner, ready, &mut opened, room).await?;
    let mut troubled = Vec::new();
    let mut parked = Vec::new();
    if opened.troubled {
        let groups = chunks.iter().flat_map(|(team, _)| team.groups()).collect();
        troubled = due(inner, ready, &mut opened, groups, room).await?;
        parked = parked_keys(inner, ready, &mut opened, &chunks, &troubled).await?;
    }
    let gathered = gather(chunks, troubled, &parked, want.limit);
    if !gathered.records.is_empty() {
        return Ok(Round::Claimed(Box::new(Held {
            in_company: opened.in_company,
            inner: inner.clone(),
            ready: ready.clone(),
            session: Session::start(inner, ready, opened, &gathered.parts, room),
            gathered,
            room,
            // As in `hold.rs`.
            lapses_at: Instant::now() + inner.options.hold_max,
        })));
    }
    let settlement = Settlement::new(&gathered, &[], opened.drawn);
    if settlement.is_empty() {
        opened.tx.rollback().await.map_err(&failed)?;
        return Ok(Round::Nothing);
    }
    held::write(inner, stream, opened, &settlement).await?;
    Ok(if settlement.moves {
        Round::Moved
    } else {
        Round::Nothing
    })
}

/// The next records of every team: those that were read ahead, or as many as there is room for.
async fn chunks(
    inner: &Inner,
    ready: &Ready,
    opened: &mut Opened,
    room: Room,
) -> Result<Vec<(Team, Chunk)>, StoreError> {
    let (now, waiting) = Team::form(std::mem::take(&mut opened.standing));
    let mut chunks = Vec::with_capacity(now.len() + waiting.len());
    let room = Room {
        bytes: room.bytes / now.len().max(1),
        ..room
    };
    for team in now {
        let reading = Reading {
            inner,
            ready,
            team: &team,
            room,
        };
        let chunk = match ready.stream()?.shelf.take(&team) {
            Some(chunk) => chunk,
            // So an idle poll reads nothing, and has no locks to give back.
            None if team.lead().is_void() => Chunk::default(),
            None => reading.chunk(opened.reads(), team.lead().position).await?,
        };
        chunks.push((team, chunk));
    }
    let unread = |team| {
        let more = true;
        (
            team,
            Chunk {
                more,
                ..Chunk::default()
            },
        )
    };
    chunks.extend(waiting.into_iter().map(unread));
    Ok(chunks)
}

/// Records that failed earlier and may be tried again.
async fn due(
    inner: &Inner,
    ready: &Ready,
    opened: &mut Opened,
    groups: Vec<i32>,
    room: Room,
) -> Result<Vec<Record>, StoreError> {
    let failed = store_error("claim troubled records", &inner.name());
    let stream = ready.stream()?;
    let mut rows = query(&stream.statements.due)
        .bind(groups)
        .bind(i64::from(room.limit))
        .bind(stream.group_count())
        .fetch(opened.reads().connection());
    let (mut due, mut left): (Vec<Record>, usize) = (Vec::new(), room.bytes);
    while let Some(row) = rows.try_next().await.map_err(&failed)? {
        let attempts: i32 = row.try_get("attempts").map_err(&failed)?;
        for mut record in records(inner, ready, std::slice::from_ref(&row))? {
            if record.size() > left && !due.is_empty() {
                return Ok(due);
            }
            left = left.saturating_sub(record.size());
            record.attempts = u32::try_from(attempts).unwrap_or(0);
            due.push(record);
        }
    }
    Ok(due)
}

/// Keys of which an earlier record is kept aside and is not in this claim, so that these have to wait behind it.
async fn parked_keys(
    inner: &Inner,
    ready: &Ready,
    opened: &mut Opened,
    chunks: &[(Team, Chunk)],
    troubled: &[Record],
) -> Result<Vec<MessageKey>, StoreError> {
    if inner.options.layout.ordering == Ordering::None {
        return Ok(Vec::new());
    }
    let failed = store_error("look up parked keys", &inner.name());
    let records = chunks.iter().flat_map(|(_, chunk)| &chunk.records);
    let mut keys: Vec<String> = records
        .filter_map(|record| record.key.as_ref())
        .map(ToString::to_string)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let rows = query(&ready.stream()?.statements.parked)
        .bind(keys)
        .fetch_all(opened.reads().connection())
        .await
        .map_err(&failed)?;
    let mut claimed: HashMap<&str, i64> = HashMap::new();
    let keys = troubled
        .iter()
        .filter_map(|record| record.key.as_ref()?.as_str());
    for key in keys {
        *claimed.entry(key).or_default() += 1;
    }
    let mut parked = Vec::new();
    for row in rows {
        let key: String = row.try_get(0).map_err(&failed)?;
        let aside: i64 = row.try_get(1).map_err(&failed)?;
        if claimed.get(key.as_str()) != Some(&aside) {
            parked.push(key.into());
        }
    }
    Ok(parked)
}
