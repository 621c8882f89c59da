//! What a driver's error means for the caller: try later, fix the table, or look closer.

use postrider_core::{StoreError, text};

use crate::EmitError;

/// The error of a statement that was to `action` in `table`.
pub(super) fn store_error(
    action: &'static str,
    table: &str,
) -> impl Fn(sqlx::Error) -> StoreError + use<> {
    let table = table.to_owned();
    move |error| {
        let Some(code) = code(&error) else {
            return match error {
                sqlx::Error::ColumnDecode { .. }
                | sqlx::Error::Decode(_)
                | sqlx::Error::Encode(_)
                | sqlx::Error::ColumnNotFound(_) => StoreError::refused(action, error),
                _ => StoreError::unavailable(error),
            };
        };
        match meaning(&code) {
            Meaning::Later => StoreError::unavailable(error),
            Meaning::Locked => StoreError::Unavailable {
                reason: format!("cannot {action}: somebody else holds a lock on {table} for longer than lock_timeout"),
                source: Some(error.into()),
            },
            Meaning::Mismatch => StoreError::Mismatch(format!(
                "layout does not fit table {table}: {}; run `postrider check`",
                text::chain(&error)
            )),
            Meaning::Forbidden => StoreError::Refused {
                action,
                reason: format!(
                    "{}; `postrider check` prints the GRANT that is missing on {table}",
                    text::chain(&error)
                ),
                source: Some(error.into()),
            },
            Meaning::Refused => StoreError::refused(action, error),
        }
    }
}

pub(super) fn emit_error(error: sqlx::Error) -> EmitError {
    EmitError::Database { reason: text::chain(&error), source: error.into() }
}

pub(super) fn code(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(|error| error.code()).map(Into::into)
}

enum Meaning {
    Later,
    Locked,
    Mismatch,
    Forbidden,
    Refused,
}

/// By SQLSTATE. A connection that was refused for its credentials may be let in after they were changed,
/// so that too is worth another try.
fn meaning(code: &str) -> Meaning {
    match code {
        "55P03" => Meaning::Locked,
        "42501" => Meaning::Forbidden,
        // Undefined table, column, function or schema; a type that does not go with another; a plan
        // made for columns that have changed since.
        "42P01" | "42703" | "42883" | "3F000" | "42804" | "0A000" => Meaning::Mismatch,
        "25006" | "25P03" | "3D000" | "57014" | "40001" | "40P01" => Meaning::Later,
        _ => match &code[..code.len().min(2)] {
            "08" | "28" | "53" | "57" | "58" => Meaning::Later,
            _ => Meaning::Refused,
        },
    }
}

/// Whether what was read of the table may be out of date.
pub(super) fn is_stale(error: &StoreError) -> bool {
    matches!(error, StoreError::Mismatch(_))
}
