//! Whether a value fits its column.

use std::borrow::Cow;

use postrider_core::text::bounded;
use uuid::Uuid;

use super::json::{self, Kept};
use super::table::{Column, Kind};

/// The value as it can be sent, or why the column would refuse it.
pub(crate) fn fit<'e>(value: Cow<'e, [u8]>, column: &Column) -> Result<Cow<'e, [u8]>, String> {
    match column.kind {
        Kind::Bytes => return Ok(value),
        Kind::Json => drop(json::check(&value, Kept::AsText)?),
        Kind::Jsonb => drop(json::check(&value, Kept::Parsed)?),
        Kind::Uuid => {
            let id = Uuid::parse_str(text(&value)?).map_err(|_| "not a UUID".to_owned())?;
            let canonical = id.hyphenated().to_string();
            return Ok(if value[..] == *canonical.as_bytes() {
                value
            } else {
                canonical.into_bytes().into()
            });
        }
        Kind::Int => integer(text(&value)?, &column.sql_type)?,
        Kind::Enum => {
            let word = text(&value)?;
            if !column.labels.iter().any(|label| label == word) {
                let word = bounded(word, 100);
                return Err(format!(
                    "{word:?} is not one of {}",
                    column.labels.join(", ")
                ));
            }
        }
        Kind::Text | Kind::Bool | Kind::Time | Kind::LocalTime | Kind::Other => {
            let chars = text(&value)?.chars().count();
            if let Some(max) = column.chars_max.filter(|max| chars > *max as usize) {
                return Err(format!("{chars} characters, and it takes {max}"));
            }
        }
    }
    Ok(value)
}

fn text(value: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(value).map_err(|_| "not UTF-8".to_owned())?;
    if text.contains('\0') {
        return Err("has a NUL character".into());
    }
    Ok(text)
}

fn integer(text: &str, sql_type: &str) -> Result<(), String> {
    let number: i64 = text.parse().map_err(|_| "not an integer".to_owned())?;
    let fits = match sql_type {
        "smallint" => i16::try_from(number).is_ok(),
        "integer" => i32::try_from(number).is_ok(),
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(format!("{number} is out of range for {sql_type}"))
    }
}
