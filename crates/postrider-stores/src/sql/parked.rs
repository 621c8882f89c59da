//! The statements of the table of parked keys.

use super::dialect::Dialect;

pub(crate) const TABLE: &str = "postrider_parked_keys";

const CREATE: &str = "CREATE TABLE IF NOT EXISTS postrider_parked_keys (
  consumer text NOT NULL,
  topic text NOT NULL,
  key bytea NOT NULL,
  reason text NOT NULL,
  parked_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer, topic, key)
)";

pub(crate) fn create(dialect: &Dialect) -> String {
    dialect.defined(CREATE)
}

/// consumer, topic, key
pub(crate) const IS_PARKED: &str =
    "SELECT 1 FROM postrider_parked_keys WHERE consumer = $1 AND topic = $2 AND key = $3";

/// consumer, topic, key, reason
pub(crate) const PARK: &str = "INSERT INTO postrider_parked_keys (consumer, topic, key, reason) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (consumer, topic, key) DO NOTHING";

/// consumer, topic, key
pub(crate) const FREE: &str =
    "DELETE FROM postrider_parked_keys WHERE consumer = $1 AND topic = $2 AND key = $3";

/// consumer, limit → topic, key, reason, microseconds since 1970
pub(crate) fn list(dialect: &Dialect) -> String {
    format!(
        "SELECT topic, key, reason, {} FROM postrider_parked_keys WHERE consumer = $1 \
         ORDER BY parked_at, topic, key LIMIT $2",
        (dialect.micros_between)(dialect.epoch, "parked_at")
    )
}
