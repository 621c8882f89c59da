//! From row to record. A row that makes no sense becomes a record with a defect: it is dead on its
//! own, and the others of its claim go on.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use postrider_core::{EventId, Header, Record, RecordId, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::{Column as _, Row as _, TypeInfo as _};
use uuid::Uuid;

use crate::sql::selection::{Form, Selection};

/// Microseconds from 1970, where our times begin, to 2000, where Postgres' do.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

pub(super) fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH_MICROS))
}

/// Whether the rows have the types that their statement was written for. After a migration they may not: the
/// same text is prepared anew, and bytes would be read as what they are not.
pub(super) fn are_as_expected(row: &PgRow, selection: &Selection) -> bool {
    let found = row.columns().iter().map(|column| column.type_info().name());
    std::iter::zip(found, &selection.columns).all(|(found, expected)| match expected.form {
        Form::Uuid => found == "UUID",
        Form::Int => matches!(found, "INT2" | "INT4" | "INT8"),
        Form::Jsonb => found == "JSONB",
        Form::Time => found == "TIMESTAMPTZ",
        Form::Text | Form::Bytes => !matches!(
            found,
            "UUID" | "INT2" | "INT4" | "INT8" | "JSONB" | "TIMESTAMPTZ"
        ),
    })
}

/// Reads the rows of one claim.
pub(super) struct Reader<'a> {
    selection: &'a Selection,
    /// Header names repeat from row to row.
    names: HashMap<String, Arc<str>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(selection: &'a Selection) -> Self {
        Self {
            selection,
            names: HashMap::new(),
        }
    }

    pub(super) fn record(&mut self, row: &PgRow) -> Result<Record, sqlx::Error> {
        let selection = self.selection;
        let mut cells = Cells {
            row,
            selection,
            defect: None,
        };
        let id = cells.id(selection.id)?;
        let headers = cells.document(selection.headers)?;
        let headers = match headers.map(|json| self.headers(&json)) {
            Some(Ok(headers)) => headers,
            Some(Err(defect)) => {
                cells.defect = Some(defect);
                Vec::new()
            }
            None => Vec::new(),
        };
        let event_id = match (cells.text(selection.event_id)?, &selection.event_id_header) {
            (Some(event_id), _) => event_id.into_string().into(),
            (None, Some(name)) => {
                header_id(&headers, name).unwrap_or_else(|| id.to_string().into())
            }
            (None, None) => id.to_string().into(),
        };
        Ok(Record {
            event_id,
            event_type: cells.text(selection.event_type)?,
            aggregate_type: cells.text(selection.aggregate_type)?,
            aggregate_id: cells.text(selection.aggregate_id)?,
            topic: cells.text(selection.topic)?,
            key: cells
                .text(selection.key)?
                .map(|key| key.into_string().into()),
            idempotency_key: cells.text(selection.idempotency_key)?,
            version: cells
                .int(selection.version)?
                .and_then(|version| i32::try_from(version).ok()),
            payload: cells.document(Some(selection.payload))?,
            headers,
            metadata: cells.document(selection.metadata)?,
            created_at: cells.time(selection.created_at)?,
            attempts: cells
                .int(selection.attempts)?
                .map_or(0, |n| u32::try_from(n).unwrap_or(0)),
            defect: cells.defect,
            id,
        })
    }

    /// A record's id, from its text, in the form that the records have.
    pub(super) fn id(&self, text: String) -> RecordId {
        match self.selection.columns[self.selection.id].form {
            Form::Uuid => text
                .parse()
                .map_or_else(|_| RecordId::Text(text.into()), RecordId::Uuid),
            Form::Int => text
                .parse()
                .map_or_else(|_| RecordId::Text(text.into()), RecordId::Int),
            _ => RecordId::Text(text.into()),
        }
    }

    /// The event id among a record's headers.
    pub(super) fn event_id(&mut self, headers: &[u8]) -> Option<EventId> {
        let name = self.selection.event_id_header.as_ref()?;
        header_id(&self.headers(headers).ok()?, name)
    }

    fn headers(&mut self, json: &[u8]) -> Result<Vec<Header>, String> {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(json).map_err(|_| "headers are not a JSON object".to_owned())?;
        let header = |(name, value): (String, serde_json::Value)| {
            let value = match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            let name = self
                .names
                .entry(name)
                .or_insert_with_key(|name| name.as_str().into())
                .clone();
            Header::new(name, value)
        };
        Ok(object.into_iter().map(header).collect())
    }
}

fn header_id(headers: &[Header], name: &str) -> Option<EventId> {
    headers
        .iter()
        .find(|header| &*header.name == name)
        .and_then(Header::text)
        .map(Into::into)
}

/// One row's values, read as they came over the wire.
struct Cells<'a> {
    row: &'a PgRow,
    selection: &'a Selection,
    defect: Option<String>,
}

impl<'a> Cells<'a> {
    fn raw(&self, position: usize) -> Result<Option<(&'a [u8], Form)>, sqlx::Error> {
        let form = self.selection.columns[position].form;
        let value = self.row.try_get_raw(position)?;
        // NULL is the one thing that has no bytes.
        Ok(value.as_bytes().ok().map(|bytes| (bytes, form)))
    }

    fn id(&mut self, position: usize) -> Result<RecordId, sqlx::Error> {
        let Some((bytes, form)) = self.raw(position)? else {
            return Err(sqlx::Error::Decode("a record's id is NULL".into()));
        };
        Ok(match form {
            Form::Uuid => {
                RecordId::Uuid(Uuid::from_slice(bytes).map_err(|e| sqlx::Error::Decode(e.into()))?)
            }
            Form::Int => RecordId::Int(big_endian(bytes)),
            _ => RecordId::Text(
                std::str::from_utf8(bytes)
                    .map_err(|e| sqlx::Error::Decode(e.into()))?
                    .into(),
            ),
        })
    }

    fn text(&mut self, position: Option<usize>) -> Result<Option<Box<str>>, sqlx::Error> {
        let Some(position) = position else {
            return Ok(None);
        };
        let Some((bytes, form)) = self.raw(position)? else {
            return Ok(None);
        };
        Ok(match form {
            Form::Uuid => Uuid::from_slice(bytes)
                .ok()
                .map(|id| id.hyphenated().to_string().into()),
            Form::Int => Some(big_endian(bytes).to_string().into()),
            _ => match std::str::from_utf8(bytes) {
                Ok(text) => Some(text.into()),
                Err(_) => {
                    self.defect = Some(format!("column {} is not UTF-8", position + 1));
                    None
                }
            },
        })
    }

    fn int(&mut self, position: Option<usize>) -> Result<Option<i64>, sqlx::Error> {
        let Some(position) = position else {
            return Ok(None);
        };
        let Some((bytes, form)) = self.raw(position)? else {
            return Ok(None);
        };
        if form == Form::Int {
            return Ok(Some(big_endian(bytes)));
        }
        let number = std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        if number.is_none() {
            self.defect = Some("a column that should hold an integer does not".into());
        }
        Ok(number)
    }

    fn document(&mut self, position: Option<usize>) -> Result<Option<Bytes>, sqlx::Error> {
        let Some(position) = position else {
            return Ok(None);
        };
        Ok(self.raw(position)?.map(|(bytes, form)| match form {
            // One byte of version stands before the text.
            Form::Jsonb => Bytes::copy_from_slice(bytes.get(1..).unwrap_or_default()),
            _ => Bytes::copy_from_slice(bytes),
        }))
    }

    fn time(&mut self, position: usize) -> Result<Timestamp, sqlx::Error> {
        Ok(match self.raw(position)? {
            Some((bytes, _)) => time(big_endian(bytes)),
            None => {
                self.defect = Some("created_at is NULL".into());
                Timestamp::from_micros(0)
            }
        })
    }
}

/// A signed integer of two, four or eight bytes.
fn big_endian(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    let start = if negative { -1 } else { 0 };
    bytes
        .iter()
        .fold(start, |value: i64, byte| value << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_width_keep_their_sign() {
        assert_eq!(big_endian(&(-2_i16).to_be_bytes()), -2);
        assert_eq!(big_endian(&i32::MAX.to_be_bytes()), i64::from(i32::MAX));
        assert_eq!(big_endian(&i64::MIN.to_be_bytes()), i64::MIN);
    }
}
