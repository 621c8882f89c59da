//! Records as an operator looks for them. See [`catalogue`].

use std::sync::Arc;

use async_trait::async_trait;
use postrider_core::layout::Identifier;
use postrider_core::{
    Cursor, Page, ParkedKey, Record, RecordFilter, Records, StoreError, StoredRecord, Timestamp,
};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::bind::{self, Bound};
use super::error::store_error;
use super::outbox::Ready;
use super::rows::SqliteCells;
use super::{Inner, SqliteStore};
use crate::catalogue::{self, ACTION, Answer, Catalogue, Rows};
use crate::rows::Reader;
use crate::sql::dialect::SQLITE;
use crate::sql::selection::Selection;
use crate::sql::statement::Writer;
use crate::sql::statement::records::{Parameter, Question};
use crate::sql::table::Kind;

#[async_trait]
impl Records for SqliteStore {
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
    type Row = SqliteRow;

    async fn known(&self) -> Result<Arc<Ready>, StoreError> {
        self.ready().await
    }

    fn writer<'a>(&'a self, ready: &'a Ready) -> Writer<'a> {
        self.options.writer(&ready.table, &SQLITE)
    }

    fn selection<'a>(&self, ready: &'a Ready) -> &'a Selection {
        &ready.statements.selection
    }

    async fn ask(&self, ready: &Ready, question: Question) -> Result<Rows<SqliteRow>, StoreError> {
        let mut asked = Bound::new(&question.text.into());
        for (number, parameter) in (1..).zip(question.parameters) {
            asked = match parameter {
                Parameter::Ids(ids) => asked.list(number, bind::ids(ready.id_kind, &ids)?),
                Parameter::Text(text) => asked.text(number, text),
                Parameter::Int(value) => asked.int(number, value),
            };
        }
        let connection = self.database.reader().await;
        let mut connection = connection.map_err(|error| self.failed(error))?;
        let rows = match asked.once().query() {
            Ok(query) => Rows::collect(query.fetch(&mut *connection), size).await,
            Err(error) => Err(error),
        };
        self.forget_if_stale(rows.map_err(|error| self.failed(error)))
            .await
    }

    async fn records(&self, ready: &Ready, rows: &[SqliteRow]) -> Result<Vec<Record>, StoreError> {
        let selection = &ready.statements.selection;
        let mut reader = Reader::new(selection);
        let records = rows
            .iter()
            .map(|row| reader.record(SqliteCells::new(row, selection)));
        let records = records.collect::<Result<_, _>>();
        records.map_err(|error| self.failed(error))
    }

    /// SQLite compares whatever it is given, so what no column can hold is refused here.
    fn may_be_position(&self, ready: &Ready, values: &[String]) -> bool {
        let fits = |(name, value): (&Identifier, &String)| match ready.table.kind(name) {
            Kind::Int | Kind::Time => value.parse::<i64>().is_ok(),
            _ => !value.contains('\0'),
        };
        std::iter::zip(&self.options.layout.order, values).all(fits)
    }

    fn failed(&self, error: sqlx::Error) -> StoreError {
        store_error(ACTION, &self.name())(error)
    }
}

impl Answer for SqliteRow {
    /// Whatever a value is, as text.
    fn text(&self, position: usize) -> Result<Option<String>, sqlx::Error> {
        let bytes = self.bytes(position)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn int(&self, position: usize) -> Result<Option<i64>, sqlx::Error> {
        self.try_get_unchecked(position)
    }

    fn bytes(&self, position: usize) -> Result<Option<Vec<u8>>, sqlx::Error> {
        self.try_get_unchecked(position)
    }

    fn time(&self, position: usize) -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(self.int(position)?.map(Timestamp::from_micros))
    }
}

/// A copy, because the driver lends a value as bytes or as text once only.
fn size(row: &SqliteRow) -> usize {
    let bytes = |column| {
        let value: Option<Vec<u8>> = row.try_get_unchecked(column).ok()?;
        value.map(|value| value.len())
    };
    (0..row.len()).filter_map(bytes).sum()
}
