//! Records as an operator looks for them: by filter, page by page.

use async_trait::async_trait;
use postrider_core::layout::Identifier;
use postrider_core::{
    Cursor, Page, ParkedKey, Record, RecordFilter, RecordState, Records, StoreError, StoredRecord,
    Timestamp,
};
use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::bind::{self, Bound};
use super::error::store_error;
use super::outbox::Ready;
use super::rows::SqliteCells;
use super::{Inner, SqliteStore};
use crate::rows::Reader;
use crate::sql::cursor;
use crate::sql::dialect::SQLITE;
use crate::sql::statement::records::{Parameter, Question, stored};
use crate::sql::table::Kind;

const ACTION: &str = "look for records";

#[async_trait]
impl Records for SqliteStore {
    async fn find(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<StoredRecord>, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let from = inner.position(&ready, from)?;
        let writer = inner.options.writer(&ready.table, &SQLITE);
        let outbox = &ready.table.full_name;
        let question = writer.find(outbox, filter, from.as_deref(), one_more(limit));
        let rows = inner.ask(&ready, question).await?;
        let mut reader = Reader::new(&ready.statements.selection);
        let items: Result<Vec<StoredRecord>, sqlx::Error> = rows
            .iter()
            .map(|row| stored_record(&mut reader, row))
            .collect();
        inner.page(items, &rows, stored::ORDER, limit)
    }

    async fn read(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Record>, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let from = inner.position(&ready, from)?;
        let selection = &ready.statements.selection;
        let writer = inner.options.writer(&ready.table, &SQLITE);
        let outbox = &ready.table.full_name;
        let question = writer.read(selection, outbox, filter, from.as_deref(), one_more(limit));
        let rows = inner.ask(&ready, question).await?;
        let attempts = selection.columns.len();
        let mut reader = Reader::new(selection);
        let records = rows.iter().map(|row| {
            let mut record = reader.record(SqliteCells::new(row, selection))?;
            record.attempts = number(row, attempts)?.unwrap_or(0);
            Ok(record)
        });
        inner.page(records.collect(), &rows, attempts + 1, limit)
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let writer = inner.options.writer(&ready.table, &SQLITE);
        let question = writer.count(&ready.table.full_name, filter);
        let rows = inner.ask(&ready, question).await?;
        let count = rows.first().map(|row| number(row, 0)).transpose();
        let count = count.map_err(store_error(ACTION, &inner.name()))?;
        Ok(count.flatten().unwrap_or(0))
    }

    async fn parked(&self, limit: u32) -> Result<Vec<ParkedKey>, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let writer = inner.options.writer(&ready.table, &SQLITE);
        let Some(question) = writer.parked(&ready.table.full_name, limit) else {
            return Ok(Vec::new());
        };
        let rows = inner.ask(&ready, question).await?;
        let mut reader = Reader::new(&ready.statements.selection);
        let behind = stored::ORDER + inner.options.layout.order.len();
        let parked = rows.iter().map(|row| {
            let first = stored_record(&mut reader, row)?;
            Ok(ParkedKey {
                key: first.key.clone().unwrap_or_default(),
                first,
                behind: number(row, behind)?.unwrap_or(0),
            })
        });
        parked
            .collect::<Result<_, sqlx::Error>>()
            .map_err(store_error(ACTION, &inner.name()))
    }
}

impl Inner {
    /// SQLite compares whatever it is given, so what no column can hold is refused here.
    fn position(
        &self,
        ready: &Ready,
        from: Option<&Cursor>,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let Some(from) = from else {
            return Ok(None);
        };
        let order = &self.options.layout.order;
        let values = cursor::read(from, order.len())?;
        let fits = |(name, value): (&Identifier, &String)| match ready.table.kind(name) {
            Kind::Int | Kind::Time => value.parse::<i64>().is_ok(),
            _ => !value.contains('\0'),
        };
        if std::iter::zip(order, &values).all(fits) {
            return Ok(Some(values));
        }
        Err(StoreError::Unfit {
            action: "go on from there",
            reason: "the cursor is not one that a page of this outbox ended with".into(),
        })
    }

    async fn ask(&self, ready: &Ready, question: Question) -> Result<Vec<SqliteRow>, StoreError> {
        let failed = store_error(ACTION, &self.name());
        let mut asked = Bound::new(&question.text.into());
        for (number, parameter) in (1..).zip(question.parameters) {
            asked = match parameter {
                Parameter::Ids(ids) => asked.list(number, bind::ids(ready.id_kind, &ids)?),
                Parameter::Text(text) => asked.text(number, text),
                Parameter::Int(value) => asked.int(number, value),
            };
        }
        let mut connection = self.database.reader().await.map_err(&failed)?;
        let rows = asked.once().rows(&mut connection).await.map_err(&failed);
        self.forget_if_stale(rows).await
    }

    /// One page of what was read, and where the next begins if there was more.
    fn page<T>(
        &self,
        items: Result<Vec<T>, sqlx::Error>,
        rows: &[SqliteRow],
        order: usize,
        limit: u32,
    ) -> Result<Page<T>, StoreError> {
        let failed = store_error(ACTION, &self.name());
        let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        let mut items = items.map_err(&failed)?;
        let more = items.len() > limit;
        items.truncate(limit);
        let last = rows.get(limit - 1).filter(|_| more);
        let values = last.map(|row| {
            (order..order + self.options.layout.order.len())
                .map(|column| Ok(text(row, column)?.unwrap_or_default()))
                .collect::<Result<Vec<String>, sqlx::Error>>()
        });
        let values = values.transpose().map_err(&failed)?;
        Ok(Page {
            items,
            next: values.map(|values| cursor::write(&values)),
        })
    }
}

/// To see whether there is a next page.
fn one_more(limit: u32) -> u32 {
    limit.max(1).saturating_add(1)
}

/// Whatever a value is, as text.
fn text(row: &SqliteRow, position: usize) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get_unchecked(position)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// A number that is not negative and not too large; anything else is no number.
fn number<N: TryFrom<i64>>(row: &SqliteRow, position: usize) -> Result<Option<N>, sqlx::Error> {
    let number: Option<i64> = row.try_get_unchecked(position)?;
    Ok(number.and_then(|number| N::try_from(number).ok()))
}

fn stored_record(reader: &mut Reader<'_>, row: &SqliteRow) -> Result<StoredRecord, sqlx::Error> {
    let id = text(row, stored::ID)?.unwrap_or_default();
    let event_id = text(row, stored::EVENT_ID)?;
    let headers: Option<Vec<u8>> = row.try_get_unchecked(stored::HEADERS)?;
    let event_id = match (event_id, headers) {
        (Some(event_id), _) => Some(event_id.into()),
        (None, Some(headers)) => reader.event_id(&headers),
        (None, None) => None,
    };
    let state = text(row, stored::STATE)?.unwrap_or_default();
    let state = RecordState::ALL
        .into_iter()
        .find(|known| known.as_str() == state);
    let time = |position: usize| -> Result<Option<Timestamp>, sqlx::Error> {
        Ok(number(row, position)?.map(Timestamp::from_micros))
    };
    Ok(StoredRecord {
        event_id: event_id.unwrap_or_else(|| id.clone().into()),
        id: reader.id(id),
        event_type: text(row, stored::EVENT_TYPE)?,
        aggregate_type: text(row, stored::AGGREGATE_TYPE)?,
        aggregate_id: text(row, stored::AGGREGATE_ID)?,
        key: text(row, stored::KEY)?,
        topic: text(row, stored::TOPIC)?,
        state: state.unwrap_or(RecordState::Pending),
        attempts: number(row, stored::ATTEMPTS)?.unwrap_or(0),
        error: text(row, stored::ERROR)?,
        created_at: time(stored::CREATED_AT)?.unwrap_or(Timestamp::from_micros(0)),
        published_at: time(stored::PUBLISHED_AT)?,
        retry_at: time(stored::RETRY_AT)?,
        payload_bytes: number(row, stored::PAYLOAD_BYTES)?,
    })
}
