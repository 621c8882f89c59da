//! A claim of a stream, and how it is settled.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use postrider_core::{Claim, Fate, Record, Settled, StoreError};

use super::Stream;
use super::ahead::Session;
use super::gather::Gathered;
use super::open::Opened;
use super::progress::Progress;
use super::settlement::{Advance, Reached, Settlement, Trouble};
use crate::postgres::Inner;
use crate::postgres::claim::wait_for_the_disk;
use crate::postgres::error::store_error;
use crate::postgres::ids::PgQuery;
use crate::postgres::outbox::{Ready, query};
use crate::sql::LANES;

pub(super) struct Held {
    pub(super) inner: Arc<Inner>,
    pub(super) ready: Arc<Ready>,
    pub(super) session: Session,
    pub(super) gathered: Gathered,
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

    async fn settle(self: Box<Self>, fates: &[Fate]) -> Result<Settled, StoreError> {
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
        if all_released {
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
        wait_for_the_disk(opened.tx.connection())
            .await
            .map_err(&failed)?;
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
    if !settlement.advances.is_empty() {
        let advance = bind_advances(query(&statements.advance), &opened, settlement);
        expect(inner, &mut opened, advance, members().count()).await?;
    }
    if !settlement.copies.is_empty() {
        let copy = bind_troubles(query(&statements.copy), &settlement.copies);
        expect(inner, &mut opened, copy, settlement.copies.len()).await?;
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
    // Under the groups' locks: another worker of this process must not take it for somebody else's.
    let company = &stream.company;
    company.wrote(members().map(|(progress, _)| progress));
    opened.tx.commit().await.map_err(&failed)
}

/// Under the groups' locks nobody else writes; if somebody did, this claim must leave no trace.
async fn expect(
    inner: &Inner,
    opened: &mut Opened,
    statement: PgQuery,
    rows: usize,
) -> Result<(), StoreError> {
    let failed = store_error("settle a claim", &inner.name());
    let done = statement
        .execute(opened.tx.connection())
        .await
        .map_err(&failed)?;
    if done.rows_affected() == rows as u64 {
        return Ok(());
    }
    Err(StoreError::Refused {
        action: "settle a claim",
        reason: format!(
            "{} of {rows} rows were found: somebody else has changed {} or its progress, and the claim is void",
            done.rows_affected(),
            inner.name()
        ),
        source: None,
    })
}

fn bind_advances(statement: PgQuery, opened: &Opened, settlement: &Settlement<'_>) -> PgQuery {
    let of: Vec<(&Progress, Reached)> = settlement
        .advances
        .iter()
        .flat_map(Advance::members)
        .collect();
    let each = |number: fn(&Progress) -> i64| -> Vec<i64> {
        of.iter().map(|(progress, _)| number(progress)).collect()
    };
    // A difference that is done becomes the start of the next one, whose end is not known yet.
    let since = of.iter().map(|(progress, to)| match to {
        Reached::End => progress.to.to_string(),
        Reached::Position(_) => progress.from.to_string(),
    });
    let since_low = of.iter().map(|(progress, to)| match to {
        Reached::End => progress.to_low,
        Reached::Position(_) => progress.from_low,
    });
    let upto = of.iter().map(|(progress, to)| match to {
        Reached::End => None,
        Reached::Position(_) => Some(progress.to.to_string()),
    });
    let positions = of.iter().map(|(_, to)| match to {
        Reached::End => 0,
        Reached::Position(position) => *position,
    });
    let groups = of.iter().map(|(progress, _)| progress.group);
    statement
        .bind(groups.collect::<Vec<_>>())
        .bind(each(|progress| progress.version))
        .bind(each(|progress| progress.epoch))
        .bind(positions.collect::<Vec<_>>())
        .bind(since.collect::<Vec<_>>())
        .bind(since_low.collect::<Vec<_>>())
        .bind(upto.collect::<Vec<_>>())
        .bind(each(|progress| progress.to_low))
        .bind(each(|progress| progress.to_high))
        .bind(opened.drawn)
        .bind(opened.here.system.clone())
        .bind(opened.here.timeline.clone())
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
