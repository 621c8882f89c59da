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
        let (meaning, reason) = (meaning(&error), reason(&error));
        let source = Some(error.into());
        match meaning {
            Meaning::Later(advice) => StoreError::Unavailable {
                reason: format!("cannot {action}: {reason}{advice}"),
                source,
            },
            Meaning::Mismatch => StoreError::Mismatch(format!(
                "layout does not fit table {table}: {reason}; run `postrider check`"
            )),
            Meaning::Refused(advice) => StoreError::Refused {
                action,
                reason: format!("{reason}{advice}"),
                source,
            },
        }
    }
}

pub(super) fn emit_error(error: sqlx::Error) -> EmitError {
    let (Meaning::Later(advice) | Meaning::Refused(advice)) = meaning(&error) else {
        return EmitError::Database {
            reason: reason(&error),
            source: error.into(),
        };
    };
    EmitError::Database {
        reason: format!("{}{advice}", reason(&error)),
        source: error.into(),
    }
}

/// What SQLite says, without the driver's words around it.
fn reason(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(database) => {
            let code = database.code().unwrap_or_default();
            let text = format!("{} (SQLite code {code})", database.message());
            text::bounded(&text, text::ERROR_BYTES_MAX)
        }
        None => text::chain(error),
    }
}

/// Whether the database is at fault, and not the statement.
pub(super) fn is_transient(error: &sqlx::Error) -> bool {
    matches!(meaning(error), Meaning::Later(_))
}

/// Whether another connection had the lock for longer than we wait.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(BUSY | LOCKED))
}

enum Meaning {
    Later(&'static str),
    Mismatch,
    Refused(&'static str),
}

const ERROR: u32 = 1;
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const NOMEM: u32 = 7;
const READONLY: u32 = 8;
const INTERRUPT: u32 = 9;
const IOERR: u32 = 10;
const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const CANTOPEN: u32 = 14;
const SCHEMA: u32 = 17;
const NOTADB: u32 = 26;

/// SQLite's primary result code, without what an extended one adds to it.
fn code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<u32>().ok().map(|code| code & 0xff)
}

fn meaning(error: &sqlx::Error) -> Meaning {
    let Some(code) = code(error) else {
        return match error {
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::Encode(_)
            | sqlx::Error::ColumnNotFound(_) => Meaning::Refused(""),
            sqlx::Error::PoolTimedOut => {
                Meaning::Later(": another transaction of this process holds the file's one writer")
            }
            _ => Meaning::Later(""),
        };
    };
    match code {
        BUSY | LOCKED => Meaning::Later(": somebody else has held the file's write lock too long"),
        READONLY => Meaning::Later("; the file and its folder must be writable for this user"),
        FULL => Meaning::Later("; the disk is full"),
        IOERR => Meaning::Later("; look at the disk and the system's log"),
        CANTOPEN => Meaning::Later(
            "; its folder must exist and be writable, and `postrider init` makes the file",
        ),
        NOMEM | INTERRUPT | SCHEMA => Meaning::Later(""),
        CORRUPT => {
            Meaning::Refused("; the file is damaged: restore it, or see `PRAGMA integrity_check`")
        }
        NOTADB => Meaning::Refused("; the file is none of SQLite's, or it is encrypted"),
        ERROR if is_mismatch(error) => Meaning::Mismatch,
        _ => Meaning::Refused(""),
    }
}

/// SQLite has one code for all that is wrong with a statement.
fn is_mismatch(error: &sqlx::Error) -> bool {
    let message = error.as_database_error().map(|error| error.message());
    let signs = [
        "no such table",
        "no such column",
        "has no column named",
        "unknown database",
        "ON CONFLICT clause does not match",
    ];
    message.is_some_and(|message| signs.iter().any(|sign| message.contains(sign)))
}
