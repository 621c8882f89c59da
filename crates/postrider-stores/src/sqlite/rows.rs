//! A row's values as SQLite keeps them: each has a type of its own, whatever its column says.

use bytes::Bytes;
use postrider_core::{ByteString, RecordId, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, TypeInfo as _, ValueRef as _};
use uuid::Uuid;

use crate::rows::{Arena, Cells};
use crate::sql::selection::{Form, Selection};

pub(super) struct SqliteCells<'a> {
    row: &'a SqliteRow,
    selection: &'a Selection,
    defect: Option<String>,
}

impl<'a> SqliteCells<'a> {
    pub(super) fn new(row: &'a SqliteRow, selection: &'a Selection) -> Self {
        Self {
            row,
            selection,
            defect: None,
        }
    }

    /// Text and bytes as they are, numbers as text.
    fn bytes(&self, position: usize) -> Result<Option<Vec<u8>>, sqlx::Error> {
        self.row.try_get_unchecked(position)
    }

    fn form(&self, position: usize) -> Form {
        self.selection.columns[position].form
    }

    fn parsed(&mut self, position: usize) -> Result<Option<i64>, sqlx::Error> {
        let Some(bytes) = self.bytes(position)? else {
            return Ok(None);
        };
        let number = std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| text.trim().parse().ok());
        if number.is_none() {
            self.mark(format!(
                "column {} should hold an integer and does not",
                position + 1
            ));
        }
        Ok(number)
    }
}

impl Cells for SqliteCells<'_> {
    fn mark(&mut self, defect: String) {
        self.defect = Some(defect);
    }

    fn defect(&mut self) -> Option<String> {
        self.defect.take()
    }

    fn id(&mut self, position: usize) -> Result<RecordId, sqlx::Error> {
        // Bytes are equal to no text, so such a record would not be found again.
        if self.row.try_get_raw(position)?.type_info().name() == "BLOB" {
            return Err(sqlx::Error::Decode("a record's id is no text".into()));
        }
        let Some(bytes) = self.bytes(position)? else {
            return Err(sqlx::Error::Decode("a record's id is NULL".into()));
        };
        let text = String::from_utf8(bytes).map_err(|e| sqlx::Error::Decode(e.into()))?;
        Ok(record_id(self.form(position), text))
    }

    fn text(
        &mut self,
        position: Option<usize>,
        _: &mut Arena,
    ) -> Result<Option<ByteString>, sqlx::Error> {
        let Some(position) = position else {
            return Ok(None);
        };
        let Some(bytes) = self.bytes(position)? else {
            return Ok(None);
        };
        Ok(match String::from_utf8(bytes) {
            Ok(text) => Some(text.into()),
            Err(_) => {
                self.mark(format!("column {} is not UTF-8", position + 1));
                None
            }
        })
    }

    fn int(&mut self, position: Option<usize>) -> Result<Option<i64>, sqlx::Error> {
        position.map_or(Ok(None), |position| self.parsed(position))
    }

    /// SQLite's values come in a copy of their own.
    fn document(
        &mut self,
        position: Option<usize>,
        _: &mut Arena,
    ) -> Result<Option<Bytes>, sqlx::Error> {
        let bytes = position.map_or(Ok(None), |position| self.bytes(position))?;
        Ok(bytes.map(Bytes::from))
    }

    fn time(&mut self, position: usize) -> Result<Timestamp, sqlx::Error> {
        let micros = self.parsed(position)?;
        if micros.is_none() && self.defect.is_none() {
            self.mark("created_at is NULL".into());
        }
        Ok(Timestamp::from_micros(micros.unwrap_or(0)))
    }
}

/// Ids keep their form, so that one that is no UUID in a column of them is found again all the same.
fn record_id(form: Form, text: String) -> RecordId {
    match form {
        Form::Uuid => match Uuid::parse_str(&text) {
            Ok(id) if id.hyphenated().to_string() == text => RecordId::Uuid(id),
            _ => RecordId::Text(text.into()),
        },
        Form::Int => match text.parse() {
            Ok(id) => RecordId::Int(id),
            Err(_) => RecordId::Text(text.into()),
        },
        _ => RecordId::Text(text.into()),
    }
}
