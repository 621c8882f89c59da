//! Everything of an `[[outbox]]` that is a time: polling, deadlines, retries and clean-up.

use std::time::Duration;

use postrider::core::Layout;
use postrider::core::layout::State;
use serde::Serialize;

use super::error::{ConfigError, Problem};
use super::scope::Scope;
use super::{defaults, raw, show};

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Retry {
    #[serde(serialize_with = "show::duration")]
    pub(crate) base: Duration,
    #[serde(serialize_with = "show::duration")]
    pub(crate) cap: Duration,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Cleanup {
    #[serde(serialize_with = "show::duration")]
    pub(crate) keep: Duration,
    #[serde(serialize_with = "show::duration")]
    pub(crate) every: Duration,
    pub(crate) batch: u32,
}

/// How long an outbox waits for what.
pub(super) struct Timing {
    pub(super) poll_min: Duration,
    pub(super) poll_max: Duration,
    pub(super) publish_timeout: Duration,
    pub(super) lease: Duration,
    pub(super) stop_timeout: Duration,
}

impl Timing {
    pub(super) fn read(
        raw: &raw::Outbox,
        layout: &Layout,
        scope: &Scope,
    ) -> Result<Self, ConfigError> {
        let (poll_min, poll_max) = poll(raw, layout, scope)?;
        let publish_timeout = scope.duration(
            "publish_timeout",
            raw.publish_timeout.as_deref(),
            defaults::PUBLISH_TIMEOUT,
            defaults::PUBLISH_TIMEOUT_BOUNDS,
        )?;
        let shortest = publish_timeout + defaults::LEASE_MARGIN;
        let lease = scope.duration(
            "lease",
            raw.lease.as_deref(),
            defaults::LEASE.max(shortest),
            defaults::LEASE_BOUNDS,
        )?;
        if lease < shortest {
            let allowed = format!(
                "it must be at least {} longer than publish_timeout ({})",
                humantime::format_duration(defaults::LEASE_MARGIN),
                humantime::format_duration(publish_timeout)
            );
            return Err(scope.refused("lease", humantime::format_duration(lease), allowed));
        }
        let stop_timeout = scope.duration(
            "stop_timeout",
            raw.stop_timeout.as_deref(),
            defaults::STOP_TIMEOUT,
            defaults::STOP_TIMEOUT_BOUNDS,
        )?;
        Ok(Self {
            poll_min,
            poll_max,
            publish_timeout,
            lease,
            stop_timeout,
        })
    }
}

/// A bound that is not given follows the one that is.
fn poll(
    raw: &raw::Outbox,
    layout: &Layout,
    scope: &Scope,
) -> Result<(Duration, Duration), ConfigError> {
    let own = layout.defaults.poll_ms.map(Duration::from_millis);
    let (usual_min, usual_max) = own.map_or((defaults::POLL_MIN, defaults::POLL_MAX), |poll| {
        (poll / 2, poll)
    });
    let bounds = defaults::POLL_BOUNDS;
    let read = |key, value: &Option<String>, default| {
        scope.duration(key, value.as_deref(), default, bounds.clone())
    };
    let poll_min = read("poll_min", &raw.poll_min, usual_min)?;
    let poll_max = read("poll_max", &raw.poll_max, usual_max.max(poll_min))?;
    match (&raw.poll_min, &raw.poll_max) {
        (None, Some(_)) => Ok((poll_min.min(poll_max), poll_max)),
        _ if poll_min > poll_max => {
            let allowed = format!(
                "it must not exceed poll_max ({})",
                humantime::format_duration(poll_max)
            );
            Err(scope.refused("poll_min", humantime::format_duration(poll_min), allowed))
        }
        _ => Ok((poll_min, poll_max)),
    }
}

impl Retry {
    pub(super) fn read(raw: &raw::Retry, scope: &Scope) -> Result<Self, ConfigError> {
        let bounds = defaults::RETRY_BOUNDS;
        let base = scope.duration(
            "base",
            raw.base.as_deref(),
            defaults::RETRY_BASE,
            bounds.clone(),
        )?;
        let cap = scope.duration(
            "cap",
            raw.cap.as_deref(),
            defaults::RETRY_CAP.max(base),
            bounds,
        )?;
        if base > cap {
            let allowed = format!(
                "it must not exceed cap ({})",
                humantime::format_duration(cap)
            );
            return Err(scope.refused("base", humantime::format_duration(base), allowed));
        }
        Ok(Self { base, cap })
    }
}

impl Cleanup {
    pub(super) fn read(
        raw: Option<raw::Cleanup>,
        layout: &Layout,
        outbox: &Scope,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(raw) = raw else { return Ok(None) };
        if layout.state == State::Delete {
            let allowed = "a layout that deletes what it published has nothing to clean up";
            return Err(outbox.refused("cleanup", layout.name.as_str(), allowed));
        }
        let scope = Scope(outbox.0.key("cleanup"));
        let keep = match (&raw.keep, layout.defaults.keep()) {
            (None, None) => {
                let needed = "say how long published records are kept, for example \"30d\"";
                return Err(scope.error(
                    "keep",
                    Problem::Missing {
                        needed: needed.into(),
                    },
                ));
            }
            (given, usual) => scope.duration(
                "keep",
                given.as_deref(),
                usual.unwrap_or_default(),
                defaults::CLEANUP_KEEP_BOUNDS,
            )?,
        };
        let every = scope.duration(
            "every",
            raw.every.as_deref(),
            defaults::CLEANUP_EVERY,
            defaults::CLEANUP_EVERY_BOUNDS,
        )?;
        let bounds = defaults::CLEANUP_BATCH_BOUNDS;
        let batch = scope.number("batch", raw.batch, defaults::CLEANUP_BATCH, bounds)?;
        Ok(Some(Self { keep, every, batch }))
    }
}
