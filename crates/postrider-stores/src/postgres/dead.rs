//! Dead records, resent or discarded. Who did it is written down in the same transaction.

use async_trait::async_trait;
use postrider_core::{Act, Actor, DeadLetters, RecordId, StoreError};
use sqlx::Row as _;

use super::error::store_error;
use super::ids::IdList;
use super::outbox::{Ready, query};
use super::tx::{OPERATOR_MAX, Tx, bounded};
use super::{Inner, PostgresStore};
use crate::entry::Entry;
use crate::sql::statement::Change;

#[async_trait]
impl DeadLetters for PostgresStore {
    async fn resend(&self, ids: &[RecordId], by: &Actor) -> Result<u64, StoreError> {
        let ready = self.inner.ready().await?;
        let change = &ready.statements.dead.resend;
        let action = ("resend dead records", "resend");
        self.inner
            .change_dead(&ready, change, action, ids, by)
            .await
    }

    async fn discard(&self, ids: &[RecordId], by: &Actor) -> Result<u64, StoreError> {
        let ready = self.inner.ready().await?;
        let change = &ready.statements.dead.discard;
        let action = ("discard dead records", "discard");
        self.inner
            .change_dead(&ready, change, action, ids, by)
            .await
    }
}

impl Inner {
    async fn change_dead(
        &self,
        ready: &Ready,
        change: &Change,
        (action, word): (&'static str, &str),
        ids: &[RecordId],
        by: &Actor,
    ) -> Result<u64, StoreError> {
        let failed = store_error(action, &self.name());
        let begun = Tx::begin(&self.pool, bounded(OPERATOR_MAX).into()).await;
        let (mut tx, _) = begun.map_err(&failed)?;
        let changed = async {
            let locked = self
                .dead_among(ready, &ready.statements.dead.lock, &mut tx, ids)
                .await?;
            // Whoever was waited for may have changed them.
            let dead = self
                .dead_among(ready, &ready.statements.dead.find, &mut tx, &locked)
                .await?;
            if dead.is_empty() {
                return Ok(0);
            }
            let act = Act {
                action: word.into(),
                record: None,
                detail: None,
            };
            let entry = Entry::new(by, &act, &ready.table.full_name);
            self.write_audit(ready, &mut tx, action, entry, &dead)
                .await?;
            self.write_change(ready, &mut tx, action, change, &dead)
                .await?;
            Ok(dead.len() as u64)
        };
        let changed = self.forget_if_stale(changed.await).await;
        match changed {
            Ok(0) | Err(_) => tx.rollback().await.map_err(&failed)?,
            Ok(_) => tx.commit().await.map_err(&failed)?,
        }
        changed
    }

    async fn dead_among(
        &self,
        ready: &Ready,
        statement: &std::sync::Arc<str>,
        tx: &mut Tx,
        ids: &[RecordId],
    ) -> Result<Vec<RecordId>, StoreError> {
        let failed = store_error("find dead records", &self.name());
        let mut find = IdList::new(ready.id_kind, ids)?.bind(query(statement));
        if self.options.layout.needs_troubles() {
            find = find.bind(ready.table.full_name.clone());
        }
        let rows = find.fetch_all(tx.connection()).await.map_err(&failed)?;
        let id =
            |row: &sqlx::postgres::PgRow| Ok(RecordId::Text(row.try_get::<String, _>(0)?.into()));
        rows.iter()
            .map(id)
            .collect::<Result<_, sqlx::Error>>()
            .map_err(&failed)
    }

    async fn write_change(
        &self,
        ready: &Ready,
        tx: &mut Tx,
        action: &'static str,
        change: &Change,
        dead: &[RecordId],
    ) -> Result<(), StoreError> {
        let failed = store_error(action, &self.name());
        if let Some(outbox) = &change.outbox {
            let outbox = IdList::new(ready.id_kind, dead)?.bind(query(outbox));
            outbox.execute(tx.connection()).await.map_err(&failed)?;
        }
        if let Some(troubles) = &change.troubles {
            let ids: Vec<String> = dead.iter().map(ToString::to_string).collect();
            let troubles = query(troubles)
                .bind(ready.table.full_name.clone())
                .bind(ids);
            troubles.execute(tx.connection()).await.map_err(&failed)?;
        }
        Ok(())
    }
}
