//! The registry of event types, which is the data in `registry.toml`. Nothing else says where an
//! event goes or what it must look like. The file is made from the catalogue by `make
//! packfinderz-registry`, and so are the routes of `relay.toml`.

use std::collections::BTreeMap;

use anyhow::Context as _;
use postrider::core::{Route, Routes};
use serde::{Deserialize, Serialize};

use crate::catalogue::EventType;

const SOURCE: &str = include_str!("../registry.toml");
/// Stands for the domain topic.
const DOMAIN: &str = "{domain}";
const HEADING: &str = "\
# Every event type of PackFinderz: whose aggregate it is about, which topic it goes to, and a JSON Schema of its payload.
# `{domain}` stands for PACKFINDERZ_PUBSUB_DOMAIN_TOPIC. What is not here, or does not fit, is never published: its row is
# dead at once, with the reason in last_error. Made from src/catalogue.rs by `make packfinderz-registry`; a test compares.

";

/// Event types by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Registry(BTreeMap<String, Entry>);

/// What is known of one event type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub aggregate_type: String,
    pub topic: String,
    /// What its payload must fit.
    pub schema: serde_json::Value,
}

/// The part of `postrider relay`'s config that is made here.
#[derive(Serialize)]
struct RelayConfig<'a> {
    outbox: [RelayOutbox<'a>; 1],
}

#[derive(Serialize)]
struct RelayOutbox<'a> {
    route: Vec<RelayRoute<'a>>,
}

#[derive(Serialize)]
struct RelayRoute<'a> {
    event_type: &'a str,
    aggregate_type: &'a str,
    schema: &'a serde_json::Value,
}

impl Registry {
    pub fn load() -> anyhow::Result<Self> {
        toml::from_str(SOURCE).context("registry.toml cannot be read")
    }

    /// As the catalogue has it. All of PackFinderz' events share one topic, and are told apart by an attribute.
    pub fn of_catalogue() -> Self {
        let entry = |event_type: &EventType| Entry {
            aggregate_type: event_type.aggregate_type().label().to_owned(),
            topic: DOMAIN.to_owned(),
            schema: event_type.schema(),
        };
        let all = EventType::ALL.iter();
        Self(all.map(|of| (of.label().to_owned(), entry(of))).collect())
    }

    /// The text of `registry.toml`.
    pub fn to_toml(&self) -> anyhow::Result<String> {
        Ok(HEADING.to_owned() + &toml::to_string(self)?)
    }

    /// The same as the routes at the end of `relay.toml`, which go to the topic of its outbox.
    pub fn to_routes(&self) -> anyhow::Result<String> {
        let mut route = Vec::new();
        for (event_type, of) in self.entries() {
            let (aggregate_type, schema) = (&*of.aggregate_type, &of.schema);
            route.push(RelayRoute {
                event_type,
                aggregate_type,
                schema,
            });
        }
        let outbox = [RelayOutbox { route }];
        let text = toml::to_string(&RelayConfig { outbox })?;
        let routes = text.strip_prefix("[[outbox]]").context("no outbox")?;
        Ok(routes.trim_start().to_owned())
    }

    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(name, of)| (name.as_str(), of))
    }

    /// What the publisher, and whoever emits, checks by.
    pub fn routes(&self, domain_topic: &str) -> anyhow::Result<Routes> {
        let mut routes = Routes::new();
        for (name, of) in self.entries() {
            let route = Route::new()
                .topic(of.topic.replace(DOMAIN, domain_topic))
                .aggregate_type(&of.aggregate_type)
                .schema(&of.schema)
                .with_context(|| format!("registry.toml: {name}"))?;
            routes = routes.with(name, route);
        }
        Ok(routes)
    }
}
