//! The outbox's settings, in a file that both modes read. Interval and batch size count from the next SIGHUP on, the
//! others from the next start.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use postrider::core::Backoff;
use postrider::relay::{Config, Tempo};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutboxSettings {
    /// Between two looks at an outbox that is empty.
    pub interval_ms: u64,
    /// Records per look.
    pub batch: u32,
    /// A record is tried once and then this often again; after that it is dead.
    pub max_retries: u32,
    /// The wait before the first retry. It doubles with each.
    pub backoff_base_ms: u64,
    pub backoff_cap_ms: u64,
    /// After this time the records of a worker that died are claimed by another.
    pub lease_secs: u64,
    /// A larger message is dead at once: no retry would make it smaller.
    pub message_bytes_max: u32,
    /// How long Kafka's producer may wait for messages that go with one.
    pub linger_ms: u32,
}

impl Default for OutboxSettings {
    fn default() -> Self {
        Self {
            interval_ms: 1_000,
            batch: 100,
            max_retries: 10,
            backoff_base_ms: 1_000,
            backoff_cap_ms: 60_000,
            lease_secs: 60,
            message_bytes_max: 1_000_000,
            linger_ms: 0,
        }
    }
}

impl OutboxSettings {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let settings: Self = toml::from_str(text)?;
        for (key, value, least) in [
            ("interval_ms", settings.interval_ms, 10),
            ("batch", settings.batch.into(), 1),
            ("backoff_base_ms", settings.backoff_base_ms, 1),
            (
                "backoff_cap_ms",
                settings.backoff_cap_ms,
                settings.backoff_base_ms,
            ),
            ("lease_secs", settings.lease_secs, 5),
        ] {
            anyhow::ensure!(
                value >= least,
                "{key} = {value} must be {least} at the least"
            );
        }
        Ok(settings)
    }

    pub fn tempo(&self) -> Tempo {
        let interval = Duration::from_millis(self.interval_ms);
        Tempo {
            batch: self.batch,
            batch_bytes: Config::default().batch_bytes,
            poll_min: interval,
            poll_max: interval,
        }
    }

    /// "Exceeding" the retries is one failure more than there are retries.
    pub fn max_attempts(&self) -> u32 {
        self.max_retries.saturating_add(1)
    }

    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_secs)
    }

    pub fn backoff(&self) -> Backoff {
        let millis = Duration::from_millis;
        Backoff::new(millis(self.backoff_base_ms), millis(self.backoff_cap_ms))
    }
}

/// Where the settings are; without a file all of them have their defaults.
#[derive(Debug, Clone)]
pub struct SettingsFile(pub Option<PathBuf>);

impl SettingsFile {
    pub async fn read(&self) -> anyhow::Result<OutboxSettings> {
        let Some(path) = &self.0 else {
            return Ok(OutboxSettings::default());
        };
        let text = tokio::fs::read_to_string(path).await;
        text.map_err(anyhow::Error::from)
            .and_then(|text| OutboxSettings::parse(&text))
            .with_context(|| format!("settings in {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_its_default_and_nonsense_is_named() {
        assert_eq!(
            OutboxSettings::parse("").unwrap(),
            OutboxSettings::default()
        );
        let set = OutboxSettings::parse("interval_ms = 250\nbatch = 7\nmax_retries = 0").unwrap();
        assert_eq!(set.tempo().batch, 7);
        assert_eq!(set.tempo().poll_max, Duration::from_millis(250));
        assert_eq!(set.max_attempts(), 1);
        for (text, named) in [
            ("interval_ms = 1", "interval_ms = 1"),
            ("batch = 0", "batch = 0"),
            ("backoff_cap_ms = 10", "backoff_cap_ms = 10"),
            ("intervall = 5", "intervall"),
        ] {
            let error = OutboxSettings::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
