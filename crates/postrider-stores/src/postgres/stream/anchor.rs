//! What an operator sees of a stream, and how a stream goes on in another database.

use postrider_core::StoreError;
use sqlx::Row as _;

use super::history;
use super::progress::{self, Progress};
use super::segments::CLEANER;
use crate::postgres::PostgresStore;
use crate::postgres::claim::lock_class;
use crate::postgres::error::store_error;
use crate::postgres::outbox::query;
use crate::postgres::tx::Tx;

/// How long re-anchoring waits for relays to let go, and for writers to commit.
const LOCK_SECS: u32 = 30;

/// Where one group of a stream stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    pub group: i32,
    /// How often the group's progress was saved.
    pub version: i64,
    /// How often the stream was anchored anew.
    pub epoch: i64,
    /// Within the difference of snapshots that is being read; 0 at its start.
    pub position: i64,
    pub from_snapshot: String,
    /// `None` where the last difference is done.
    pub to_snapshot: Option<String>,
    pub system_identifier: Option<String>,
    pub timeline: String,
    /// Why relays refuse to read on, if they do.
    pub refused: Option<String>,
}

/// What re-anchoring did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchored {
    /// Records that will be published.
    pub unread: u64,
}

impl PostgresStore {
    /// Where every group of an append-only outbox stands.
    pub async fn stream_status(&self) -> Result<Vec<GroupStatus>, StoreError> {
        let ready = self.inner.ready().await?;
        let stream = ready.stream()?;
        let (here, standing) = progress::standing(&self.inner, stream).await?;
        let status = |progress: Progress| GroupStatus {
            refused: history::check(&self.inner, &progress, &here)
                .err()
                .map(|error| error.to_string()),
            group: progress.group,
            version: progress.version,
            epoch: progress.epoch,
            position: progress.position,
            from_snapshot: progress.from.to_string(),
            to_snapshot: (!progress.fresh).then(|| progress.to.to_string()),
            system_identifier: progress.system,
            timeline: progress.timeline,
        };
        Ok(standing.into_iter().map(status).collect())
    }

    /// Starts the stream of an append-only outbox anew in this database: whatever was not read is read, in order. Records
    /// that were in flight when the old database was left may be published again. Writers wait meanwhile.
    pub async fn re_anchor(&self) -> Result<Anchored, StoreError> {
        let inner = &self.inner;
        let ready = inner.ready().await?;
        let stream = ready.stream()?;
        let failed = store_error("re-anchor the stream", &inner.name());
        let (here, standing) = progress::standing(inner, stream).await?;
        let anchor = &stream.statements.anchor;
        let begin = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '{LOCK_SECS}s'; \
             SET LOCAL statement_timeout = '24h'; \
             SELECT pg_advisory_xact_lock({class}, {CLEANER}); \
             SELECT pg_advisory_xact_lock({class}, grp) FROM generate_series(0, {} - 1) AS grp; {}",
            stream.groups,
            anchor.lock,
            class = lock_class(&inner.options.layout),
        );
        let (mut tx, _) = Tx::begin(&inner.pool, begin.into())
            .await
            .map_err(&failed)?;
        let look = query(&anchor.look).fetch_one(tx.connection()).await;
        let look = look.map_err(&failed)?;
        let snapshot: String = look.try_get(0).map_err(&failed)?;
        let drawn: i64 = look.try_get(1).map_err(&failed)?;
        let there: i64 = look.try_get(2).map_err(&failed)?;
        let known = standing.iter().map(|progress| progress.highest);
        let highest = known.fold(there, i64::max);
        // Positions were drawn twice, and nothing tells the records apart: better twice than never.
        let doubtful = if drawn < highest { drawn } else { 0 };
        if drawn < highest {
            let forward = query(&anchor.forward).bind(highest);
            forward.execute(tx.connection()).await.map_err(&failed)?;
        }
        let renumber = query(&anchor.renumber)
            .bind(snapshot.clone())
            .bind(doubtful);
        let row = renumber.fetch_one(tx.connection()).await.map_err(&failed)?;
        let unread: i64 = row.try_get(0).map_err(&failed)?;
        let start = query(&anchor.start)
            .bind(snapshot)
            .bind(drawn)
            .bind(here.system)
            .bind(here.timeline)
            .bind(highest.max(drawn));
        start.execute(tx.connection()).await.map_err(&failed)?;
        tx.commit().await.map_err(&failed)?;
        Ok(Anchored {
            unread: u64::try_from(unread).unwrap_or(0),
        })
    }
}
