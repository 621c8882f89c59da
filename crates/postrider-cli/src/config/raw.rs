//! The config as it was written. Nothing is required and nothing is checked here but names and types;
//! unknown keys are refused.

use std::collections::BTreeMap;

use postrider::core::envelope::EnvelopeKind;
use postrider::core::layout::{ClaimMode, Identifier, Role, TableName, Template};
use postrider::core::{OnDead, Ordering};
use serde::{Deserialize, Serialize};

use super::secret::Reference;
use super::telemetry::OtlpProtocol;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Raw {
    pub(crate) admin: Admin,
    pub(crate) log: Log,
    pub(crate) telemetry: Telemetry,
    /// Which keys a broker has depends on its kind.
    pub(crate) broker: BTreeMap<String, toml::Table>,
    pub(crate) outbox: Vec<Outbox>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Admin {
    pub(crate) listen: Option<String>,
    pub(crate) token: Option<Reference>,
    pub(crate) tokens: BTreeMap<String, Token>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Token {
    pub(crate) role: Option<super::Role>,
    pub(crate) token: Option<Reference>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    pub(crate) level: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Json,
    Pretty,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Telemetry {
    pub(crate) otlp: Option<String>,
    pub(crate) protocol: OtlpProtocol,
    pub(crate) service: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Outbox {
    pub(crate) name: Option<String>,
    pub(crate) database: Option<Reference>,
    pub(crate) connections: Option<i64>,
    pub(crate) broker: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) on_dead: OnDead,
    pub(crate) max_attempts: Option<i64>,
    pub(crate) count_outages: bool,
    pub(crate) batch: Option<i64>,
    pub(crate) claims: Option<i64>,
    pub(crate) poll_min: Option<String>,
    pub(crate) poll_max: Option<String>,
    pub(crate) publish_timeout: Option<String>,
    pub(crate) lease: Option<String>,
    pub(crate) stop_timeout: Option<String>,
    pub(crate) notify: bool,
    pub(crate) retry: Retry,
    pub(crate) cleanup: Option<Cleanup>,
    pub(crate) route: Vec<Route>,

    pub(crate) layout: Option<String>,
    // What follows replaces parts of the layout.
    pub(crate) table: Option<TableName>,
    pub(crate) claim: Option<ClaimMode>,
    pub(crate) order: Option<Vec<Identifier>>,
    pub(crate) ordering: Option<Ordering>,
    pub(crate) topic: Option<Template>,
    pub(crate) envelope: Option<EnvelopeKind>,
    pub(crate) tombstones: Option<bool>,
    pub(crate) columns: Option<toml::Table>,
    pub(crate) state: Option<toml::Table>,
    pub(crate) attributes: Option<BTreeMap<String, Role>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retry {
    pub(crate) base: Option<String>,
    pub(crate) cap: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cleanup {
    pub(crate) keep: Option<String>,
    pub(crate) every: Option<String>,
    pub(crate) batch: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Route {
    pub(crate) event_type: Option<String>,
    pub(crate) topic: Option<String>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) schema: Option<Schema>,
}

/// A JSON Schema: a file beside the config, or the schema itself.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a path to a JSON Schema, or the schema as a table"
)]
pub(crate) enum Schema {
    File(String),
    Inline(toml::Table),
}
