//! The audit table: who did what to an outbox, and when.

use async_trait::async_trait;
use postrider_core::{Act, Actor, Audit, Audited, RecordId, StoreError, Timestamp};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::bind::Bound;
use super::error::store_error;
use super::outbox::Ready;
use super::tx::Tx;
use super::{Inner, SqliteStore};
use crate::entry::{Entry, audited_id};
use crate::rows::Reader;
use crate::sql::statement::audit_table;
use crate::structure::is_stale;

#[async_trait]
impl Audit for SqliteStore {
    async fn note(&self, by: &Actor, act: &Act) -> Result<(), StoreError> {
        const ACTION: &str = "write down who did it";
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let mut note = entered(
            Bound::new(&ready.statements.audit.note),
            Entry::new(by, act, &ready.table.full_name),
        );
        if let Some(record) = &act.record {
            note = note.text(5, audited_id(record));
        }
        let mut tx = inner.database.begin_to(ACTION).await?;
        let noted = note.execute(&mut tx).await;
        noted.map_err(|error| inner.unaudited(ACTION, error))?;
        tx.commit()
            .await
            .map_err(store_error(ACTION, &inner.name()))
    }

    async fn audited(
        &self,
        record: Option<&RecordId>,
        limit: u32,
    ) -> Result<Vec<Audited>, StoreError> {
        const ACTION: &str = "read the audit";
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let failed = store_error(ACTION, &inner.name());
        let audit = &ready.statements.audit;
        let read = match record {
            None => Bound::new(&audit.read),
            Some(record) => Bound::new(&audit.read_of_record).text(3, audited_id(record)),
        };
        let read = read
            .text(1, ready.table.full_name.clone())
            .int(2, i64::from(limit));
        let mut connection = inner.database.reader().await.map_err(&failed)?;
        let rows = read.rows(&mut connection).await;
        let rows = rows.map_err(|error| inner.unaudited(ACTION, error))?;
        let reader = Reader::new(&ready.statements.selection);
        rows.iter()
            .map(|row| audited(&reader, row))
            .collect::<Result<_, _>>()
            .map_err(&failed)
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
        let write = entered(Bound::new(&ready.statements.audit.write), entry).texts(5, records);
        let written = write.execute(tx).await;
        written
            .map(drop)
            .map_err(|error| self.unaudited(action, error))
    }

    /// Why nothing could be written to or read from the audit table.
    fn unaudited(&self, action: &'static str, error: sqlx::Error) -> StoreError {
        let table = audit_table(&self.options.layout.table);
        let failed = store_error(action, &table.to_string())(error);
        if !is_stale(&failed) {
            return failed;
        }
        StoreError::Refused {
            action,
            reason: format!(
                "every change is written down in table {table}, which does not exist; `postrider init` creates it"
            ),
            source: Some(failed.into()),
        }
    }
}

fn entered(statement: Bound, entry: Entry) -> Bound {
    let statement = statement
        .text(1, entry.who)
        .text(2, entry.action)
        .text(3, entry.outbox);
    match entry.detail {
        Some(detail) => statement.text(4, detail),
        None => statement,
    }
}

fn audited(reader: &Reader<'_>, row: &SqliteRow) -> Result<Audited, sqlx::Error> {
    let at: i64 = row.try_get_unchecked(0)?;
    let record: Option<String> = row.try_get(3)?;
    Ok(Audited {
        at: Timestamp::from_micros(at),
        by: Actor(row.try_get(1)?),
        act: Act {
            action: row.try_get(2)?,
            record: record.map(|id| reader.id(id)),
            detail: row.try_get(4)?,
        },
    })
}
