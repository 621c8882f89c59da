//! Reading ahead: while a claim's records are published, its connection reads the ones that come next. Whoever claims
//! the groups next takes them, if nobody else was there in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use postrider_core::StoreError;
use tokio_util::task::AbortOnDropHandle;

use super::gather::Part;
use super::open::Opened;
use super::read::{Chunk, Reading};
use super::settlement::{Advance, Reached};
use super::team::Team;
use crate::postgres::Inner;
use crate::postgres::error::store_error;
use crate::postgres::outbox::Ready;

/// What comes after a position of the difference that a team is in.
#[derive(Debug)]
pub(super) struct Ahead {
    team: Team,
    after: i64,
    chunk: Chunk,
}

/// At most one chunk per team, by its first group.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<BTreeMap<i32, Ahead>>);

impl Shelf {
    /// What was read ahead of `team`, if it is what comes next. What is older is dropped.
    pub(super) fn take(&self, team: &Team) -> Option<Chunk> {
        let ahead = self.lock().remove(&team.lead().group)?;
        let comes_next = ahead.team.is_before(team, ahead.after);
        comes_next.then_some(ahead.chunk)
    }

    /// Keeps what was read ahead of where the settled teams now are.
    pub(super) fn put(&self, read: Vec<Ahead>, advances: &[Advance<'_>]) {
        let reached = |ahead: &Ahead| {
            advances.iter().any(|advance| {
                advance.team.lead().group == ahead.team.lead().group
                    && advance.to == Reached::Position(ahead.after)
            })
        };
        let mut shelf = self.lock();
        for ahead in read.into_iter().filter(reached) {
            shelf.insert(ahead.team.lead().group, ahead);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, Ahead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim's transaction, which may be reading ahead.
pub(super) enum Session {
    Resting(Opened),
    Reading(AbortOnDropHandle<Result<(Opened, Vec<Ahead>), StoreError>>),
}

impl Session {
    /// Reads on where the claim's parts end, if there may be more, and gives back the locks on the outbox. Nobody waits for it
    /// before publishing.
    pub(super) fn start(
        inner: &Arc<Inner>,
        ready: &Arc<Ready>,
        opened: Opened,
        parts: &[Part],
        limit: u32,
    ) -> Self {
        let ends: Vec<(Team, i64)> = parts
            .iter()
            .filter(|part| part.more)
            .filter_map(|part| Some((part.team.clone(), part.entries.last()?.position)))
            .collect();
        if ends.is_empty() && !opened.has_read() {
            return Self::Resting(opened);
        }
        // The teams of a claim share its limit.
        let sharing = u32::try_from(ends.len()).unwrap_or(1).max(1);
        let each = limit.div_ceil(sharing).max(1);
        let reading = read(inner.clone(), ready.clone(), opened, ends, each);
        Self::Reading(AbortOnDropHandle::new(tokio::spawn(reading)))
    }

    /// The transaction, when it is done reading, and what it has read.
    pub(super) async fn end(self) -> Result<(Opened, Vec<Ahead>), StoreError> {
        let reading = match self {
            Self::Resting(opened) => return Ok((opened, Vec::new())),
            Self::Reading(reading) => reading,
        };
        reading.await.unwrap_or_else(|error| {
            Err(StoreError::Refused {
                action: "read ahead",
                reason: error.to_string(),
                source: None,
            })
        })
    }
}

async fn read(
    inner: Arc<Inner>,
    ready: Arc<Ready>,
    mut opened: Opened,
    ends: Vec<(Team, i64)>,
    limit: u32,
) -> Result<(Opened, Vec<Ahead>), StoreError> {
    let mut all = Vec::with_capacity(ends.len());
    for (team, after) in ends {
        let reading = Reading {
            inner: &inner,
            ready: &ready,
            team: &team,
            limit,
        };
        let chunk = reading.chunk(opened.reads(), after).await?;
        all.push(Ahead { team, after, chunk });
    }
    let ended = opened.end_reading().await;
    ended.map_err(store_error("read ahead", &inner.name()))?;
    Ok((opened, all))
}
