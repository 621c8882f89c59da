//! What the binary is told to do: one TOML file with the environment over it, checked once, at
//! start. What is written is in [`raw`]; what comes out here is ready to be used and has no gaps.

mod admin;
mod broker;
mod defaults;
mod document;
mod error;
mod load;
mod outbox;
mod overlay;
mod raw;
mod route;
mod scope;
mod secret;
mod show;
mod telemetry;
#[cfg(test)]
mod tests;
mod timing;
mod validate;

use std::collections::BTreeMap;

use serde::Serialize;

pub(crate) use admin::{Admin, Role, Token};
pub(crate) use broker::{Broker, BrokerOptions};
pub(crate) use defaults::{CONFIG_FILE, TOKEN_BYTES_MAX};
pub(crate) use error::ConfigError;
pub(crate) use outbox::Outbox;
pub(crate) use raw::LogFormat;
pub(crate) use secret::{DatabaseKind, DatabaseUrl, Environment, Reference, Sources};
pub(crate) use telemetry::Telemetry;
pub(crate) use timing::Cleanup;

/// The whole config, checked.
#[derive(Debug, Serialize)]
pub(crate) struct Config {
    pub(crate) admin: Admin,
    pub(crate) log: Log,
    pub(crate) telemetry: Telemetry,
    #[serde(rename = "broker")]
    pub(crate) brokers: BTreeMap<String, Broker>,
    #[serde(rename = "outbox")]
    pub(crate) outboxes: Vec<Outbox>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    /// Directives as in `RUST_LOG`: `info`, or `warn,postrider=debug`.
    pub(crate) level: String,
}
