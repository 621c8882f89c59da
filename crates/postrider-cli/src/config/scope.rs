//! Reading values of one table, so that every error knows its key.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::{ConfigError, KeyPath, Problem};

pub(super) struct Scope(pub(super) KeyPath);

impl Scope {
    pub(super) fn error(&self, key: &str, problem: Problem) -> ConfigError {
        ConfigError::new(self.0.key(key), problem)
    }

    pub(super) fn refused(
        &self,
        key: &str,
        value: impl Display,
        allowed: impl Into<String>,
    ) -> ConfigError {
        self.error(key, Problem::not_allowed(value, allowed))
    }

    pub(super) fn required<T>(
        &self,
        key: &str,
        value: Option<T>,
        needed: impl Into<String>,
    ) -> Result<T, ConfigError> {
        let needed = needed.into();
        value.ok_or_else(|| self.error(key, Problem::Missing { needed }))
    }

    /// Text that says something, or nothing at all.
    pub(super) fn text(
        &self,
        key: &str,
        value: Option<String>,
    ) -> Result<Option<String>, ConfigError> {
        match value {
            Some(text) if text.trim().is_empty() => {
                Err(self.refused(key, text, "it must not be empty"))
            }
            value => Ok(value),
        }
    }

    pub(super) fn number(
        &self,
        key: &str,
        value: Option<i64>,
        default: u32,
        bounds: RangeInclusive<u32>,
    ) -> Result<u32, ConfigError> {
        let Some(value) = value else {
            return Ok(default);
        };
        u32::try_from(value)
            .ok()
            .filter(|value| bounds.contains(value))
            .ok_or_else(|| {
                let allowed = format!("{} to {} is", bounds.start(), bounds.end());
                self.refused(key, value, allowed)
            })
    }

    pub(super) fn duration(
        &self,
        key: &str,
        value: Option<&str>,
        default: Duration,
        bounds: RangeInclusive<Duration>,
    ) -> Result<Duration, ConfigError> {
        let Some(text) = value else {
            return Ok(default);
        };
        let shown = |duration: &Duration| humantime::format_duration(*duration).to_string();
        humantime::parse_duration(text)
            .ok()
            .filter(|duration| bounds.contains(duration))
            .ok_or_else(|| {
                let (min, max) = (shown(bounds.start()), shown(bounds.end()));
                let allowed = format!(
                    "a duration from {min} to {max} is, for example \"500ms\", \"30s\" or \"2h\""
                );
                self.refused(key, text, allowed)
            })
    }
}
