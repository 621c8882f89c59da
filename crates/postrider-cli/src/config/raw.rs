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
    /// Where `/livez`, `/readyz`, `/metrics`, the API and the dashboard are. An address that others can reach needs a
    /// token.
    pub(crate) listen: Option<String>,
    /// Short for one token with the role `operate`, called `token`.
    pub(crate) token: Option<Reference>,
    /// Who may do what, by name; see below. Where there is a token, everything but `/livez` and the dashboard's own files
    /// needs one.
    pub(crate) tokens: BTreeMap<String, Token>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Token {
    /// `view` may ask for everything but payloads, also for `/readyz` and `/metrics`. `operate` may change things too, and
    /// read payloads.
    pub(crate) role: Option<super::Role>,
    /// 16 to 256 characters without spaces, and no two tokens the same.
    pub(crate) token: Option<Reference>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// `json` is a line per event for machines, `pretty` is for people.
    pub(crate) format: LogFormat,
    /// As in `RUST_LOG`. `info,postrider=debug` also logs every published event.
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
    /// A collector. Without one no spans are sent.
    pub(crate) otlp: Option<String>,
    /// `http` is protobuf to `/v1/traces`, port 4318 by custom.
    pub(crate) protocol: OtlpProtocol,
    /// Who the spans are from.
    pub(crate) service: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Outbox {
    /// What it is called in logs, metrics, commands and variables.
    pub(crate) name: Option<String>,
    /// Where the table is: `postgres://user:password@host:5432/name` or `sqlite:path/to/file.db`.
    pub(crate) database: Option<Reference>,
    /// At most so many to the database; more than `claims`. Default: `claims` + 4.
    pub(crate) connections: Option<i64>,
    /// The name of a `[broker.<name>]`.
    pub(crate) broker: Option<String>,
    /// Stands in envelopes that have a source.
    pub(crate) source: Option<String>,
    /// `park`: a dead record holds the later ones of its key until it is resent or discarded. `skip`: they go on.
    pub(crate) on_dead: OnDead,
    /// A record that failed so often is dead. The layout's own default comes first.
    pub(crate) max_attempts: Option<i64>,
    /// Whether an outage of the broker uses up attempts.
    pub(crate) count_outages: bool,
    /// Most records per claim. The layout's own default comes first.
    pub(crate) batch: Option<i64>,
    /// Most bytes of records that the claims of a relay hold together. A larger record is claimed alone; sending takes about five times
    /// as much memory.
    pub(crate) batch_bytes: Option<i64>,
    /// How many claims overlap at most: one while it keeps up alone.
    pub(crate) claims: Option<i64>,
    /// The wait after a claim that found nothing: a quarter of the idle time, at least this. The layout's own default comes first.
    pub(crate) poll_min: Option<String>,
    /// The same, at most; up to 40 times as long as a look takes where that is more, but no more than 30 s. The layout's own default
    /// comes first.
    pub(crate) poll_max: Option<String>,
    /// How long the broker has to take a batch.
    pub(crate) publish_timeout: Option<String>,
    /// How long a claim is safe in lease mode; at least 5 s longer than `publish_timeout`.
    pub(crate) lease: Option<String>,
    /// How long what is in flight has when the relay is stopped.
    pub(crate) stop_timeout: Option<String>,
    /// Whether to listen for the trigger that `postrider init --notify` makes.
    pub(crate) notify: bool,
    /// Whether every writer leaves the order column (`created_at` or the id) to the database or to our library. Then claims
    /// in order begin above what is settled or stuck: neither a transaction that is open elsewhere nor records that are
    /// dead or wait slow them down. If a writer brings an older value all the same, a later event of its key may
    /// overtake it.
    pub(crate) order_is_drawn: bool,
    /// The wait between two tries of a record: a table, see below.
    pub(crate) retry: Retry,
    /// A table, see below. Without it nothing is deleted.
    pub(crate) cleanup: Option<Cleanup>,
    /// A list of tables, see below. Without any, every event is sent.
    pub(crate) route: Vec<Route>,

    /// How the table maps to records: a preset by name, or `custom`. See [layouts](layouts.md).
    pub(crate) layout: Option<String>,
    // What follows replaces parts of the layout.
    /// Replaces the layout's, with or without a schema.
    pub(crate) table: Option<TableName>,
    /// Replaces the layout's way to hold records.
    pub(crate) claim: Option<ClaimMode>,
    /// Replaces the layout's columns that put records in order. The last one must be unique.
    pub(crate) order: Option<Vec<Identifier>>,
    /// `key`: a later record of a key never overtakes an earlier one. `none`: no order.
    pub(crate) ordering: Option<Ordering>,
    /// Where messages go: text with `{role}` in it, for example `shop.{event_type}`.
    pub(crate) topic: Option<Template>,
    /// What is built around the payload; `none` sends it as it is stored.
    pub(crate) envelope: Option<EnvelopeKind>,
    /// Whether a NULL payload is published as a tombstone. Otherwise it is a permanent failure.
    pub(crate) tombstones: Option<bool>,
    /// Replaces single columns of the layout: a table, see below.
    pub(crate) columns: Option<toml::Table>,
    /// Replaces how the layout writes a record's state: a table, see [layouts](layouts.md).
    pub(crate) state: Option<toml::Table>,
    /// Header or attribute name → the role whose value it carries.
    pub(crate) attributes: Option<BTreeMap<String, Role>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retry {
    /// After the first failure; doubled with each further one, with jitter.
    pub(crate) base: Option<String>,
    /// At most.
    pub(crate) cap: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cleanup {
    /// How long published records stay. The layout's own default comes first.
    pub(crate) keep: Option<String>,
    /// How often is looked.
    pub(crate) every: Option<String>,
    /// Most records per statement, each in a transaction of its own.
    pub(crate) batch: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Route {
    /// The events that the route is for. With any route, a record of a type that has none is dead at once.
    pub(crate) event_type: Option<String>,
    /// Where they go, in place of the layout's topic.
    pub(crate) topic: Option<String>,
    /// What their aggregate type must be.
    pub(crate) aggregate_type: Option<String>,
    /// What their payload must fit: a path, relative to the config file, or the JSON Schema as a table.
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
