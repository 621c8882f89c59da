//! Dead records, resent or discarded. Who did it is written down in the same transaction.

use async_trait::async_trait;
use postrider_core::{Act, Actor, DeadLetters, RecordId, StoreError};
use sqlx::Row as _;

use super::bind::{self, Bound};
use super::error::store_error;
use super::outbox::Ready;
use super::tx::Tx;
use super::{Inner, SqliteStore};
use crate::entry::Entry;
use crate::sql::statement::Change;

#[async_trait]
impl DeadLetters for SqliteStore {
    async fn resend(&self, ids: &[RecordId], by: &Actor) -> Result<u64, StoreError> {
        let ready = self.inner.ready().await?;
        let change = &ready.statements.dead.resend;
        let action = ("resend dead records", "resend");
        let changed = self.inner.change_dead(&ready, change, action, ids, by);
        self.inner.forget_if_stale(changed.await).await
    }

    async fn discard(&self, ids: &[RecordId], by: &Actor) -> Result<u64, StoreError> {
        let ready = self.inner.ready().await?;
        let change = &ready.statements.dead.discard;
        let action = ("discard dead records", "discard");
        let changed = self.inner.change_dead(&ready, change, action, ids, by);
        self.inner.forget_if_stale(changed.await).await
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
        let mut tx = self.database.begin_to(action).await?;
        let dead = self.dead_among(ready, &mut tx, ids).await?;
        if dead.is_empty() {
            tx.rollback().await.map_err(&failed)?;
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
        if let Some(outbox) = &change.outbox {
            let outbox = Bound::new(outbox).list(1, bind::ids(ready.id_kind, &dead)?);
            outbox.execute(&mut tx).await.map_err(&failed)?;
        }
        if let Some(troubles) = &change.troubles {
            let troubles = Bound::new(troubles)
                .text(1, ready.table.full_name.clone())
                .texts(2, &dead);
            troubles.execute(&mut tx).await.map_err(&failed)?;
        }
        tx.commit().await.map_err(&failed)?;
        Ok(dead.len() as u64)
    }

    async fn dead_among(
        &self,
        ready: &Ready,
        tx: &mut Tx,
        ids: &[RecordId],
    ) -> Result<Vec<RecordId>, StoreError> {
        let failed = store_error("find dead records", &self.name());
        let find = Bound::new(&ready.statements.dead.find).list(1, bind::ids(ready.id_kind, ids)?);
        let find = self.with_outbox(ready, 2, find);
        let rows = find.rows(tx).await.map_err(&failed)?;
        rows.iter()
            .map(|row| Ok(RecordId::Text(row.try_get::<String, _>(0)?.into())))
            .collect::<Result<_, sqlx::Error>>()
            .map_err(&failed)
    }
}
