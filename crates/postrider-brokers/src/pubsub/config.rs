//! Which project, and where.

use google_cloud_auth::credentials::anonymous;
use google_cloud_pubsub::builder::publisher::BasePublisherBuilder;
use google_cloud_pubsub::builder::{subscriber, subscription_admin, topic_admin};
use google_cloud_pubsub::client::{BasePublisher, Subscriber, SubscriptionAdmin, TopicAdmin};
use serde::{Deserialize, Serialize};

/// How to reach Pub/Sub. Credentials are Google's application default credentials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PubSubConfig {
    /// The project of topics that are given by their id alone.
    pub project: String,
    /// A regional endpoint such as `https://europe-west1-pubsub.googleapis.com`. Default: the emulator at
    /// `PUBSUB_EMULATOR_HOST` if that is set, else Google's global endpoint. Over plain `http://`
    /// no credentials are sent.
    #[serde(default)]
    pub endpoint: Option<String>,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    #[error("project {project:?} is no project id")]
    Project { project: String },
    #[error("endpoint {endpoint:?} must begin with https://, or http:// for an emulator")]
    Endpoint { endpoint: String },
    #[error(
        "{subscription:?} is no Pub/Sub subscription: an id of 3 to 255 letters, digits and -_.~+% that begins \
         with a letter, or projects/PROJECT/subscriptions/ID"
    )]
    Subscription { subscription: String },
    #[error("{key} must be at least {min}, not {value}")]
    TooSmall {
        key: &'static str,
        min: u32,
        value: u32,
    },
    #[error("lease_secs must be from 10 to 600, not {secs}")]
    Lease { secs: u32 },
}

/// Sends a client where the configuration says. The builders of Google's clients have these methods in
/// common, but no trait.
macro_rules! directed {
    ($config:expr, $builder:expr) => {
        match $config.effective_endpoint() {
            Some(endpoint) if endpoint.starts_with("http://") => $builder
                .with_credentials(anonymous::Builder::new().build())
                .with_endpoint(endpoint),
            Some(endpoint) => $builder.with_endpoint(endpoint),
            None => $builder,
        }
    };
}

impl PubSubConfig {
    /// Defaults for everything but the project.
    pub fn new(project: impl Into<String>) -> Self {
        Self {
            project: project.into(),
            endpoint: None,
        }
    }

    pub fn validate(&self) -> Result<(), ConfigError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-.:_".contains(c);
        if self.project.is_empty() || !self.project.chars().all(legal) {
            return Err(ConfigError::Project {
                project: self.project.clone(),
            });
        }
        match &self.endpoint {
            Some(endpoint)
                if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") =>
            {
                Err(ConfigError::Endpoint {
                    endpoint: endpoint.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn publisher(&self) -> BasePublisherBuilder {
        directed!(self, BasePublisher::builder())
    }

    pub(super) fn topic_admin(&self) -> topic_admin::ClientBuilder {
        directed!(self, TopicAdmin::builder())
    }

    pub(super) fn subscriber(&self) -> subscriber::ClientBuilder {
        directed!(self, Subscriber::builder())
    }

    pub(super) fn subscription_admin(&self) -> subscription_admin::ClientBuilder {
        directed!(self, SubscriptionAdmin::builder())
    }

    fn effective_endpoint(&self) -> Option<String> {
        let emulator = || {
            std::env::var("PUBSUB_EMULATOR_HOST")
                .ok()
                .filter(|host| !host.is_empty())
        };
        self.endpoint
            .clone()
            .or_else(|| emulator().map(|host| format!("http://{host}")))
    }
}
