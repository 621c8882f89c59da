//! Every default and every bound of the config, in one place. A layout's own defaults come first.

use std::ops::RangeInclusive;
use std::time::Duration;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
const DAY: u64 = 24 * 60 * 60;
/// As durations are read and printed.
const YEAR: u64 = 31_557_600;

pub(crate) const CONFIG_FILE: &str = "postrider.toml";
pub(crate) const ADMIN_LISTEN: &str = "127.0.0.1:9464";
/// Of an admin token. Comparing looks at the most that there may be, whatever is there.
pub(crate) const TOKEN_CHARS: RangeInclusive<usize> = 16..=TOKEN_BYTES_MAX;
pub(crate) const TOKEN_BYTES_MAX: usize = 256;
pub(crate) const LOG_LEVEL: &str = "info";
/// What spans call this process.
pub(crate) const SERVICE: &str = "postrider";

pub(crate) const MAX_ATTEMPTS: u32 = 25;
pub(crate) const MAX_ATTEMPTS_BOUNDS: RangeInclusive<u32> = 1..=10_000;
pub(crate) const BATCH: u32 = 1000;
pub(crate) const BATCH_BOUNDS: RangeInclusive<u32> = 1..=10_000;
pub(crate) const BATCH_BYTES: u32 = 8 << 20;
pub(crate) const BATCH_BYTES_BOUNDS: RangeInclusive<u32> = 64 << 10..=1 << 30;
pub(crate) const CLAIMS: u32 = 3;
pub(crate) const CLAIMS_BOUNDS: RangeInclusive<u32> = 1..=16;
/// Beyond one connection per claim: two for cleanup, backlog and readiness, two for the admin API.
pub(crate) const CONNECTIONS_BESIDE_CLAIMS: u32 = 4;
pub(crate) const CONNECTIONS_MAX: u32 = 100;

pub(crate) const POLL_MIN: Duration = millis(2);
pub(crate) const POLL_MAX: Duration = millis(100);
pub(crate) const POLL_BOUNDS: RangeInclusive<Duration> = millis(1)..=secs(60 * 60);
pub(crate) const PUBLISH_TIMEOUT: Duration = secs(30);
pub(crate) const PUBLISH_TIMEOUT_BOUNDS: RangeInclusive<Duration> = millis(100)..=secs(600);
pub(crate) const LEASE: Duration = secs(60);
pub(crate) const LEASE_BOUNDS: RangeInclusive<Duration> = secs(1)..=secs(DAY);
/// How much longer than `publish_timeout` a lease must be: time to claim and to settle.
pub(crate) const LEASE_MARGIN: Duration = secs(5);
pub(crate) const STOP_TIMEOUT: Duration = secs(20);
pub(crate) const STOP_TIMEOUT_BOUNDS: RangeInclusive<Duration> = millis(100)..=secs(600);

pub(crate) const RETRY_BASE: Duration = secs(1);
pub(crate) const RETRY_CAP: Duration = secs(5 * 60);
pub(crate) const RETRY_BOUNDS: RangeInclusive<Duration> = millis(10)..=secs(DAY);

pub(crate) const CLEANUP_KEEP_BOUNDS: RangeInclusive<Duration> = secs(0)..=secs(10 * YEAR);
pub(crate) const CLEANUP_EVERY: Duration = secs(60);
pub(crate) const CLEANUP_EVERY_BOUNDS: RangeInclusive<Duration> = secs(1)..=secs(DAY);
pub(crate) const CLEANUP_BATCH: u32 = 1000;
pub(crate) const CLEANUP_BATCH_BOUNDS: RangeInclusive<u32> = 1..=10_000;
