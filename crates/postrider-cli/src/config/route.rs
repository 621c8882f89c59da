//! `[[outbox.route]]`: the registry of event types, as data.

use std::collections::HashSet;

use postrider::core::{Route, Routes};
use serde::Serialize;

use super::error::{ConfigError, Problem};
use super::raw::{self, Schema};
use super::scope::Scope;
use super::secret::Sources;

/// A route as it is shown. What it does is in [`Routes`].
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ShownRoute {
    event_type: String,
    topic: Option<String>,
    aggregate_type: Option<String>,
    schema: Option<String>,
}

pub(super) fn read(
    raw: Vec<raw::Route>,
    outbox: &Scope,
    sources: &Sources,
) -> Result<(Routes, Vec<ShownRoute>), ConfigError> {
    let mut routes = Routes::new();
    let mut shown = Vec::new();
    let mut types = HashSet::new();
    for (index, raw) in raw.into_iter().enumerate() {
        let scope = Scope(outbox.0.key("route").item(index, None));
        let event_type = scope.text("event_type", raw.event_type)?;
        let event_type = scope.required("event_type", event_type, "every route is for one")?;
        if !types.insert(event_type.clone()) {
            return Err(scope.refused("event_type", event_type, "it has a route already"));
        }
        let topic = scope.text("topic", raw.topic)?;
        let aggregate_type = scope.text("aggregate_type", raw.aggregate_type)?;
        let mut route = Route::new();
        if let Some(topic) = &topic {
            route = route.topic(topic.as_str());
        }
        if let Some(aggregate_type) = &aggregate_type {
            route = route.aggregate_type(aggregate_type);
        }
        let mut schema_name = None;
        if let Some(schema) = raw.schema {
            let (name, schema) = load_schema(schema, &scope, sources)?;
            route = route.schema(&schema).map_err(|error| {
                scope.error(
                    "schema",
                    Problem::Schema {
                        schema: name.clone(),
                        error,
                    },
                )
            })?;
            schema_name = Some(name);
        }
        routes = routes.with(event_type.as_str(), route);
        shown.push(ShownRoute {
            event_type,
            topic,
            aggregate_type,
            schema: schema_name,
        });
    }
    Ok((routes, shown))
}

fn load_schema(
    schema: Schema,
    scope: &Scope,
    sources: &Sources,
) -> Result<(String, serde_json::Value), ConfigError> {
    match schema {
        Schema::Inline(table) => {
            let value = serde_json::to_value(&table).map_err(|error| {
                scope.refused("schema", "(inline)", format!("a JSON Schema is: {error}"))
            })?;
            Ok(("(inline)".into(), value))
        }
        Schema::File(path) => {
            let full = sources.dir.join(&path);
            let text = std::fs::read_to_string(&full).map_err(|source| {
                scope.error("schema", Problem::Unreadable { path: full, source })
            })?;
            let value = serde_json::from_str(&text).map_err(|error| {
                scope.refused(
                    "schema",
                    &path,
                    format!("a file with a JSON Schema is: {error}"),
                )
            })?;
            Ok((path, value))
        }
    }
}
