//! Waits and limits that fit a test.

use std::time::Duration;

use postrider::consumer::Config;
use postrider::consumer::middleware::{Ack, Retry};
use postrider::core::Backoff;

pub(crate) fn config() -> Config {
    Config {
        outage_backoff: quick(),
        lag_every: Duration::from_millis(50),
        ..Config::default()
    }
}

pub(crate) fn ack() -> Ack {
    Ack {
        backoff: quick(),
        deferred: Duration::from_millis(10),
    }
}

pub(crate) fn quick() -> Backoff {
    Backoff::new(Duration::from_millis(10), Duration::from_millis(50))
}

pub(crate) fn retry() -> Retry {
    Retry {
        tries: 3,
        backoff: quick(),
    }
}
