//! One `[[outbox]]`, checked: a table, a broker and how to work.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider::core::{Layout, LayoutError, OnDead, Routes};
use serde::Serialize;

use super::error::{ConfigError, Problem};
use super::route::{self, ShownRoute};
use super::scope::Scope;
use super::secret::{DatabaseUrl, Sources};
use super::timing::{Cleanup, Retry, Timing};
use super::{Broker, defaults, raw, show};

#[derive(Debug, Serialize)]
pub(crate) struct Outbox {
    pub(crate) name: String,
    pub(crate) database: DatabaseUrl,
    pub(crate) connections: u32,
    pub(crate) broker: String,
    pub(crate) source: Option<String>,
    pub(crate) on_dead: OnDead,
    pub(crate) max_attempts: u32,
    pub(crate) count_outages: bool,
    pub(crate) batch: u32,
    pub(crate) batch_bytes: u32,
    pub(crate) claims: u32,
    #[serde(serialize_with = "show::duration")]
    pub(crate) poll_min: Duration,
    #[serde(serialize_with = "show::duration")]
    pub(crate) poll_max: Duration,
    #[serde(serialize_with = "show::duration")]
    pub(crate) publish_timeout: Duration,
    #[serde(serialize_with = "show::duration")]
    pub(crate) lease: Duration,
    #[serde(serialize_with = "show::duration")]
    pub(crate) stop_timeout: Duration,
    pub(crate) notify: bool,
    pub(crate) order_is_drawn: bool,
    #[serde(flatten, serialize_with = "show::layout")]
    pub(crate) layout: Layout,
    pub(crate) retry: Retry,
    pub(crate) cleanup: Option<Cleanup>,
    #[serde(rename = "route", skip_serializing_if = "Vec::is_empty")]
    shown_routes: Vec<ShownRoute>,
    #[serde(skip)]
    pub(crate) routes: Routes,
}

impl Outbox {
    pub(super) fn read(
        name: String,
        mut raw: raw::Outbox,
        scope: &Scope,
        brokers: &BTreeMap<String, Broker>,
        sources: &Sources,
    ) -> Result<Self, ConfigError> {
        let database = database(raw.database.take(), scope, sources)?;
        let broker = broker(raw.broker.take(), scope, brokers)?;
        let layout = layout(&mut raw, scope)?;
        let claims = scope.number(
            "claims",
            raw.claims,
            defaults::CLAIMS,
            defaults::CLAIMS_BOUNDS,
        )?;
        let timing = Timing::read(&raw, &layout, scope)?;
        let max_attempts = layout
            .defaults
            .max_attempts
            .unwrap_or(defaults::MAX_ATTEMPTS);
        let batch = layout.defaults.batch.unwrap_or(defaults::BATCH);
        let (routes, shown_routes) = route::read(std::mem::take(&mut raw.route), scope, sources)?;
        Ok(Self {
            name,
            database,
            connections: connections(raw.connections, claims, scope)?,
            broker,
            source: scope.text("source", raw.source)?,
            on_dead: raw.on_dead,
            max_attempts: scope.number(
                "max_attempts",
                raw.max_attempts,
                max_attempts,
                defaults::MAX_ATTEMPTS_BOUNDS,
            )?,
            count_outages: raw.count_outages,
            batch: scope.number("batch", raw.batch, batch, defaults::BATCH_BOUNDS)?,
            batch_bytes: scope.number(
                "batch_bytes",
                raw.batch_bytes,
                defaults::BATCH_BYTES,
                defaults::BATCH_BYTES_BOUNDS,
            )?,
            claims,
            poll_min: timing.poll_min,
            poll_max: timing.poll_max,
            publish_timeout: timing.publish_timeout,
            lease: timing.lease,
            stop_timeout: timing.stop_timeout,
            notify: raw.notify,
            order_is_drawn: raw.order_is_drawn,
            retry: Retry::read(&raw.retry, &Scope(scope.0.key("retry")))?,
            cleanup: Cleanup::read(raw.cleanup, &layout, scope)?,
            layout,
            shown_routes,
            routes,
        })
    }
}

fn database(
    raw: Option<super::Reference>,
    scope: &Scope,
    sources: &Sources,
) -> Result<DatabaseUrl, ConfigError> {
    let needed =
        "give postgres://user@host/name, sqlite:path/to/file.db, `env:NAME` or `file:/path`";
    scope
        .required("database", raw, needed)?
        .resolve(sources)
        .and_then(DatabaseUrl::new)
        .map_err(|error| scope.error("database", Problem::Secret(error)))
}

fn broker(
    raw: Option<String>,
    scope: &Scope,
    brokers: &BTreeMap<String, Broker>,
) -> Result<String, ConfigError> {
    let known: Vec<&str> = brokers.keys().map(String::as_str).collect();
    let allowed = match known.as_slice() {
        [] => "there is no broker; add a table such as [broker.main]".into(),
        known => format!("the brokers are {}", known.join(", ")),
    };
    let broker = scope.required("broker", raw, allowed.as_str())?;
    match brokers.contains_key(&broker) {
        true => Ok(broker),
        false => Err(scope.refused("broker", broker, allowed)),
    }
}

/// The preset with the outbox's own keys over it.
fn layout(raw: &mut raw::Outbox, scope: &Scope) -> Result<Layout, ConfigError> {
    let presets = postrider::core::layout::PRESETS.join(", ");
    let needed = format!("it is one of {presets}, or custom");
    let name = scope.required("layout", raw.layout.take(), needed)?;
    let mut overrides = toml::Table::new();
    let mut put = |key: &str, value: Option<toml::Value>| {
        if let Some(value) = value {
            overrides.insert(key.into(), value);
        }
    };
    put("table", text(raw.table.take()));
    put("claim", text(raw.claim));
    put("order", text(raw.order.take()));
    put("ordering", text(raw.ordering));
    put("topic", text(raw.topic.take()));
    put("envelope", text(raw.envelope));
    put("tombstones", raw.tombstones.map(Into::into));
    put("attributes", text(raw.attributes.take()));
    put("columns", raw.columns.take().map(Into::into));
    put("state", raw.state.take().map(Into::into));
    Layout::with_overrides(&name, overrides).map_err(|error| {
        let key = match &error {
            LayoutError::Unknown { .. } => scope.0.key("layout"),
            LayoutError::Malformed { source, .. } => scope.0.within(source),
            _ => scope.0.clone(),
        };
        ConfigError::new(key, Problem::Layout(error))
    })
}

/// Core's own types, back as the TOML they were read from.
fn text(value: Option<impl Serialize>) -> Option<toml::Value> {
    value.and_then(|value| toml::Value::try_from(value).ok())
}

fn connections(raw: Option<i64>, claims: u32, scope: &Scope) -> Result<u32, ConfigError> {
    let default = claims + defaults::CONNECTIONS_BESIDE_CLAIMS;
    let connections = scope.number("connections", raw, default, 1..=defaults::CONNECTIONS_MAX)?;
    if connections <= claims {
        let allowed = format!("it must be greater than claims ({claims}), each of which holds one");
        return Err(scope.refused("connections", connections, allowed));
    }
    Ok(connections)
}
