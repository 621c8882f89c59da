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
        let reason = reason(&error);
        let unavailable = |reason| StoreError::Unavailable {
            reason,
            source: None,
        };
        let outcome = match meaning(&error) {
            Meaning::Later => unavailable(reason),
            Meaning::NoConnection => unavailable(
                "no connection in time: the server is down or full, or this pool is too small"
                    .into(),
            ),
            Meaning::Locked => unavailable(format!(
                "cannot {action}: somebody else holds a lock on {table} for longer than lock_timeout"
            )),
            Meaning::Mismatch => StoreError::Mismatch(format!(
                "layout does not fit table {table}: {reason}; run `postrider check`"
            )),
            Meaning::Forbidden => refused(
                action,
                format!("{reason}; `postrider check` prints the GRANT that is missing on {table}"),
            ),
            Meaning::Refused => refused(action, reason),
        };
        with_source(outcome, error)
    }
}

pub(super) fn emit_error(error: sqlx::Error) -> EmitError {
    EmitError::Database {
        reason: reason(&error),
        source: error.into(),
    }
}

fn refused(action: &'static str, reason: String) -> StoreError {
    StoreError::Refused {
        action,
        reason,
        source: None,
    }
}

fn with_source(outcome: StoreError, error: sqlx::Error) -> StoreError {
    let source = Some(error.into());
    match outcome {
        StoreError::Unavailable { reason, .. } => StoreError::Unavailable { reason, source },
        StoreError::Refused { action, reason, .. } => StoreError::Refused {
            action,
            reason,
            source,
        },
        other => other,
    }
}

/// What the server says, without the driver's words around it.
fn reason(error: &sqlx::Error) -> String {
    let Some(database) = error.as_database_error() else {
        return text::chain(error);
    };
    let code = database.code().unwrap_or_default();
    let message = database.message();
    let reason = format!("{message} ({code}){}", remedy(&code, message));
    text::bounded(&reason, text::ERROR_BYTES_MAX)
}

/// What to do about errors that come of a pooler between us and the server.
fn remedy(code: &str, message: &str) -> &'static str {
    match code {
        "42P05" | "26000" => {
            "; a pooler that does not track prepared statements stands before the database: add \
             `statement-cache-capacity=0` to the parameters of the database URL"
        }
        "08P01" if message.contains("startup parameter") => {
            "; a pooler stands before the database and does not take this from a URL. Take it out of the URL: a schema \
             can be named in the outbox's `table`, other settings by ALTER ROLE … SET. What the driver of your own \
             pool sends by itself, PgBouncer passes over if its ignore_startup_parameters names it"
        }
        _ => "",
    }
}

pub(super) fn code(error: &sqlx::Error) -> Option<String> {
    error
        .as_database_error()
        .and_then(|error| error.code())
        .map(Into::into)
}

/// Whether the database is at fault, and not the statement.
pub(super) fn is_transient(error: &sqlx::Error) -> bool {
    matches!(
        meaning(error),
        Meaning::Later | Meaning::NoConnection | Meaning::Locked
    )
}

/// Whether somebody else's lock was in the way for too long.
pub(super) fn is_locked(error: &sqlx::Error) -> bool {
    matches!(meaning(error), Meaning::Locked)
}

enum Meaning {
    Later,
    NoConnection,
    Locked,
    Mismatch,
    Forbidden,
    Refused,
}

/// By SQLSTATE. A connection that was refused for its credentials may be let in after they were changed,
/// so that too is worth another try.
fn meaning(error: &sqlx::Error) -> Meaning {
    let Some(code) = code(error) else {
        return match error {
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::Encode(_)
            | sqlx::Error::ColumnNotFound(_) => Meaning::Refused,
            sqlx::Error::TypeNotFound { .. } => Meaning::Mismatch,
            sqlx::Error::PoolTimedOut => Meaning::NoConnection,
            _ => Meaning::Later,
        };
    };
    match code.as_str() {
        "55P03" => Meaning::Locked,
        "42501" => Meaning::Forbidden,
        // Undefined table, column, function or schema; a type that does not go with another; a plan
        // made for columns that have changed since; no unique index where conflicts are looked for.
        "42P01" | "42703" | "42883" | "3F000" | "42804" | "0A000" | "42P10" => Meaning::Mismatch,
        "25006" | "25P03" | "3D000" | "57014" | "40001" | "40P01" => Meaning::Later,
        _ => match &code[..code.len().min(2)] {
            "08" | "28" | "53" | "57" | "58" => Meaning::Later,
            _ => Meaning::Refused,
        },
    }
}
