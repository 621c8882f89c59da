//! Records as an operator looks for them: by filter, page by page.

use async_trait::async_trait;
use postrider_core::{
    Cursor, Page, ParkedKey, Record, RecordFilter, RecordState, Records, StoreError, StoredRecord,
    Timestamp,
};
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::claim::records;
use super::error::{code, store_error};
use super::ids::{IdList, PgQuery};
use super::outbox::{Ready, writer};
use super::rows;
use super::{Inner, PostgresStore};
use crate::rows::Reader;
use crate::sql::cursor;
use crate::sql::statement::records::{Parameter, Question, stored};

const ACTION: &str = "look for records";

#[async_trait]
impl Records for PostgresStore {
    async fn find(
        &self,
        filter: &RecordFilter,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<StoredRecord>, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let from = inner.position(from)?;
        let question = writer(&inner.options, &ready.table).find(
            &ready.table.full_name,
            filter,
            from.as_deref(),
            one_more(limit),
        );
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
        let from = inner.position(from)?;
        let selection = &ready.statements.selection;
        let question = writer(&inner.options, &ready.table).read(
            selection,
            &ready.table.full_name,
            filter,
            from.as_deref(),
            one_more(limit),
        );
        let rows = inner.ask(&ready, question).await?;
        let records = inner.forget_if_stale(records(inner, &ready, &rows)).await?;
        let attempts = selection.columns.len();
        let records = std::iter::zip(records, &rows).map(|(mut record, row)| {
            record.attempts = u32::try_from(row.try_get::<i64, _>(attempts)?).unwrap_or(0);
            Ok(record)
        });
        inner.page(records.collect(), &rows, attempts + 1, limit)
    }

    async fn count(&self, filter: &RecordFilter) -> Result<u64, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let question = writer(&inner.options, &ready.table).count(&ready.table.full_name, filter);
        let rows = inner.ask(&ready, question).await?;
        let count: Option<i64> = rows
            .first()
            .map(|row| row.try_get(0))
            .transpose()
            .map_err(store_error(ACTION, &inner.name()))?;
        Ok(u64::try_from(count.unwrap_or(0)).unwrap_or(0))
    }

    async fn parked(&self, limit: u32) -> Result<Vec<ParkedKey>, StoreError> {
        let inner = &*self.inner;
        let ready = inner.ready().await?;
        let writer = writer(&inner.options, &ready.table);
        let Some(question) = writer.parked(&ready.table.full_name, limit) else {
            return Ok(Vec::new());
        };
        let rows = inner.ask(&ready, question).await?;
        let mut reader = Reader::new(&ready.statements.selection);
        let behind = stored::ORDER + inner.options.layout.order.len();
        let parked = rows.iter().map(|row| {
            let first = stored_record(&mut reader, row)?;
            let behind: i64 = row.try_get(behind)?;
            Ok(ParkedKey {
                key: first.key.clone().unwrap_or_default(),
                first,
                behind: u64::try_from(behind).unwrap_or(0),
            })
        });
        parked
            .collect::<Result<_, sqlx::Error>>()
            .map_err(store_error(ACTION, &inner.name()))
    }
}

impl Inner {
    fn position(&self, from: Option<&Cursor>) -> Result<Option<Vec<String>>, StoreError> {
        let columns = self.options.layout.order.len();
        from.map(|from| cursor::read(from, columns)).transpose()
    }

    async fn ask(&self, ready: &Ready, question: Question) -> Result<Vec<PgRow>, StoreError> {
        let mut asked: PgQuery = sqlx::query(AssertSqlSafe(question.text)).persistent(false);
        for parameter in question.parameters {
            asked = match parameter {
                Parameter::Ids(ids) => IdList::new(ready.id_kind, &ids)?.bind(asked),
                Parameter::Text(text) => asked.bind(text),
                Parameter::Int(number) => asked.bind(number),
            };
        }
        let rows = asked.fetch_all(&self.pool).await;
        let rows = rows.map_err(|error| match code(&error) {
            // A value that its column's type cannot have, or text that no text can be.
            Some(code) if code.starts_with("22") => StoreError::Unfit {
                action: ACTION,
                reason: "a value that was asked for does not fit its column".into(),
            },
            _ => store_error(ACTION, &self.name())(error),
        });
        self.forget_if_stale(rows).await
    }

    /// One page of what was read, and where the next begins if there was more.
    fn page<T>(
        &self,
        items: Result<Vec<T>, sqlx::Error>,
        rows: &[PgRow],
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
            let columns = order..order + self.options.layout.order.len();
            let value = |column| row.try_get::<Option<String>, _>(column);
            columns
                .map(|column| value(column).map(Option::unwrap_or_default))
                .collect::<Result<Vec<String>, _>>()
        });
        let next = values
            .transpose()
            .map_err(&failed)?
            .map(|values| cursor::write(&values));
        Ok(Page { items, next })
    }
}

/// To see whether there is a next page.
fn one_more(limit: u32) -> u32 {
    limit.max(1).saturating_add(1)
}

fn stored_record(reader: &mut Reader<'_>, row: &PgRow) -> Result<StoredRecord, sqlx::Error> {
    let id: String = row.try_get(stored::ID)?;
    let event_id: Option<String> = row.try_get(stored::EVENT_ID)?;
    let headers = row.try_get_raw(stored::HEADERS)?.as_bytes().ok();
    let event_id = match (event_id, headers) {
        (Some(event_id), _) => Some(event_id.into()),
        (None, Some(headers)) => reader.event_id(headers),
        (None, None) => None,
    };
    let state: &str = row.try_get(stored::STATE)?;
    let state = RecordState::ALL
        .into_iter()
        .find(|known| known.as_str() == state);
    let attempts: i64 = row.try_get(stored::ATTEMPTS)?;
    let payload_bytes: Option<i64> = row.try_get(stored::PAYLOAD_BYTES)?;
    let time = |position: usize| -> Result<Option<Timestamp>, sqlx::Error> {
        let micros: Option<i64> = row.try_get_unchecked(position)?;
        Ok(micros.map(rows::time))
    };
    Ok(StoredRecord {
        event_id: event_id.unwrap_or_else(|| id.clone().into()),
        id: reader.id(id),
        event_type: row.try_get(stored::EVENT_TYPE)?,
        aggregate_type: row.try_get(stored::AGGREGATE_TYPE)?,
        aggregate_id: row.try_get(stored::AGGREGATE_ID)?,
        key: row.try_get(stored::KEY)?,
        topic: row.try_get(stored::TOPIC)?,
        state: state.unwrap_or(RecordState::Pending),
        attempts: u32::try_from(attempts).unwrap_or(0),
        error: row.try_get(stored::ERROR)?,
        created_at: time(stored::CREATED_AT)?.unwrap_or(Timestamp::from_micros(0)),
        published_at: time(stored::PUBLISHED_AT)?,
        retry_at: time(stored::RETRY_AT)?,
        payload_bytes: payload_bytes.and_then(|bytes| u64::try_from(bytes).ok()),
    })
}
