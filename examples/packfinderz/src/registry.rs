//! The registry of event types, which is the data in `registry.toml`. Nothing else says where an event goes or what
//! it must look like.

use std::collections::BTreeMap;

use anyhow::Context as _;
use postrider::core::{Route, Routes};
use serde::Deserialize;

const SOURCE: &str = include_str!("../registry.toml");
/// Stands for the domain topic.
const DOMAIN: &str = "{domain}";

/// Event types by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub struct Registry(BTreeMap<String, EventType>);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventType {
    pub aggregate_type: String,
    pub topic: String,
    /// What its payload must fit.
    pub schema: Option<serde_json::Value>,
}

impl Registry {
    pub fn load() -> anyhow::Result<Self> {
        toml::from_str(SOURCE).context("registry.toml cannot be read")
    }

    pub fn event_types(&self) -> impl Iterator<Item = (&str, &EventType)> {
        self.0.iter().map(|(name, of)| (name.as_str(), of))
    }

    /// What the publisher, and whoever emits, checks by.
    pub fn routes(&self, domain_topic: &str) -> anyhow::Result<Routes> {
        let mut routes = Routes::new();
        for (name, of) in self.event_types() {
            let mut route = Route::new()
                .topic(of.topic.replace(DOMAIN, domain_topic))
                .aggregate_type(&of.aggregate_type);
            if let Some(schema) = &of.schema {
                route = route
                    .schema(schema)
                    .with_context(|| format!("registry.toml: {name}"))?;
            }
            routes = routes.with(name, route);
        }
        Ok(routes)
    }
}

#[cfg(test)]
mod tests {
    use postrider::core::{Event, EventPayload as _};
    use uuid::Uuid;

    use super::*;
    use crate::payloads::{LicenseStatus, LicenseStatusChanged};

    #[test]
    fn the_typed_payload_fits_the_schema_of_the_registry() {
        let routes = Registry::load().unwrap().routes("domain").unwrap();
        for (status, reason) in [
            (LicenseStatus::Pending, None),
            (LicenseStatus::Verified, None),
            (LicenseStatus::Rejected, Some("expired".to_owned())),
        ] {
            let payload = LicenseStatusChanged {
                license_id: Uuid::now_v7(),
                store_id: Uuid::now_v7(),
                status,
                reason,
            };
            let event = Event::typed(&payload).unwrap();
            let route = routes.check_event(&event).unwrap().unwrap();
            assert_eq!(route.topic, Some("domain".into()));
            assert_eq!(
                route.aggregate_type.as_deref(),
                LicenseStatusChanged::AGGREGATE_TYPE
            );
        }
    }

    #[test]
    fn a_status_that_nobody_knows_is_refused_without_naming_it() {
        let routes = Registry::load().unwrap().routes("domain").unwrap();
        let data = serde_json::json!({
            "licenseId": Uuid::now_v7(), "storeId": Uuid::now_v7(), "status": "approved"
        });
        let event = Event::json("license_status_changed", &data).unwrap();
        let event = event.aggregate("license", Uuid::now_v7().to_string());
        let error = routes.check_event(&event).unwrap_err().to_string();
        assert!(
            error.contains("/status") && !error.contains("approved"),
            "{error}"
        );
    }
}
