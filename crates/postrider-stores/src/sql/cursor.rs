//! Where a page ended: the values of the last record's order columns, as text. They say where to go on even after that
//! record is gone.

use postrider_core::{Cursor, StoreError};

pub(crate) fn write(values: &[String]) -> Cursor {
    Cursor(serde_json::Value::from(values).to_string())
}

/// The values for that many order columns. Cursors come back from outside, so anything may stand in them.
pub(crate) fn read(cursor: &Cursor, columns: usize) -> Result<Vec<String>, StoreError> {
    let values: Vec<String> = serde_json::from_str(&cursor.0).map_err(|_| unfit())?;
    if values.len() == columns {
        Ok(values)
    } else {
        Err(unfit())
    }
}

fn unfit() -> StoreError {
    StoreError::Unfit {
        action: "go on from there",
        reason: "the cursor is not one that a page of this outbox ended with".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let values = ["2026-11-15 09:30:00+00".to_owned(), "it's \"x\"".to_owned()];
        assert_eq!(read(&write(&values), 2).unwrap(), values);
        for garbage in ["", "[]", "[1,2]", "{}", "[\"one\"]", "null"] {
            let garbage = Cursor(garbage.into());
            assert!(matches!(read(&garbage, 2), Err(StoreError::Unfit { .. })));
        }
    }
}
