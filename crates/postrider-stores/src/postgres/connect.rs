//! The pool of connections.

use std::str::FromStr;
use std::time::Duration;

use postrider_core::StoreError;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, PgPool};

use super::pool::{IS_DIRECT, mark_direct};

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that lay idle for longer is tried before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// How a session notices that its client is gone, and what it does at most for one statement. A host that vanishes sends
/// nothing: then keepalives tell after 15 s, or unacknowledged rows do. A process that ends is noticed in a second, also
/// in the middle of a statement.
///
/// Where a role, a database or the URL says otherwise, that holds, and so does any limit that the server has.
const SESSION: [(&str, &str); 6] = [
    ("statement_timeout", "5min"),
    ("client_connection_check_interval", "1s"),
    ("tcp_user_timeout", "15s"),
    ("tcp_keepalives_idle", "5"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];

/// A pool that connects when it is first used, so a database that is down is no error yet. Only a URL
/// that cannot be read is.
pub fn connect(url: &str, connections_max: u32) -> Result<PgPool, StoreError> {
    connect_as(url, connections_max, "postrider")
}

/// The same for a relay: its sessions say so, and whose they are, unless the URL gives them another name.
pub fn connect_relay(url: &str, connections_max: u32, outbox: &str) -> Result<PgPool, StoreError> {
    connect_as(url, connections_max, &relay_name(outbox))
}

/// What a relay's sessions are called. The server cuts names, and replaces what is not ASCII.
pub(super) fn relay_name(outbox: &str) -> String {
    const BYTES_MAX: usize = 63;
    let ascii = |c: char| if (' '..='~').contains(&c) { c } else { '?' };
    let name: String = "postrider relay "
        .chars()
        .chain(outbox.chars().map(ascii))
        .collect();
    name.chars().take(BYTES_MAX).collect()
}

fn connect_as(url: &str, connections_max: u32, name: &str) -> Result<PgPool, StoreError> {
    let mut options = PgConnectOptions::from_str(url).map_err(|error| StoreError::Refused {
        action: "connect",
        // The URL holds the password, so it is not shown.
        reason: format!(
            "the database URL cannot be read: {}",
            postrider_core::text::chain(&error)
        ),
        source: None,
    })?;
    if options.get_application_name().is_none() {
        options = options.application_name(name);
    }
    // The driver would ask for the digits that Postgres has given by default since 12, and poolers refuse to be asked.
    options = options.extra_float_digits(None);
    // The relay reports what fails; statement by statement would drown it.
    options = options.disable_statement_logging();
    let settings = session_settings();
    Ok(PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let settings = settings.clone();
            Box::pin(set_up(connection, settings))
        })
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for < TRUSTED_IDLE {
                    return Ok(true);
                }
                Ok(connection.ping().await.is_ok())
            })
        })
        .connect_lazy_with(options))
}

/// Sets what this server knows and this session may set, where it is nobody else's session: behind a pooler, nothing.
/// Says of each whether it was set.
fn session_settings() -> String {
    let values: Vec<String> = SESSION
        .iter()
        .map(|(name, value)| format!("('{name}', '{value}')"))
        .collect();
    format!(
        "SELECT set_config(s.name, v.value, false) FROM (VALUES {}) AS v (name, value) \
         JOIN pg_catalog.pg_settings AS s ON s.name = v.name \
         WHERE s.source IN ('default', 'configuration file', 'command line', 'environment variable') \
           AND (s.name <> 'statement_timeout' OR s.setting = '0') \
           AND (s.name <> 'client_connection_check_interval' OR version() LIKE '%linux%') \
           AND ({IS_DIRECT})",
        values.join(", ")
    )
}

/// A session without these settings does its work all the same, so it is not refused for want of them.
async fn set_up(connection: &mut PgConnection, settings: String) -> Result<(), sqlx::Error> {
    let set = sqlx::raw_sql(AssertSqlSafe(settings))
        .fetch_all(&mut *connection)
        .await;
    match set {
        Ok(set) if set.is_empty() => Ok(()),
        Ok(_) => mark_direct(connection).await,
        Err(error) if error.as_database_error().is_some() => {
            tracing::debug!(%error, "the session keeps the server's settings");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
