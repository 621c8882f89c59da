//! How long an event is remembered, as PackFinderz' environment says it.

use std::time::Duration;

use postrider_core::text::bounded;

pub const DEFAULT_TTL: Duration = Duration::from_secs(720 * HOUR);

const DURATION: &str = "PACKFINDERZ_EVENTING_IDEMPOTENCY_TTL";
const HOURS: &str = "PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS";
const HOUR: u64 = 60 * 60;
/// Ten years.
const HOURS_MAX: u64 = 87_600;

#[derive(Debug, thiserror::Error)]
#[error("{variable} is {value:?}; allowed is {allowed}")]
pub struct TtlError {
    pub variable: &'static str,
    pub value: String,
    pub allowed: &'static str,
}

/// From `PACKFINDERZ_EVENTING_IDEMPOTENCY_TTL`, a duration such as `720h`, else from
/// `PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS`, a number, else [`DEFAULT_TTL`]. An empty variable is one that is not set.
pub fn ttl_from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Duration, TtlError> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    let (from, ttl) = if let Some(value) = set(DURATION) {
        let allowed = "a time in Go's form, such as 720h or 1h30m, from 1s to 87600h";
        (
            DURATION,
            checked(duration(&value), DURATION, &value, allowed)?,
        )
    } else if let Some(value) = set(HOURS) {
        let hours: Option<u64> = value.parse().ok();
        let hours = hours.filter(|hours| *hours <= HOURS_MAX);
        let ttl = hours.map(|hours| Duration::from_secs(hours * HOUR));
        (
            HOURS,
            checked(
                ttl,
                HOURS,
                &value,
                "a whole number of hours, from 1 to 87600",
            )?,
        )
    } else {
        ("default", DEFAULT_TTL)
    };
    tracing::info!(from, ttl_secs = ttl.as_secs(), "idempotency keys are kept");
    Ok(ttl)
}

fn checked(
    ttl: Option<Duration>,
    variable: &'static str,
    value: &str,
    allowed: &'static str,
) -> Result<Duration, TtlError> {
    let range = Duration::from_secs(1)..=Duration::from_secs(HOURS_MAX * HOUR);
    ttl.filter(|ttl| range.contains(ttl))
        .ok_or_else(|| TtlError {
            variable,
            value: bounded(value, 100),
            allowed,
        })
}

/// Numbers with units, without spaces: `1h30m`, `1.5h`, `300ms`.
fn duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(unit);
        let end = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let secs = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => HOUR as f64,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * secs).ok()?;
        total = total.checked_add(part)?;
        rest = after;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ttl(variables: &[(&str, &str)]) -> Result<Duration, TtlError> {
        ttl_from_env(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn hours(hours: u64) -> Duration {
        Duration::from_secs(hours * HOUR)
    }

    #[test]
    fn the_duration_wins_over_the_hours_and_720_hours_over_nothing() {
        //
        assert_eq!(ttl(&[]).unwrap(), hours(720));
        assert_eq!(ttl(&[(DURATION, ""), (HOURS, "")]).unwrap(), hours(720));
        assert_eq!(ttl(&[(HOURS, "168")]).unwrap(), hours(168));
        assert_eq!(
            ttl(&[(HOURS, "168"), (DURATION, "48h")]).unwrap(),
            hours(48)
        );
        assert_eq!(ttl(&[(DURATION, "1h30m")]).unwrap(), hours(3) / 2);
        assert_eq!(ttl(&[(DURATION, "1.5h")]).unwrap(), hours(3) / 2);
    }

    #[test]
    fn a_value_that_cannot_be_meant_is_named_with_its_variable() {
        let bad = [
            "720",
            "h",
            "-1h",
            "0h",
            "1d",
            "1h 30m",
            "1e9h",
            "99999999999h",
            "500ms",
            "1..5h",
        ];
        for (variable, value) in bad.map(|value| (DURATION, value)).into_iter().chain(
            ["168h", "-1", "0", "1.5", "87601", "18446744073709551615"].map(|value| (HOURS, value)),
        ) {
            let error = ttl(&[(variable, value)]).unwrap_err();
            assert_eq!((error.variable, error.value.as_str()), (variable, value));
        }
    }
}
