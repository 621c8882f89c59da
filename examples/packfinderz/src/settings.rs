//! The programs' settings, all of them from the environment. An empty variable is one that is not set.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use postrider::stores::redis::{TtlError, ttl_from_env};

pub const BATCH_SIZE: &str = "PACKFINDERZ_OUTBOX_PUBLISH_BATCH_SIZE";
pub const POLL_MS: &str = "PACKFINDERZ_OUTBOX_PUBLISH_POLL_MS";
pub const MAX_ATTEMPTS: &str = "PACKFINDERZ_OUTBOX_MAX_ATTEMPTS";
pub const DOMAIN_TOPIC: &str = "PACKFINDERZ_PUBSUB_DOMAIN_TOPIC";
pub const DOMAIN_SUBSCRIPTION: &str = "PACKFINDERZ_PUBSUB_DOMAIN_SUBSCRIPTION";
pub const PROJECT: &str = "PACKFINDERZ_PUBSUB_PROJECT";
pub const DATABASE_URL: &str = "PACKFINDERZ_DATABASE_URL";
pub const REDIS_URL: &str = "PACKFINDERZ_REDIS_URL";
pub const API_LISTEN: &str = "PACKFINDERZ_API_LISTEN";
pub const HEALTH_LISTEN: &str = "PACKFINDERZ_HEALTH_LISTEN";

const DEFAULT_BATCH_SIZE: u32 = 50;
const DEFAULT_POLL_MS: u64 = 500;
const DEFAULT_MAX_ATTEMPTS: u32 = 25;
const DEFAULT_DOMAIN_TOPIC: &str = "pf-domain-events";
const DEFAULT_API_LISTEN: &str = "127.0.0.1:8080";
const DEFAULT_PUBLISHER_LISTEN: &str = "127.0.0.1:8081";
const DEFAULT_CONSUMER_LISTEN: &str = "127.0.0.1:8082";

const BATCH_SIZES: RangeInclusive<u32> = 1..=10_000;
const POLLS_MS: RangeInclusive<u64> = 10..=3_600_000;
const ATTEMPTS: RangeInclusive<u32> = 1..=10_000;

/// Where a variable's value comes from.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a program does not start. Values of URLs, which hold passwords, are not shown.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    #[error("please set {name}")]
    Missing { name: &'static str },
    #[error("{name} is {value:?}; allowed is {allowed}")]
    Refused {
        name: &'static str,
        value: String,
        allowed: String,
    },
    #[error(transparent)]
    Ttl(#[from] TtlError),
}

/// `outbox-publisher`.
pub struct Publisher {
    pub database_url: String,
    pub project: String,
    pub domain_topic: String,
    /// Rows claimed per poll.
    pub batch_size: u32,
    /// Base sleep between polls that find nothing.
    pub poll: Duration,
    /// Rows that failed so often are skipped.
    pub max_attempts: u32,
    pub health_listen: SocketAddr,
}

/// `compliance-consumer`.
pub struct Consumer {
    pub database_url: String,
    pub redis_url: String,
    pub project: String,
    pub domain_subscription: String,
    /// How long a processed event is remembered.
    pub idempotency_ttl: Duration,
    pub health_listen: SocketAddr,
}

/// `outbox-cleanup`.
pub struct Cleanup {
    pub database_url: String,
}

/// `api`.
pub struct Api {
    pub database_url: String,
    pub domain_topic: String,
    pub listen: SocketAddr,
}

impl Publisher {
    pub fn read(variables: Variables<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            database_url: needed(variables, DATABASE_URL)?,
            project: needed(variables, PROJECT)?,
            domain_topic: domain_topic(variables),
            batch_size: number(variables, BATCH_SIZE, DEFAULT_BATCH_SIZE, BATCH_SIZES)?,
            poll: Duration::from_millis(number(variables, POLL_MS, DEFAULT_POLL_MS, POLLS_MS)?),
            max_attempts: number(variables, MAX_ATTEMPTS, DEFAULT_MAX_ATTEMPTS, ATTEMPTS)?,
            health_listen: address(variables, HEALTH_LISTEN, DEFAULT_PUBLISHER_LISTEN)?,
        })
    }
}

impl Consumer {
    pub fn read(variables: Variables<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            database_url: needed(variables, DATABASE_URL)?,
            redis_url: needed(variables, REDIS_URL)?,
            project: needed(variables, PROJECT)?,
            domain_subscription: needed(variables, DOMAIN_SUBSCRIPTION)?,
            idempotency_ttl: ttl_from_env(variables)?,
            health_listen: address(variables, HEALTH_LISTEN, DEFAULT_CONSUMER_LISTEN)?,
        })
    }
}

impl Cleanup {
    pub fn read(variables: Variables<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            database_url: needed(variables, DATABASE_URL)?,
        })
    }
}

impl Api {
    pub fn read(variables: Variables<'_>) -> Result<Self, SettingError> {
        Ok(Self {
            database_url: needed(variables, DATABASE_URL)?,
            domain_topic: domain_topic(variables),
            listen: address(variables, API_LISTEN, DEFAULT_API_LISTEN)?,
        })
    }
}

fn set(variables: Variables<'_>, name: &str) -> Option<String> {
    variables(name).filter(|value| !value.is_empty())
}

/// A setting without a default.
pub fn needed(variables: Variables<'_>, name: &'static str) -> Result<String, SettingError> {
    set(variables, name).ok_or(SettingError::Missing { name })
}

fn domain_topic(variables: Variables<'_>) -> String {
    set(variables, DOMAIN_TOPIC).unwrap_or_else(|| DEFAULT_DOMAIN_TOPIC.to_owned())
}

fn number<T>(
    variables: Variables<'_>,
    name: &'static str,
    default: T,
    allowed: RangeInclusive<T>,
) -> Result<T, SettingError>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    let Some(value) = set(variables, name) else {
        return Ok(default);
    };
    let number = value.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| SettingError::Refused {
        name,
        value,
        allowed: format!(
            "a whole number from {} to {}",
            allowed.start(),
            allowed.end()
        ),
    })
}

fn address(
    variables: Variables<'_>,
    name: &'static str,
    default: &str,
) -> Result<SocketAddr, SettingError> {
    let value = set(variables, name).unwrap_or_else(|| default.to_owned());
    value.parse().map_err(|_| SettingError::Refused {
        name,
        value,
        allowed: "an address and a port, such as 127.0.0.1:8081".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publisher(set: &[(&str, &str)]) -> Result<Publisher, SettingError> {
        Publisher::read(&|name| {
            let needed = [(DATABASE_URL, "postgres://db/pf"), (PROJECT, "pf")];
            let mut all = set.iter().chain(&needed);
            all.find(|(set, _)| *set == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    /// A1-05: with the variables unset, or empty, the defaults apply.
    #[test]
    fn what_is_not_set_has_its_default() {
        for set in [
            &[][..],
            &[(BATCH_SIZE, ""), (POLL_MS, ""), (DOMAIN_TOPIC, "")],
        ] {
            let settings = publisher(set).unwrap();
            assert_eq!(settings.batch_size, 50);
            assert_eq!(settings.poll, Duration::from_millis(500));
            assert_eq!(settings.max_attempts, 25);
            assert_eq!(settings.domain_topic, "pf-domain-events");
        }
    }

    #[test]
    fn a_value_that_cannot_work_is_refused_by_name() {
        for (variable, value) in [
            (BATCH_SIZE, "0"),
            (BATCH_SIZE, "fifty"),
            (POLL_MS, "-1"),
            (POLL_MS, "500ms"),
            (MAX_ATTEMPTS, "0"),
            (HEALTH_LISTEN, "8081"),
        ] {
            match publisher(&[(variable, value)]) {
                Err(SettingError::Refused {
                    name, value: shown, ..
                }) => {
                    assert_eq!((name, &*shown), (variable, value));
                }
                _ => panic!("{variable}={value} is taken"),
            }
        }
    }

    #[test]
    fn what_has_no_default_is_asked_for() {
        let missing =
            Consumer::read(&|name| (name != DOMAIN_SUBSCRIPTION).then(|| "set".to_owned()));
        assert!(matches!(
            missing,
            Err(SettingError::Missing {
                name: DOMAIN_SUBSCRIPTION
            })
        ));
    }
}
