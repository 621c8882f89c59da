//! Named crash points. With the feature `failpoints` (tests only), the environment variable
//! `POSTRIDER_FAILPOINT=name` makes the process abort when it reaches that point, as a power cut
//! would. Without the feature there is nothing here.

/// Records are held, nothing was sent.
pub(crate) const CLAIMED: &str = "claimed";
/// The broker has answered, no fate is written.
pub(crate) const PUBLISHED: &str = "published";
/// Every fate is written.
pub(crate) const SETTLED: &str = "settled";

/// A consumer has reserved an event, none of its effects are there.
pub(crate) const RESERVED: &str = "reserved";
/// Its effects stand in an open transaction.
pub(crate) const APPLIED: &str = "applied";
/// They are there for good, the broker is not told.
pub(crate) const HANDLED: &str = "handled";

#[cfg(feature = "failpoints")]
pub(crate) fn reach(point: &str) {
    if std::env::var("POSTRIDER_FAILPOINT").is_ok_and(|armed| armed == point) {
        std::process::abort();
    }
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn reach(_point: &str) {}
