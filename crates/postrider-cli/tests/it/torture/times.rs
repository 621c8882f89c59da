//! Where the times of events come from: the database, or the application, whose clock may be wrong.

use postrider::core::{Event, Timestamp};
use sqlx::PgConnection;

/// In seconds from now: within what a floor is behind by anyway, long before that, and ahead of the
/// clock.
const LITTLE_OLD: f64 = -0.5;
const MUCH_OLDER: f64 = -3600.0;
const AHEAD: f64 = 600.0;

pub(crate) enum Times {
    /// The column's default or our `emit` draws them.
    Drawn,
    /// Some keys belong to services that bring their own times. Each has one clock, so a key's
    /// times rise with its numbers.
    OfKeys,
    /// Any event may bring one that is a little old or ahead, whatever its key.
    Near,
    /// The same, and some are much older.
    Any,
}

impl Times {
    /// The next event's time in seconds since 1970, if the application brings it.
    pub(crate) fn of(&self, key: &str) -> Option<f64> {
        let offset = match self {
            Self::Drawn => return None,
            Self::OfKeys => {
                let number = key.rsplit('-').next()?.parse::<u32>().ok()?;
                match number % 4 {
                    0 => LITTLE_OLD,
                    1 => MUCH_OLDER,
                    2 => AHEAD,
                    _ => return None,
                }
            }
            Self::Near | Self::Any => match fastrand::u32(..20) {
                0..4 => LITTLE_OLD,
                4 => AHEAD,
                5..8 if matches!(self, Self::Any) => MUCH_OLDER,
                _ => return None,
            },
        };
        Some(Timestamp::now().as_micros() as f64 / 1e6 + offset)
    }
}

/// As a service inserts that does not use our library.
pub(crate) async fn insert(
    tx: &mut PgConnection,
    layout: &str,
    topic: &str,
    key: &str,
    event: &Event,
    time: f64,
) -> Result<(), sqlx::Error> {
    let sql = match layout {
        "polyshop" => {
            "INSERT INTO outbox_events (event_type, aggregate_id, payload, created_at) \
             VALUES ($1, $2, $3::json, to_timestamp($4))"
        }
        "talkie" => {
            "INSERT INTO outbox (topic, key, payload_json, created_at) \
             VALUES ($1, $2, $3::json, to_timestamp($4))"
        }
        other => panic!("nobody brings times to {other}"),
    };
    sqlx::query(sql)
        .bind(topic)
        .bind(key)
        .bind(str::from_utf8(&event.payload).expect("is JSON"))
        .bind(time)
        .execute(tx)
        .await?;
    Ok(())
}
