//! Which subscription, and how much of it at a time.

use std::ops::RangeInclusive;
use std::time::Duration;

use postrider_core::Ordering;
use serde::{Deserialize, Serialize};

use crate::pubsub::config::{ConfigError, PubSubConfig};
use crate::queue::{BYTES_MAX, COUNT_MAX};

/// How to consume a subscription. It must exist: Postrider creates none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PubSubSubscriptionConfig {
    /// The project of a subscription that is given by its id alone.
    pub project: String,
    /// An id, or `projects/PROJECT/subscriptions/ID`.
    pub subscription: String,
    /// As [`PubSubConfig::endpoint`].
    #[serde(default)]
    pub endpoint: Option<String>,
    /// Whether messages with the same ordering key are handled one after the other, for which the
    /// subscription must have message ordering enabled. Default `key`.
    #[serde(default = "default_ordering")]
    pub ordering: Ordering,
    /// How many messages are fetched and not settled. Default 1,000.
    #[serde(default = "default_in_flight_max")]
    pub in_flight_max: u32,
    /// How many bytes of them. A larger message comes alone. Default 32 MiB.
    #[serde(default = "default_in_flight_bytes_max")]
    pub in_flight_bytes_max: u32,
    /// For how long a lease is taken and taken again, from 10 to 600. It is how long messages stay with a
    /// process that died. Default 60.
    #[serde(default = "default_lease_secs")]
    pub lease_secs: u32,
    /// How long one message is kept from others, waiting and handling together, before its lease is let
    /// go. Default 3,600.
    #[serde(default = "default_lease_max_secs")]
    pub lease_max_secs: u32,
}

const LEASES_SECS: RangeInclusive<u32> = 10..=600;
const ID_LENGTHS: RangeInclusive<usize> = 3..=255;

fn default_ordering() -> Ordering {
    Ordering::Key
}

fn default_in_flight_max() -> u32 {
    COUNT_MAX as u32
}

fn default_in_flight_bytes_max() -> u32 {
    BYTES_MAX as u32
}

fn default_lease_secs() -> u32 {
    60
}

fn default_lease_max_secs() -> u32 {
    60 * 60
}

impl PubSubSubscriptionConfig {
    /// Defaults for everything but the name.
    pub fn new(project: impl Into<String>, subscription: impl Into<String>) -> Self {
        Self {
            project: project.into(),
            subscription: subscription.into(),
            endpoint: None,
            ordering: default_ordering(),
            in_flight_max: default_in_flight_max(),
            in_flight_bytes_max: default_in_flight_bytes_max(),
            lease_secs: default_lease_secs(),
            lease_max_secs: default_lease_max_secs(),
        }
    }

    pub fn validate(&self) -> Result<(), ConfigError> {
        self.connection().validate()?;
        let at_least = |key, min, value| {
            if value < min {
                return Err(ConfigError::TooSmall { key, min, value });
            }
            Ok(())
        };
        at_least("in_flight_max", 1, self.in_flight_max)?;
        at_least("in_flight_bytes_max", 1, self.in_flight_bytes_max)?;
        at_least("lease_max_secs", self.lease_secs, self.lease_max_secs)?;
        if !LEASES_SECS.contains(&self.lease_secs) {
            return Err(ConfigError::Lease {
                secs: self.lease_secs,
            });
        }
        self.id().map(|_| ())
    }

    pub(super) fn connection(&self) -> PubSubConfig {
        PubSubConfig {
            project: self.project.clone(),
            endpoint: self.endpoint.clone(),
        }
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_secs.into())
    }

    pub(super) fn lease_max(&self) -> Duration {
        Duration::from_secs(self.lease_max_secs.into())
    }

    /// The last part of the name.
    pub(super) fn id(&self) -> Result<&str, ConfigError> {
        let name = &*self.subscription;
        let id = match name.strip_prefix("projects/") {
            Some(rest) => match rest.split_once("/subscriptions/") {
                Some((project, id)) if !project.is_empty() && !project.contains('/') => id,
                _ => "",
            },
            None => name,
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.~+%".contains(c);
        let begins_well = id.starts_with(|c: char| c.is_ascii_alphabetic());
        if begins_well && ID_LENGTHS.contains(&id.len()) && id.chars().all(legal) {
            Ok(id)
        } else {
            Err(ConfigError::Subscription {
                subscription: self.subscription.clone(),
            })
        }
    }

    pub(super) fn full_name(&self) -> String {
        if self.subscription.starts_with("projects/") {
            return self.subscription.clone();
        }
        let (project, id) = (&self.project, &self.subscription);
        format!("projects/{project}/subscriptions/{id}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(subscription: &str) -> PubSubSubscriptionConfig {
        PubSubSubscriptionConfig::new("p", subscription)
    }

    #[test]
    fn a_subscription_is_an_id_or_a_full_name() {
        assert_eq!(
            named("orders").full_name(),
            "projects/p/subscriptions/orders"
        );
        let full = named("projects/other/subscriptions/orders");
        full.validate().unwrap();
        assert_eq!(full.full_name(), "projects/other/subscriptions/orders");
        assert_eq!(full.id().unwrap(), "orders");
        for bad in [
            "",
            "ab",
            "1abc",
            "a b c",
            "projects/p/orders",
            "projects//subscriptions/abc",
        ] {
            let refused = named(bad).validate();
            assert!(
                matches!(refused, Err(ConfigError::Subscription { .. })),
                "{bad:?}: {refused:?}"
            );
        }
    }

    #[test]
    fn bounds_and_leases_that_cannot_work_are_refused() {
        let bad = [
            PubSubSubscriptionConfig {
                in_flight_max: 0,
                ..named("orders")
            },
            PubSubSubscriptionConfig {
                in_flight_bytes_max: 0,
                ..named("orders")
            },
            PubSubSubscriptionConfig {
                lease_secs: 9,
                ..named("orders")
            },
            PubSubSubscriptionConfig {
                lease_secs: 601,
                ..named("orders")
            },
            PubSubSubscriptionConfig {
                lease_max_secs: 59,
                ..named("orders")
            },
        ];
        for config in bad {
            config.validate().unwrap_err();
        }
        named("orders").validate().unwrap();
    }
}
