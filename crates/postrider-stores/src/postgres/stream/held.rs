//! A claim of a stream, and how it is settled.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use postrider_core::{Claim, Fate, Record, Settled, StoreError};

use super::Stream;
use super::ahead::Session;
use super::gather::{Gathered, Part};
use super::open::Opened;
use super::read::Room;
use super::settlement::{Advance, Reached, Settlement, Trouble};
use crate::postgres::Inner;
use crate::postgres::claim::WAITING_FOR_THE_DISK;
use crate::postgres::error::store_error;
use crate::postgres::ids::PgQuery;
use crate::postgres::outbox::{Ready, query};
use crate::sql::LANES;
use crate::sql::statement::stream::{self as statement, Moved, Stamp};

pub(super) struct Held {
    pub(super) inner: Arc<Inner>,
    pub(super) ready: Arc<Ready>,
    pub(super) session: Session,
    pub(super) gathered: Gathered,
    /// What it may take at a time.
    pub(super) room: Room,
    pub(super) lapses_at: Instant,
    /// Whether other relays are at work too.
    pub(super) in_company: bool,
}

#[async_trait]
impl Claim for Held {
    fn records(&self) -> &[Record] {
        &self.gathered.records
    }

    fn lanes(&self) -> u32 {
        let parts = self.gathered.parts.iter();
        let groups: usize = parts.map(|part| part.team.members().len()).sum();
        let groups = u32::try_from(groups).unwrap_or(0);
        let of = self.ready.stream.as_ref().map_or(1, |stream| stream.groups);
        groups * LANES / of.max(1)
    }

    fn is_better_shared(&self) -> bool {
        self.in_company
    }

    fn lapses_at(&self) -> Option<Instant> {
        Some(self.lapses_at)
    }

    async fn go_on(&mut self) -> Result<bool, StoreError> {
        // Several teams have several places to be saved.
        let [Part { more: true, .. }] = &self.gathered.parts[..] else {
            return Ok(false);
        };
        // They wait for a moment at which the groups are free.
        if self.in_company {
            return Ok(false);
        }
        let (opened, mut ahead) = self.session.pause().await?;
        // Records that are kept aside are looked for where a claim begins.
        let next = ahead.pop_if(|next| !next.is_empty() && !opened.troubled);
        let Some(next) = next else {
            self.session = Session::Resting(opened, ahead);
            return Ok(false);
        };
        self.gathered = next.gather(self.room.limit);
        let parts = &self.gathered.parts;
        self.session = Session::start(&self.inner, &self.ready, opened, parts, self.room);
        Ok(true)
    }

    async fn settle(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        let inner = Arc::clone(&self.inner);
        // A migration may have run while the records were published.
        inner.forget_if_stale(self.end(fates).await).await
    }
}

impl Held {
    async fn end(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
        let count = self.gathered.records.len();
        if count != fates.len() {
            return Err(StoreError::Refused {
                action: "settle a claim",
                reason: format!("{count} records have {} fates", fates.len()),
                source: None,
            });
        }
        let (opened, ahead) = self.session.end().await?;
        let all_released = fates.iter().all(|fate| matches!(fate, Fate::Released));
        if all_released && !self.gathered.has_gone_on() {
            let failed = store_error("settle a claim", &self.inner.name());
            opened.tx.rollback().await.map_err(failed)?;
            return Ok(Settled::default());
        }
        let stream = self.ready.stream()?;
        let settlement = Settlement::new(&self.gathered, fates, opened.drawn);
        write(&self.inner, stream, opened, &settlement).await?;
        stream.shelf.put(ahead, &settlement.advances);
        Ok(Settled::default())
    }
}

/// Writes all of it, or nothing, and ends the claim.
pub(super) async fn write(
    inner: &Inner,
    stream: &Stream,
    mut opened: Opened,
    settlement: &Settlement<'_>,
) -> Result<(), StoreError> {
    let failed = store_error("settle a claim", &inner.name());
    let statements = &stream.statements;
    if settlement.is_grave() {
        let durable = sqlx::raw_sql(WAITING_FOR_THE_DISK).execute(opened.tx.connection());
        durable.await.map_err(&failed)?;
    }
    let members = || settlement.advances.iter().flat_map(Advance::members);
    for (progress, _) in members() {
        let (saved, here) = (&progress.timeline, &opened.here.timeline);
        if saved != here {
            tracing::warn!(
                table = inner.name(),
                saved,
                here,
                "database has a new timeline: a standby was promoted or a backup recovered; reading goes on"
            );
        }
    }
    if !settlement.failed_again.is_empty() {
        let retry = bind_troubles(query(&statements.retry), &settlement.failed_again);
        retry
            .execute(opened.tx.connection())
            .await
            .map_err(&failed)?;
    }
    if !settlement.forget.is_empty() {
        let forget = query(&statements.forget).bind(settlement.forget.clone());
        forget
            .execute(opened.tx.connection())
            .await
            .map_err(&failed)?;
    }
    if !settlement.copies.is_empty() {
        keep_aside(inner, stream, &mut opened, &settlement.copies).await?;
    }
    // Under the groups' locks: another worker of this process must not take it for somebody else's.
    let company = &stream.company;
    company.wrote(members().map(|(progress, _)| progress));
    if settlement.advances.is_empty() {
        return opened.tx.commit().await.map_err(&failed);
    }
    let advance = statements.advance.text(&moved(settlement), &stamp(&opened));
    let saved = opened.tx.commit_after(&advance).await;
    saved.map_err(|error| match lost(&error) {
        Some(found) => void(inner, found),
        None => failed(error),
    })
}

/// Copies records. Copies of others are set aside where they have the same positions.
async fn keep_aside(
    inner: &Inner,
    stream: &Stream,
    opened: &mut Opened,
    copies: &[Trouble<'_>],
) -> Result<(), StoreError> {
    let failed = store_error("settle a claim", &inner.name());
    let wanted = copies.len() as u64;
    let mut found = 0;
    for is_first in [true, false] {
        let connection = opened.tx.connection();
        let copy = bind_troubles(query(&stream.statements.copy), copies);
        let copied = copy.execute(&mut *connection).await.map_err(&failed)?;
        found = copied.rows_affected();
        if found == wanted {
            return Ok(());
        }
        if is_first {
            let aside = query(&stream.statements.aside).execute(connection);
            aside.await.map_err(&failed)?;
        }
    }
    Err(void(inner, &format!("{found} of {wanted} records found")))
}

/// What the server says where a group is not found as it was.
fn lost(error: &sqlx::Error) -> Option<&str> {
    let error = error.as_database_error()?;
    (error.code().as_deref() == Some(statement::Advance::LOST)).then(|| error.message())
}

/// Under the groups' locks nobody else writes; if somebody did, this claim must leave no trace.
fn void(inner: &Inner, found: &str) -> StoreError {
    StoreError::Refused {
        action: "settle a claim",
        reason: format!(
            "somebody else has changed {} or its progress, and the claim is void: {found}",
            inner.name()
        ),
        source: None,
    }
}

fn moved(settlement: &Settlement<'_>) -> Vec<Moved> {
    let members = settlement.advances.iter().flat_map(Advance::members);
    let each = members.map(|(progress, reached)| {
        // A difference that is done becomes the start of the next one, whose end is not known yet.
        let (from, from_low, to, position) = match reached {
            Reached::End => (&progress.to, progress.to_low, None, 0),
            Reached::Position(position) => (
                &progress.from,
                progress.from_low,
                Some(progress.to.to_string()),
                position,
            ),
        };
        Moved {
            group: progress.group,
            version: progress.version,
            epoch: progress.epoch,
            position,
            from: from.to_string(),
            from_low,
            to,
            to_low: progress.to_low,
            to_high: progress.to_high,
        }
    });
    each.collect()
}

fn stamp(opened: &Opened) -> Stamp {
    Stamp {
        next_low: opened.drawn,
        system: opened.here.system.clone(),
        timeline: opened.here.timeline.clone(),
    }
}

fn bind_troubles(statement: PgQuery, of: &[Trouble<'_>]) -> PgQuery {
    let micros = |wait: std::time::Duration| i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
    let attempts = of
        .iter()
        .map(|trouble| i32::try_from(trouble.attempts).unwrap_or(i32::MAX));
    statement
        .bind(
            of.iter()
                .map(|trouble| trouble.position)
                .collect::<Vec<_>>(),
        )
        .bind(attempts.collect::<Vec<_>>())
        .bind(
            of.iter()
                .map(|trouble| trouble.error.map(ToOwned::to_owned))
                .collect::<Vec<_>>(),
        )
        .bind(
            of.iter()
                .map(|trouble| micros(trouble.wait))
                .collect::<Vec<_>>(),
        )
        .bind(of.iter().map(|trouble| trouble.dead).collect::<Vec<_>>())
}
