//! The pool of connections.

use std::str::FromStr;
use std::time::Duration;

use postrider_core::StoreError;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgPool};

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that lay idle for longer is tried before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

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
    // The relay reports what fails; statement by statement would drown it.
    options = options.disable_statement_logging();
    Ok(PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
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
