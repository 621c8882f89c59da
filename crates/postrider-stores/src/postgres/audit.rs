//! The audit table: who did what to an outbox, and when.

use async_trait::async_trait;
use postrider_core::{Act, Actor, Audit, Audited, RecordId, StoreError};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::error::{code, store_error};
use super::outbox::{Ready, query};
use super::rows;
use super::tx::{OPERATOR_MAX, Tx, bounded};
use super::{Inner, PostgresStore};
use crate::entry::{Entry, audited_id};
use crate::rows::Reader;
use crate::sql::statement::audit_table;

#[async_trait]
impl Audit for PostgresStore {
    async fn note(&self, by: &Actor, act: &Act) -> Result<(), StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let entry = Entry::new(by, act, &ready.table.full_name);
        let record = act.record.as_ref().map(audited_id);
        let note = query(&ready.statements.audit.note)
            .bind(entry.who)
            .bind(entry.action)
            .bind(entry.outbox)
            .bind(entry.detail)
            .bind(record);
        let noted = async {
            let (mut tx, _) = Tx::begin(&inner.pool, bounded(OPERATOR_MAX).into()).await?;
            note.execute(tx.connection()).await?;
            tx.commit().await
        };
        noted
            .await
            .map_err(|error| inner.unaudited("write down who did it", error))
    }

    async fn audited(
        &self,
        record: Option<&RecordId>,
        limit: u32,
    ) -> Result<Vec<Audited>, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let audit = &ready.statements.audit;
        let outbox = ready.table.full_name.clone();
        let read = match record {
            None => query(&audit.read).bind(outbox).bind(i64::from(limit)),
            Some(record) => query(&audit.read_of_record)
                .bind(outbox)
                .bind(i64::from(limit))
                .bind(audited_id(record)),
        };
        let rows = async {
            let (mut tx, _) = Tx::begin(&inner.pool, bounded(OPERATOR_MAX).into()).await?;
            let rows = read.fetch_all(tx.connection()).await?;
            tx.commit().await?;
            Ok(rows)
        };
        let rows: Result<_, sqlx::Error> = rows.await;
        let rows = rows.map_err(|error| inner.unaudited("read the audit", error))?;
        let reader = Reader::new(&ready.statements.selection);
        rows.iter()
            .map(|row| audited(&reader, row))
            .collect::<Result<_, _>>()
            .map_err(store_error("read the audit", &inner.name()))
    }
}

impl Inner {
    /// A row for each of the records.
    pub(super) async fn write_audit(
        &self,
        ready: &Ready,
        tx: &mut Tx,
        action: &'static str,
        entry: Entry,
        records: &[RecordId],
    ) -> Result<(), StoreError> {
        let ids: Vec<String> = records.iter().map(ToString::to_string).collect();
        let write = query(&ready.statements.audit.write)
            .bind(entry.who)
            .bind(entry.action)
            .bind(entry.outbox)
            .bind(entry.detail)
            .bind(ids);
        let written = write.execute(tx.connection()).await;
        written
            .map(drop)
            .map_err(|error| self.unaudited(action, error))
    }

    /// Why nothing could be written to or read from the audit table.
    fn unaudited(&self, action: &'static str, error: sqlx::Error) -> StoreError {
        let table = audit_table(&self.options.layout.table);
        let remedy = match code(&error).as_deref() {
            Some("42P01") => "does not exist; `postrider init` creates it".to_owned(),
            Some("42501") => "may not be used; `postrider check` prints the GRANT".to_owned(),
            _ => return store_error(action, &table.to_string())(error),
        };
        StoreError::Refused {
            action,
            reason: format!("every change is written down in table {table}, which {remedy}"),
            source: Some(error.into()),
        }
    }
}

fn audited(reader: &Reader<'_>, row: &PgRow) -> Result<Audited, sqlx::Error> {
    let at: i64 = row.try_get_unchecked(0)?;
    let record: Option<String> = row.try_get(3)?;
    Ok(Audited {
        at: rows::time(at),
        by: Actor(row.try_get(1)?),
        act: Act {
            action: row.try_get(2)?,
            record: record.map(|record| reader.id(record)),
            detail: row.try_get(4)?,
        },
    })
}
