//! From what was written to what will be done: everything but brokers and outboxes, which have files
//! of their own.

use std::collections::{BTreeMap, HashSet};

use tracing_subscriber::EnvFilter;

use super::error::{ConfigError, KeyPath, Problem};
use super::raw::{self, Raw};
use super::scope::Scope;
use super::secret::Sources;
use super::{Admin, Broker, Config, Log, Outbox, Telemetry, defaults};

pub(super) fn config(raw: Raw, sources: &Sources) -> Result<Config, ConfigError> {
    let top = KeyPath::root();
    let brokers = raw
        .broker
        .into_iter()
        .map(|(name, table)| {
            let scope = Scope(top.key("broker").key(&name));
            check_name(&scope.0, &name)?;
            Ok((name, Broker::read(table, &scope, sources)?))
        })
        .collect::<Result<BTreeMap<_, _>, ConfigError>>()?;
    Ok(Config {
        admin: Admin::read(raw.admin, &Scope(top.key("admin")), sources)?,
        log: log(raw.log, &Scope(top.key("log")))?,
        telemetry: Telemetry::read(raw.telemetry, &Scope(top.key("telemetry")))?,
        outboxes: outboxes(raw.outbox, &brokers, sources)?,
        brokers,
    })
}

fn log(raw: raw::Log, scope: &Scope) -> Result<Log, ConfigError> {
    let level = raw.level.unwrap_or_else(|| defaults::LOG_LEVEL.into());
    if level.is_empty() || EnvFilter::try_new(&level).is_err() {
        let allowed =
            "error, warn, info, debug or trace is, or directives like \"info,postrider=debug\"";
        return Err(scope.refused("level", level, allowed));
    }
    Ok(Log {
        format: raw.format,
        level,
    })
}

fn outboxes(
    raw: Vec<raw::Outbox>,
    brokers: &BTreeMap<String, Broker>,
    sources: &Sources,
) -> Result<Vec<Outbox>, ConfigError> {
    let list = KeyPath::root().key("outbox");
    if raw.is_empty() {
        let needed = "at least one [[outbox]] with name, database, layout and broker is needed";
        return Err(ConfigError::new(
            list,
            Problem::Missing {
                needed: needed.into(),
            },
        ));
    }
    let mut names = HashSet::new();
    raw.into_iter()
        .enumerate()
        .map(|(index, mut raw)| {
            let scope = Scope(list.item(index, None));
            let needed = "every [[outbox]] has one, for example \"orders\"";
            let name = scope.required("name", raw.name.take(), needed)?;
            let scope = Scope(list.item(index, Some(&name)));
            check_name(&scope.0.key("name"), &name)?;
            if !names.insert(spelled(&name)) {
                return Err(scope.refused("name", name, "another outbox has the same name"));
            }
            Outbox::read(name, raw, &scope, brokers, sources)
        })
        .collect()
}

/// Names stand in variables and metrics: letters, digits, `-` and single `_`.
pub(super) fn check_name(key: &KeyPath, name: &str) -> Result<(), ConfigError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=63).contains(&name.len()) && name.chars().all(plain) && !spelled(name).contains("__") {
        return Ok(());
    }
    let allowed = "1 to 63 letters, digits, `-` and `_` are, with no two `-` or `_` in a row";
    Err(ConfigError::new(
        key.clone(),
        Problem::not_allowed(name, allowed),
    ))
}

/// As the environment spells it; two names must differ in this form.
fn spelled(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}
