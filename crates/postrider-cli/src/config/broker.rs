//! One `[broker.<name>]`: its kind decides which keys it has, and the broker's own crate reads them.

use postrider::brokers::kafka::KafkaConfig;
use postrider::brokers::memory::MemoryConfig;
use postrider::brokers::pubsub::PubSubConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::error::{ConfigError, KeyPath, Problem};
use super::scope::Scope;
use super::secret::{MASK, Reference, Sources, is_secret_name, masked_url};

const KINDS: &str = "kafka, pubsub or memory is";

/// A broker's settings, checked.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Broker {
    #[serde(skip)]
    pub(crate) options: BrokerOptions,
    /// Everything that is set or has a default, secrets hidden.
    shown: Table,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum BrokerOptions {
    Kafka(KafkaConfig),
    PubSub(PubSubConfig),
    Memory(MemoryConfig),
}

impl Broker {
    pub(super) fn read(
        table: Table,
        scope: &Scope,
        sources: &Sources,
    ) -> Result<Self, ConfigError> {
        let written = hide(&table);
        let mut table = resolve(table, &scope.0, sources)?;
        let kind = match table.remove("kind") {
            Some(Value::String(kind)) => kind,
            Some(other) => return Err(scope.refused("kind", other, KINDS)),
            None => {
                return Err(scope.error(
                    "kind",
                    Problem::Missing {
                        needed: KINDS.into(),
                    },
                ));
            }
        };
        let options = match kind.as_str() {
            "kafka" => BrokerOptions::Kafka(options(table, scope)?),
            "pubsub" => BrokerOptions::PubSub(options(table, scope)?),
            "memory" => BrokerOptions::Memory(options(table, scope)?),
            other => return Err(scope.refused("kind", other, KINDS)),
        };
        let invalid =
            |reason: String| ConfigError::new(scope.0.clone(), Problem::Malformed(reason));
        let checked = match &options {
            BrokerOptions::Kafka(kafka) => kafka.validate().map_err(|error| error.to_string()),
            BrokerOptions::PubSub(pubsub) => pubsub.validate().map_err(|error| error.to_string()),
            BrokerOptions::Memory(_) => Ok(()),
        };
        checked.map_err(invalid)?;
        let mut shown = Table::try_from(&options).map_err(|error| invalid(error.to_string()))?;
        shown.extend(written);
        Ok(Self { options, shown })
    }
}

fn options<T: DeserializeOwned>(table: Table, scope: &Scope) -> Result<T, ConfigError> {
    Value::Table(table)
        .try_into()
        .map_err(|error: toml::de::Error| {
            let key = scope.0.within(&error);
            // The parser quotes a value of the wrong type.
            let problem = match key.last_name().is_some_and(is_secret_name) {
                true => Problem::Malformed(
                    "it is text: the value itself, `env:NAME` or `file:/path`".into(),
                ),
                false => Problem::malformed(&error),
            };
            ConfigError::new(key, problem)
        })
}

/// Puts secrets in place of `env:NAME` and `file:/path`, at any depth.
fn resolve(table: Table, path: &KeyPath, sources: &Sources) -> Result<Table, ConfigError> {
    table
        .into_iter()
        .map(|(name, value)| {
            let path = path.key(&name);
            let value = match value {
                Value::Table(inner) => Value::Table(resolve(inner, &path, sources)?),
                Value::String(text) if is_reference(&text) => {
                    let secret = Reference::new(text).resolve(sources);
                    let secret =
                        secret.map_err(|error| ConfigError::new(path, Problem::Secret(error)))?;
                    Value::String(secret.expose().into())
                }
                other => other,
            };
            Ok((name, value))
        })
        .collect()
}

fn is_reference(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

fn hide(table: &Table) -> Table {
    let hidden = table.iter().map(|(name, value)| {
        let value = match value {
            Value::Table(inner) => Value::Table(hide(inner)),
            Value::String(text) if is_reference(text) => value.clone(),
            _ if is_secret_name(name) => MASK.into(),
            Value::String(text) if text.contains("://") => {
                masked_url(text).unwrap_or_else(|| MASK.into()).into()
            }
            other => other.clone(),
        };
        (name.clone(), value)
    });
    hidden.collect()
}
