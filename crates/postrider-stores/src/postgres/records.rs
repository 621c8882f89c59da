//! Records as an operator looks for them. See [`catalogue`].

use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::{
    Cursor, Page, ParkedKey, Record, RecordFilter, Records, StoreError, StoredRecord, Timestamp,
};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::error::{code, store_error};
use super::ids::{IdList, PgQuery};
use super::outbox::{Ready, writer};
use super::tx::{OPERATOR_MAX, Tx, bounded};
use super::{Inner, PostgresStore, claim, rows};
use crate::catalogue::{self, ACTION, Answer, Catalogue, Rows};
use crate::sql::selection::Selection;
use crate::sql::statement::Writer;
use crate::sql::statement::records::{Parameter, Question};

#[async_trait]
impl Records for PostgresStore {
    async fn find(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<StoredRecord>, StoreError> {
        catalogue::find(&*self.inner, filter, from, limit).await
    }

    async fn read(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Record>, StoreError> {
        catalogue::read(&*self.inner, filter, from, limit).await
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, StoreError> {
        catalogue::count(&*self.inner, filter).await
    }

    async fn parked(&self, limit: u32) -> Result<Vec<ParkedKey>, StoreError> {
        catalogue::parked(&*self.inner, limit).await
    }
}

#[async_trait]
impl Catalogue for Inner {
    type Ready = Ready;
    type Row = PgRow;

    async fn known(&self) -> Result<Arc<Ready>, StoreError> {
        self.ready().await
    }

    fn writer<'a>(&'a self, ready: &'a Ready) -> Writer<'a> {
        writer(&self.options, &ready.table)
    }

    fn selection<'a>(&self, ready: &'a Ready) -> &'a Selection {
        &ready.statements.selection
    }

    async fn ask(&self, ready: &Ready, question: Question) -> Result<Rows<PgRow>, StoreError> {
        let mut asked: PgQuery = sqlx::query(AssertSqlSafe(question.text)).persistent(false);
        for parameter in question.parameters {
            asked = match parameter {
                Parameter::Ids(ids) => IdList::new(ready.id_kind, &ids)?.bind(asked),
                Parameter::Text(text) => asked.bind(text),
                Parameter::Int(number) => asked.bind(number),
            };
        }
        let rows = async {
            let (mut tx, _) = Tx::begin(&self.pool, bounded(OPERATOR_MAX).into()).await?;
            let rows = Rows::collect(asked.fetch(tx.connection()), size).await?;
            tx.commit().await?;
            Ok(rows)
        };
        let rows: Result<_, sqlx::Error> = rows.await;
        let rows = rows.map_err(|error| match code(&error) {
            // A value that its column's type cannot have, or text that no text can be.
            Some(code) if code.starts_with("22") => StoreError::Unfit {
                action: ACTION,
                reason: "a value that was asked for does not fit its column".into(),
            },
            _ => self.failed(error),
        });
        self.forget_if_stale(rows).await
    }

    async fn records(&self, ready: &Ready, rows: &[PgRow]) -> Result<Vec<Record>, StoreError> {
        self.forget_if_stale(claim::records(self, ready, rows))
            .await
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        store_error(ACTION, &self.name())(error)
    }
}

impl Answer for PgRow {
    fn text(&self, position: usize) -> Result<Option<String>, sqlx::Error> {
        self.try_get(position)
    }

    fn int(&self, position: usize) -> Result<Option<i64>, sqlx::Error> {
        self.try_get(position)
    }

    fn bytes(&self, position: usize) -> Result<Option<Vec<u8>>, sqlx::Error> {
        // NULL is the one thing that has no bytes.
        Ok(self.try_get_raw(position)?.as_bytes().ok().map(Into::into))
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, sqlx::Error> {
        let micros: Option<i64> = self.try_get_unchecked(position)?;
        Ok(micros.map(rows::time))
    }
}

fn size(row: &PgRow) -> usize {
    let bytes = |column| Some(row.try_get_raw(column).ok()?.as_bytes().ok()?.len());
    (0..row.len()).filter_map(bytes).sum()
}
