//! The only source of "now", and the one way a time is written on the wire.

use std::fmt;

/// Microseconds since 1970 UTC, which is what Postgres holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that asks the system"
    )]
    pub fn now() -> Self {
        let since_epoch = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        Self(i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX))
    }

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }
}

/// RFC 3339 in UTC with the microseconds that are there: `2026-11-15T09:30:00.123456Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => time.fmt(f),
            // Postgres' `infinity` and years past 9999 have no RFC 3339 form.
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_rfc_3339_utc_with_microseconds() {
        let time = Timestamp::from_micros(1_763_199_000_123_456);
        assert_eq!(time.to_string(), "2025-11-15T09:30:00.123456Z");
        assert_eq!(
            Timestamp::from_micros(0).to_string(),
            "1970-01-01T00:00:00Z"
        );
        assert_eq!(
            Timestamp::from_micros(i64::MAX).to_string(),
            format!("{}us", i64::MAX)
        );
    }
}
