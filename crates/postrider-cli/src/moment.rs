//! Times as people type them: RFC 3339, or an age.

use std::time::Duration;

use postrider::core::Timestamp;

/// A time such as `2026-11-15T09:30:00Z`, or one that lies an age such as `2h` or `90s` before now.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    parse_at(text, Timestamp::now())
}

fn parse_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(Timestamp::from_micros(time.as_microsecond()));
    }
    match humantime::parse_duration(text) {
        Ok(age) => Ok(before(now, age)),
        Err(_) => Err(format!(
            "`{text}` is neither a time such as 2026-11-15T09:30:00Z nor an age such as 2h or 90s"
        )),
    }
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    let micros = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
    // Before the year 0 no record was created, and Postgres knows no such time.
    const LEAST: i64 = -62_135_596_800_000_000;
    Timestamp::from_micros(now.as_micros().saturating_sub(micros).max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str) -> i64 {
        let now = Timestamp::from_micros(1_763_199_000_000_000);
        parse_at(text, now).unwrap().as_micros()
    }

    #[test]
    fn a_time_is_rfc_3339_or_an_age() {
        assert_eq!(micros("2025-11-15T09:30:00Z"), 1_763_199_000_000_000);
        assert_eq!(micros("2025-11-15T11:30:00.5+02:00"), 1_763_199_000_500_000);
        assert_eq!(micros("90s"), 1_763_198_910_000_000);
        assert_eq!(micros("1h 30m"), 1_763_193_600_000_000);
        assert_eq!(micros("0s"), 1_763_199_000_000_000);
        assert!(micros("5000000y") < 0);
    }

    #[test]
    fn what_is_neither_is_refused_with_an_example() {
        for text in [
            "",
            "yesterday",
            "2025-11-15",
            "12",
            "-2h",
            "2025-13-01T00:00:00Z",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("2h") && error.contains(text), "{error}");
        }
    }
}
