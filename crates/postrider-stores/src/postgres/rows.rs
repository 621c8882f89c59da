//! A row's values as Postgres sends them.

use bytes::Bytes;
use postrider_core::{ByteString, RecordId, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::{Column as _, Row as _, TypeInfo as _};
use uuid::Uuid;

use crate::rows::{Arena, Cells};
use crate::sql::selection::{Form, Selection};

/// Microseconds from 1970, where our times begin, to 2000, where Postgres' do.
pub(super) const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

pub(super) fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros.saturating_add(POSTGRES_EPOCH_MICROS))
}

/// The same, the other way round.
pub(super) fn micros_of(time: Timestamp) -> i64 {
    time.as_micros().saturating_sub(POSTGRES_EPOCH_MICROS)
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

/// One row's values, read as they came over the wire.
pub(super) struct PgCells<'a> {
    row: &'a PgRow,
    selection: &'a Selection,
    defect: Option<String>,
}

impl<'a> PgCells<'a> {
    pub(super) fn new(row: &'a PgRow, selection: &'a Selection) -> Self {
        Self {
            row,
            selection,
            defect: None,
        }
    }

    fn raw(&self, position: usize) -> Result<Option<(&'a [u8], Form)>, sqlx::Error> {
        let form = self.selection.columns[position].form;
        let value = self.row.try_get_raw(position)?;
        // NULL is the one thing that has no bytes.
        Ok(value.as_bytes().ok().map(|bytes| (bytes, form)))
    }
}

impl Cells for PgCells<'_> {
    fn mark(&mut self, defect: String) {
        self.defect = Some(defect);
    }

    fn defect(&mut self) -> Option<String> {
        self.defect.take()
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

    fn text(
        &mut self,
        position: Option<usize>,
        arena: &mut Arena,
    ) -> Result<Option<ByteString>, sqlx::Error> {
        let Some(position) = position else {
            return Ok(None);
        };
        let Some((bytes, form)) = self.raw(position)? else {
            return Ok(None);
        };
        Ok(match form {
            Form::Uuid => Uuid::from_slice(bytes).ok().and_then(|id| {
                let mut text = Uuid::encode_buffer();
                arena.text(id.hyphenated().encode_lower(&mut text).as_bytes())
            }),
            Form::Int => Some(big_endian(bytes).to_string().into()),
            _ => {
                let text = arena.text(bytes);
                if text.is_none() {
                    self.defect = Some(format!("column {} is not UTF-8", position + 1));
                }
                text
            }
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

    fn document(
        &mut self,
        position: Option<usize>,
        arena: &mut Arena,
    ) -> Result<Option<Bytes>, sqlx::Error> {
        let Some(position) = position else {
            return Ok(None);
        };
        Ok(self.raw(position)?.map(|(bytes, form)| match form {
            // One byte of version stands before the text.
            Form::Jsonb => arena.bytes(bytes.get(1..).unwrap_or_default()),
            _ => arena.bytes(bytes),
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
