//! Records as an operator looks for them, whatever the database: by filter, page by page.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use futures::{Stream, TryStreamExt as _};
use postrider_core::{
    Cursor, Page, ParkedKey, Record, RecordFilter, RecordState, StoreError, StoredRecord, Timestamp,
};

use crate::rows::Reader;
use crate::sql::cursor;
use crate::sql::selection::Selection;
use crate::sql::statement::Writer;
use crate::sql::statement::records::{Question, stored};

pub(crate) const ACTION: &str = "look for records";

/// A page ends early where its rows have more bytes than this in all. One row may have more.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// The rows of an answer, and whether there were more than may be kept in memory. Then the last is only to be seen to
/// exist.
pub(crate) struct Rows<R> {
    pub(crate) rows: Vec<R>,
    is_cut: bool,
}

impl<R> Rows<R> {
    pub(crate) async fn collect(
        mut answer: impl Stream<Item = Result<R, sqlx::Error>> + Unpin,
        size: impl Fn(&R) -> usize,
    ) -> Result<Self, sqlx::Error> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = answer.try_next().await? {
            bytes += size(&row);
            rows.push(row);
            if bytes > PAGE_BYTES_MAX && rows.len() > 1 {
                return Ok(Self { rows, is_cut: true });
            }
        }
        let is_cut = false;
        Ok(Self { rows, is_cut })
    }

    /// How many of them a page may have.
    fn limit(&self, limit: u32) -> u32 {
        let kept = u32::try_from(self.rows.len().saturating_sub(1)).unwrap_or(u32::MAX);
        if self.is_cut { limit.min(kept) } else { limit }
    }
}

/// A row of an answer, by the positions of its values.
pub(crate) trait Answer: Send + Sync {
    fn text(&self, position: usize) -> Result<Option<String>, sqlx::Error>;
    fn int(&self, position: usize) -> Result<Option<i64>, sqlx::Error>;
    fn bytes(&self, position: usize) -> Result<Option<Vec<u8>>, sqlx::Error>;
    fn time(&self, position: usize) -> Result<Option<Timestamp>, sqlx::Error>;
}

/// An outbox that can be asked about its records.
#[async_trait]
pub(crate) trait Catalogue: Sync {
    /// What was read of the table.
    type Ready: Send + Sync;
    type Row: Answer;

    async fn known(&self) -> Result<Arc<Self::Ready>, StoreError>;
    fn writer<'a>(&'a self, ready: &'a Self::Ready) -> Writer<'a>;
    fn selection<'a>(&self, ready: &'a Self::Ready) -> &'a Selection;

    async fn ask(
        &self,
        ready: &Self::Ready,
        question: Question,
    ) -> Result<Rows<Self::Row>, StoreError>;

    /// Whole records, from rows that begin with the selection.
    async fn records(
        &self,
        ready: &Self::Ready,
        rows: &[Self::Row],
    ) -> Result<Vec<Record>, StoreError>;

    /// Whether the order columns can have these values. A database that says so itself need not be asked.
    fn may_be_position(&self, _: &Self::Ready, _: &[String]) -> bool {
        true
    }

    fn failed(&self, error: sqlx::Error) -> StoreError;
}

/// One page of records without their payloads.
pub(crate) async fn find<C: Catalogue>(
    catalogue: &C,
    filter: &RecordFilter,
    from: Option<&Cursor>,
    limit: u32,
) -> Result<Page<StoredRecord>, StoreError> {
    let ready = catalogue.known().await?;
    let writer = catalogue.writer(&ready);
    let from = position(catalogue, &ready, from)?;
    let outbox = &writer.table.full_name;
    let question = writer.find(outbox, filter, from.as_deref(), one_more(limit));
    let answer = catalogue.ask(&ready, question).await?;
    let (limit, rows) = (answer.limit(limit), answer.rows);
    let mut reader = Reader::new(catalogue.selection(&ready));
    let items = rows.iter().map(|row| stored_record(&mut reader, row));
    let items = items.collect::<Result<_, _>>();
    let items = items.map_err(|error| catalogue.failed(error))?;
    let order = stored::ORDER..stored::ORDER + writer.layout.order.len();
    page(catalogue, items, &rows, order, limit)
}

/// One page of whole records.
pub(crate) async fn read<C: Catalogue>(
    catalogue: &C,
    filter: &RecordFilter,
    from: Option<&Cursor>,
    limit: u32,
) -> Result<Page<Record>, StoreError> {
    let ready = catalogue.known().await?;
    let writer = catalogue.writer(&ready);
    let from = position(catalogue, &ready, from)?;
    let (outbox, selection) = (&writer.table.full_name, catalogue.selection(&ready));
    let question = writer.read(selection, outbox, filter, from.as_deref(), one_more(limit));
    let answer = catalogue.ask(&ready, question).await?;
    let (limit, rows) = (answer.limit(limit), answer.rows);
    let mut records = catalogue.records(&ready, &rows).await?;
    let attempts = selection.columns.len();
    for (record, row) in std::iter::zip(&mut records, &rows) {
        let found = number(row, attempts).map_err(|error| catalogue.failed(error))?;
        record.attempts = found.unwrap_or(0);
    }
    let order = attempts + 1..attempts + 1 + writer.layout.order.len();
    page(catalogue, records, &rows, order, limit)
}

pub(crate) async fn count<C: Catalogue>(
    catalogue: &C,
    filter: &RecordFilter,
) -> Result<u64, StoreError> {
    let ready = catalogue.known().await?;
    let writer = catalogue.writer(&ready);
    let question = writer.count(&writer.table.full_name, filter);
    let rows = catalogue.ask(&ready, question).await?.rows;
    let count = rows.first().map(|row| number(row, 0)).transpose();
    let count = count.map_err(|error| catalogue.failed(error))?;
    Ok(count.flatten().unwrap_or(0))
}

/// Keys that are held up, each with its first record.
pub(crate) async fn parked<C: Catalogue>(
    catalogue: &C,
    limit: u32,
) -> Result<Vec<ParkedKey>, StoreError> {
    let ready = catalogue.known().await?;
    let writer = catalogue.writer(&ready);
    let Some(question) = writer.parked(&writer.table.full_name, limit) else {
        return Ok(Vec::new());
    };
    let rows = catalogue.ask(&ready, question).await?.rows;
    let mut reader = Reader::new(catalogue.selection(&ready));
    let behind = stored::ORDER + writer.layout.order.len();
    let parked = rows.iter().map(|row| {
        let first = stored_record(&mut reader, row)?;
        Ok(ParkedKey {
            key: first.key.clone().unwrap_or_default(),
            first,
            behind: number(row, behind)?.unwrap_or(0),
        })
    });
    let parked = parked.collect::<Result<_, sqlx::Error>>();
    parked.map_err(|error| catalogue.failed(error))
}

/// The values of the order columns that a page begins after.
fn position<C: Catalogue>(
    catalogue: &C,
    ready: &C::Ready,
    from: Option<&Cursor>,
) -> Result<Option<Vec<String>>, StoreError> {
    let Some(from) = from else {
        return Ok(None);
    };
    let columns = catalogue.writer(ready).layout.order.len();
    let values = cursor::read(from, columns)?;
    if catalogue.may_be_position(ready, &values) {
        return Ok(Some(values));
    }
    Err(StoreError::Unfit {
        action: "go on from there",
        reason: "the cursor is not one that a page of this outbox ended with".into(),
    })
}

/// One page of what was read, and where the next begins if there was more. `order` is where the order
/// columns stand.
fn page<C: Catalogue, T>(
    catalogue: &C,
    mut items: Vec<T>,
    rows: &[C::Row],
    order: Range<usize>,
    limit: u32,
) -> Result<Page<T>, StoreError> {
    let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
    let more = items.len() > limit;
    items.truncate(limit);
    let last = rows.get(limit - 1).filter(|_| more);
    let values = last.map(|row| {
        let values = order.map(|column| Ok(row.text(column)?.unwrap_or_default()));
        values.collect::<Result<Vec<String>, sqlx::Error>>()
    });
    let values = values
        .transpose()
        .map_err(|error| catalogue.failed(error))?;
    let next = values.map(|values| cursor::write(&values));
    Ok(Page { items, next })
}

/// To see whether there is a next page.
fn one_more(limit: u32) -> u32 {
    limit.max(1).saturating_add(1)
}

/// A number that is not negative and not too large; anything else is no number.
fn number<N: TryFrom<i64>>(row: &impl Answer, position: usize) -> Result<Option<N>, sqlx::Error> {
    let number = row.int(position)?;
    Ok(number.and_then(|number| N::try_from(number).ok()))
}

fn stored_record(reader: &mut Reader<'_>, row: &impl Answer) -> Result<StoredRecord, sqlx::Error> {
    let id = row.text(stored::ID)?.unwrap_or_default();
    let event_id = match (row.text(stored::EVENT_ID)?, row.bytes(stored::HEADERS)?) {
        (Some(event_id), _) => Some(event_id.into()),
        (None, Some(headers)) => reader.event_id(&headers),
        (None, None) => None,
    };
    let state = row.text(stored::STATE)?.unwrap_or_default();
    let state = RecordState::ALL
        .into_iter()
        .find(|known| known.as_str() == state);
    let created_at = row.time(stored::CREATED_AT)?;
    Ok(StoredRecord {
        event_id: event_id.unwrap_or_else(|| id.clone().into()),
        id: reader.id(id),
        event_type: row.text(stored::EVENT_TYPE)?,
        aggregate_type: row.text(stored::AGGREGATE_TYPE)?,
        aggregate_id: row.text(stored::AGGREGATE_ID)?,
        key: row.text(stored::KEY)?,
        topic: row.text(stored::TOPIC)?,
        state: state.unwrap_or(RecordState::Pending),
        attempts: number(row, stored::ATTEMPTS)?.unwrap_or(0),
        error: row.text(stored::ERROR)?,
        created_at: created_at.unwrap_or(Timestamp::from_micros(0)),
        published_at: row.time(stored::PUBLISHED_AT)?,
        retry_at: row.time(stored::RETRY_AT)?,
        payload_bytes: number(row, stored::PAYLOAD_BYTES)?,
    })
}
