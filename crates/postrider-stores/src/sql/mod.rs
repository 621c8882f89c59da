//! Statements for a layout, as text. Nothing here knows a driver or does I/O: a layout, a dialect and
//! what is known of the real table go in, text comes out.

pub(crate) mod cursor;
pub(crate) mod dialect;
pub(crate) mod draft;
pub(crate) mod fit;
pub(crate) mod inbox;
pub(crate) mod json;
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
pub(crate) mod native;
pub(crate) mod parked;
pub(crate) mod presets;
pub(crate) mod selection;
pub(crate) mod statement;
pub(crate) mod table;

/// Hash classes of keys. A constant of the protocol, not a setting: two relays that disagreed on it
/// would hold one key under two locks.
pub(crate) const LANES: u32 = 32;

/// Where retries and deaths are kept for tables that have no columns for them.
pub(crate) const TROUBLES: &str = "postrider_troubles";

/// Where it is written down who did what to a record.
pub(crate) const AUDIT: &str = "postrider_audit";

/// A duration in microseconds. For ever is a thousand years: calendars have an end, and numbers too.
pub(crate) fn micros_of(duration: std::time::Duration) -> i64 {
    const YEARS_1000: i64 = 1000 * 365 * 24 * 60 * 60 * 1_000_000;
    i64::try_from(duration.as_micros()).map_or(YEARS_1000, |micros| micros.min(YEARS_1000))
}
