//! What a service is told by its environment.

use std::net::SocketAddr;

use anyhow::Context as _;

const LISTEN: &str = "127.0.0.1:8080";

/// The settings that all services have. In every language they have the same names.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `DATABASE_URL`: where this service's own tables are, its schema first on the search path.
    pub database_url: String,
    /// `KAFKA_BOOTSTRAP`: `host:port` of some brokers.
    pub kafka: String,
    /// `TOPIC_PREFIX`: stands before every topic and group, for several shops on one cluster. Default none.
    pub prefix: String,
    /// `LISTEN`: where requests are answered. Default 127.0.0.1:8080.
    pub listen: SocketAddr,
}

impl Settings {
    pub fn from_environment() -> anyhow::Result<Self> {
        Ok(Self {
            database_url: required("DATABASE_URL")?,
            kafka: required("KAFKA_BOOTSTRAP")?,
            prefix: optional("TOPIC_PREFIX").unwrap_or_default(),
            listen: listen()?,
        })
    }

    /// Where events of a type go: the topic has the type's name.
    pub fn topic(&self, event_type: &str) -> String {
        format!("{}{event_type}", self.prefix)
    }
}

/// `LISTEN`.
pub fn listen() -> anyhow::Result<SocketAddr> {
    let listen = optional("LISTEN").unwrap_or_else(|| LISTEN.into());
    let parsed = listen.parse();
    parsed.with_context(|| format!("LISTEN is {listen}; please set it to an IP address and a port"))
}

fn required(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("please set {name}"))
}

/// A variable that is set to nothing is not set.
pub fn optional(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
