//! Google Cloud Pub/Sub, over Google's own client. Messages with order use their key as ordering key; the
//! subscription must have ordering enabled, and order holds within one region.

mod check;
mod config;
mod error;
mod publisher;
mod runtime;
mod session;
mod strand;
mod subscription;

pub use config::{ConfigError, PubSubConfig};
pub use publisher::PubSubPublisher;
pub use subscription::{PubSubSubscription, PubSubSubscriptionConfig};
