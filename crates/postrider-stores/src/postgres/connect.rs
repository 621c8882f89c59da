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
        options = options.application_name("postrider");
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
