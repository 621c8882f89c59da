//! Dead records: seen, resent, discarded.

use async_trait::async_trait;
use postrider_core::{DeadFilter, DeadLetters, DeadRecord, RecordId, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::error::store_error;
use super::ids::{IdList, PgQuery};
use super::outbox::{Ready, query};
use super::{Inner, PostgresStore, rows};
use crate::sql::table::Kind;

#[async_trait]
impl DeadLetters for PostgresStore {
    async fn list(&self, filter: &DeadFilter, limit: u32) -> Result<Vec<DeadRecord>, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let failed = store_error("list dead records", &inner.name());
        let mut list = query(&ready.statements.dead.list).bind(i64::from(limit));
        list = if filter.ids.is_empty() {
            IdList::bind_none(ready.id_kind, list)
        } else {
            IdList::new(ready.id_kind, &filter.ids)?.bind(list)
        };
        list = list
            .bind(filter.event_type.clone())
            .bind(filter.key.clone());
        let rows = inner.with_outbox(&ready, list).fetch_all(&inner.pool).await;
        let rows = inner.forget_if_stale(rows.map_err(&failed)).await?;
        rows.iter()
            .map(|row| dead_record(row, ready.id_kind))
            .collect::<Result<_, _>>()
            .map_err(&failed)
    }

    async fn resend(&self, ids: &[RecordId]) -> Result<u64, StoreError> {
        let ready = self.inner.ready().await?;
        let resend = query(&ready.statements.dead.resend);
        self.inner
            .change(&ready, "resend dead records", resend, ids)
            .await
    }

    async fn discard(&self, ids: &[RecordId]) -> Result<u64, StoreError> {
        let ready = self.inner.ready().await?;
        let discard = query(&ready.statements.dead.discard);
        self.inner
            .change(&ready, "discard dead records", discard, ids)
            .await
    }
}

impl Inner {
    async fn change(
        &self,
        ready: &Ready,
        action: &'static str,
        statement: PgQuery,
        ids: &[RecordId],
    ) -> Result<u64, StoreError> {
        let statement = IdList::new(ready.id_kind, ids)?.bind(statement);
        let done = self.with_outbox(ready, statement).execute(&self.pool).await;
        let done = done.map_err(store_error(action, &self.name()));
        Ok(self.forget_if_stale(done).await?.rows_affected())
    }

    /// Where troubles are kept aside, the statement's last parameter says whose.
    fn with_outbox(&self, ready: &Ready, statement: PgQuery) -> PgQuery {
        if self.options.layout.needs_troubles() {
            statement.bind(ready.table.full_name.clone())
        } else {
            statement
        }
    }
}

fn dead_record(row: &PgRow, id_kind: Kind) -> Result<DeadRecord, sqlx::Error> {
    let id: String = row.try_get(0)?;
    let attempts: i64 = row.try_get(4)?;
    let created_at: Option<i64> = row.try_get_unchecked(6)?;
    let text = RecordId::Text(id.clone().into());
    Ok(DeadRecord {
        id: match id_kind {
            Kind::Uuid => id.parse().map_or(text, RecordId::Uuid),
            Kind::Int => id.parse().map_or(text, RecordId::Int),
            _ => text,
        },
        event_type: row.try_get(1)?,
        key: row.try_get(2)?,
        topic: row.try_get(3)?,
        attempts: u32::try_from(attempts).unwrap_or(0),
        error: row.try_get(5)?,
        created_at: rows::time(created_at.unwrap_or(0)),
    })
}
