//! Reading ahead: while a claim's records are published, its connection reads the ones that come next. Whoever claims
//! the groups next takes them, if nobody else was there in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider_core::{StoreError, text};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::gather::{Gathered, Part, gather};
use super::open::Opened;
use super::read::{Chunk, Reading, Room};
use super::settlement::{Advance, Reached};
use super::team::Team;
use crate::postgres::Inner;
use crate::postgres::error::store_error;
use crate::postgres::outbox::Ready;

/// How long a claim keeps the locks that reading took. To give them back is a message of its own, and publishing few records
/// takes less than this; whoever empties a segment waits longer.
const LOCKS_KEPT_MAX: Duration = Duration::from_millis(10);

/// How long a statement may take to read ahead: a claim that is published waits for it before it is settled.
const READING_MAX: Duration = Duration::from_secs(5);

/// What comes after a position of the difference that a team is in.
#[derive(Debug)]
pub(super) struct Ahead {
    team: Team,
    after: i64,
    chunk: Chunk,
}

impl Ahead {
    pub(super) fn is_empty(&self) -> bool {
        self.chunk.records.is_empty()
    }

    /// For a claim that has published all that comes before.
    pub(super) fn gather(self, limit: u32) -> Gathered {
        let mut gathered = gather(vec![(self.team, self.chunk)], Vec::new(), &[], limit);
        for part in &mut gathered.parts {
            part.published_upto = Some(self.after);
        }
        gathered
    }
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
    Resting(Opened, Vec<Ahead>),
    Reading {
        reading: AbortOnDropHandle<Result<(Opened, Vec<Ahead>), StoreError>>,
        /// Sent to when the transaction is wanted back.
        recall: oneshot::Sender<()>,
    },
    /// Its transaction is gone.
    Lost,
}

impl Session {
    /// Reads on where the claim's parts end, if there may be more, and gives back the locks on the outbox. Nobody waits for it
    /// before publishing.
    pub(super) fn start(
        inner: &Arc<Inner>,
        ready: &Arc<Ready>,
        opened: Opened,
        parts: &[Part],
        room: Room,
    ) -> Self {
        let ends: Vec<(Team, i64)> = parts
            .iter()
            .filter(|part| part.more)
            .filter_map(|part| Some((part.team.clone(), part.entries.last()?.position)))
            .collect();
        if ends.is_empty() && !opened.has_read() {
            return Self::Resting(opened, Vec::new());
        }
        // The teams of a claim share its room.
        let sharing = ends.len().max(1);
        let each = Room {
            limit: room
                .limit
                .div_ceil(u32::try_from(sharing).unwrap_or(1))
                .max(1),
            bytes: room.bytes / sharing,
        };
        let (recall, recalled) = oneshot::channel();
        let (inner, ready) = (inner.clone(), ready.clone());
        let reading = async move {
            if ends.is_empty() && in_time(recalled).await {
                return Ok((opened, Vec::new()));
            }
            read(inner, ready, opened, ends, each).await
        };
        Self::Reading {
            reading: AbortOnDropHandle::new(tokio::spawn(reading)),
            recall,
        }
    }

    /// The transaction, when it is done reading, and what it has read.
    pub(super) async fn end(self) -> Result<(Opened, Vec<Ahead>), StoreError> {
        let reading = match self {
            Self::Resting(opened, ahead) => return Ok((opened, ahead)),
            Self::Lost => return Err(lost("its transaction is gone".into())),
            Self::Reading { reading, recall } => {
                // Nobody listens any more where it has ended, or has something to read.
                recall.send(()).unwrap_or(());
                reading
            }
        };
        let read = reading.await;
        read.unwrap_or_else(|error| Err(lost(error.to_string())))
    }

    /// The same, of a claim that may go on with it.
    pub(super) async fn pause(&mut self) -> Result<(Opened, Vec<Ahead>), StoreError> {
        std::mem::replace(self, Self::Lost).end().await
    }
}

fn lost(reason: String) -> StoreError {
    StoreError::Refused {
        action: "read ahead",
        reason,
        source: None,
    }
}

/// Whether the transaction is wanted back so soon that its locks need not be given back before.
async fn in_time(recalled: oneshot::Receiver<()>) -> bool {
    matches!(timeout(LOCKS_KEPT_MAX, recalled).await, Ok(Ok(())))
}

async fn read(
    inner: Arc<Inner>,
    ready: Arc<Ready>,
    mut opened: Opened,
    ends: Vec<(Team, i64)>,
    room: Room,
) -> Result<(Opened, Vec<Ahead>), StoreError> {
    let mut all = Vec::new();
    if !ends.is_empty() {
        match read_all(&inner, &ready, &mut opened, ends, room).await {
            Ok(read) => all = read,
            // What is being published can be settled all the same, and whoever claims next reads for itself.
            Err(error) => {
                let (outbox, reason) = (inner.name(), text::chain(&error));
                tracing::debug!(outbox, reason, "nothing was read ahead");
            }
        }
    }
    let ended = opened.end_reading().await;
    ended.map_err(store_error("read ahead", &inner.name()))?;
    Ok((opened, all))
}

async fn read_all(
    inner: &Inner,
    ready: &Ready,
    opened: &mut Opened,
    ends: Vec<(Team, i64)>,
    room: Room,
) -> Result<Vec<Ahead>, StoreError> {
    let bounded = opened.bound_reading(READING_MAX).await;
    bounded.map_err(store_error("read ahead", &inner.name()))?;
    let mut all = Vec::with_capacity(ends.len());
    for (team, after) in ends {
        let reading = Reading {
            inner,
            ready,
            team: &team,
            room,
        };
        let chunk = reading.chunk(opened.reads(), after).await?;
        all.push(Ahead { team, after, chunk });
    }
    Ok(all)
}
