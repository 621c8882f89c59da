//! The environment over the file: `POSTRIDER__OUTBOX__ORDERS__BATCH=500` sets `batch` of the outbox
//! `orders`. A variable that names nothing is refused, since it would be ignored in silence.

use toml::{Table, Value};

use super::error::{ConfigError, KeyPath, Place, Problem};
use super::raw::Raw;
use super::secret::{Environment, is_secret_name};

const PREFIX: &str = "POSTRIDER__";

/// Which keys the environment has set, and by which variable.
#[derive(Debug, Default)]
pub(super) struct Overlay(Vec<(KeyPath, String)>);

impl Overlay {
    /// Sets each variable's value in `table`. After every one the whole is checked against the
    /// config's names and types, so that an error is the fault of the variable it names.
    pub(super) fn apply(table: &mut Table, environment: &Environment) -> Result<Self, ConfigError> {
        let mut overlay = Self::default();
        for (name, text) in environment.with_prefix(PREFIX) {
            let variable = format!("{PREFIX}{name}");
            let path = apply_one(table, name, text)
                .map_err(|error| error.at(Some(Place::Variable(variable.clone()))))?;
            overlay.0.push((path, variable));
        }
        Ok(overlay)
    }

    /// The variable that is to blame: it set the key, or the unknown key that the error quotes.
    pub(super) fn place_of(&self, error: &ConfigError) -> Option<Place> {
        let problem = error.problem.to_string();
        let blamed = |(key, _): &&(KeyPath, String)| {
            let quoted = key.last_name().is_some_and(|name| {
                *key == error.key.key(name) && problem.contains(&format!("`{name}`"))
            });
            *key == error.key || quoted
        };
        let (_, variable) = self.0.iter().find(blamed)?;
        Some(Place::Variable(variable.clone()))
    }
}

fn apply_one(table: &mut Table, name: &str, text: &str) -> Result<KeyPath, ConfigError> {
    let names: Vec<String> = name.split("__").map(str::to_ascii_lowercase).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let target = Target::find(table, &names)
        .map_err(|problem| ConfigError::new(KeyPath::root(), problem))?;
    let refused = |problem| ConfigError::new(target.path.clone(), problem);
    let mut first_refusal = None;
    for value in readings(text, &target) {
        let mut changed = table.clone();
        target.set(&mut changed, value).map_err(refused)?;
        match Value::Table(changed.clone()).try_into::<Raw>() {
            Ok(_) => {
                *table = changed;
                return Ok(target.path);
            }
            Err(error) => {
                first_refusal.get_or_insert(error);
            }
        }
    }
    let nothing = || Problem::Malformed("has no value".into());
    Err(refused(
        first_refusal
            .as_ref()
            .map_or_else(nothing, Problem::malformed),
    ))
}

/// What the text may mean: a number, a truth, a list or a table where it reads as one, else text. The first
/// that fits the key's type is taken.
fn readings(text: &str, target: &Target<'_>) -> Vec<Value> {
    if target.path.last_name().is_some_and(is_secret_name) {
        return vec![Value::String(text.into())];
    }
    let typed = format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| {
            let value = table.remove("value").filter(|_| table.is_empty())?;
            (!matches!(value, Value::String(_) | Value::Datetime(_))).then_some(value)
        });
    typed
        .into_iter()
        .chain([Value::String(text.into())])
        .collect()
}

/// The table that a variable's last name belongs in.
struct Target<'a> {
    path: KeyPath,
    /// The list entry or the named broker that the rest starts from.
    root: Root,
    rest: &'a [&'a str],
}

enum Root {
    Top,
    Outbox(usize),
    Broker(String),
}

impl<'a> Target<'a> {
    fn find(table: &Table, names: &'a [&'a str]) -> Result<Self, Problem> {
        let top = KeyPath::root();
        let (root, path, rest) = match names {
            ["outbox", name, rest @ ..] if !rest.is_empty() => {
                let entries = table.get("outbox").and_then(Value::as_array);
                let known: Vec<&str> = entries
                    .into_iter()
                    .flatten()
                    .map(|entry| {
                        entry
                            .get("name")
                            .and_then(Value::as_str)
                            .unwrap_or_default()
                    })
                    .collect();
                let index = position(&known, name, "outbox")?;
                (
                    Root::Outbox(index),
                    top.key("outbox").item(index, Some(known[index])),
                    rest,
                )
            }
            ["broker", name, rest @ ..] if !rest.is_empty() => {
                let entries = table.get("broker").and_then(Value::as_table);
                let known: Vec<&str> = entries
                    .into_iter()
                    .flatten()
                    .map(|(name, _)| name.as_str())
                    .collect();
                let name = known[position(&known, name, "broker")?];
                (Root::Broker(name.into()), top.key("broker").key(name), rest)
            }
            ["outbox" | "broker", ..] => {
                let allowed = format!("a variable is named {PREFIX}OUTBOX__<name>__<key>");
                return Err(Problem::not_allowed(names.join("__"), allowed));
            }
            rest => (Root::Top, top, rest),
        };
        let path = rest.iter().fold(path, |path, name| path.key(*name));
        Ok(Self { path, root, rest })
    }

    fn set(&self, table: &mut Table, value: Value) -> Result<(), Problem> {
        let mut inner = match &self.root {
            Root::Top => Some(table),
            Root::Outbox(index) => table
                .get_mut("outbox")
                .and_then(Value::as_array_mut)
                .and_then(|entries| entries.get_mut(*index))
                .and_then(Value::as_table_mut),
            Root::Broker(name) => table
                .get_mut("broker")
                .and_then(|brokers| brokers.get_mut(name))
                .and_then(Value::as_table_mut),
        };
        let (last, parents) = self.rest.split_last().unwrap_or((&"", &[]));
        for name in parents {
            inner = inner.and_then(|table| {
                let value = table
                    .entry(*name)
                    .or_insert_with(|| Value::Table(Table::new()));
                value.as_table_mut()
            });
        }
        let inner = inner.ok_or_else(|| {
            let allowed = "the environment sets keys of tables, not of lists";
            Problem::not_allowed(parents.join("."), allowed)
        })?;
        inner.insert((*last).into(), value);
        Ok(())
    }
}

/// Names in variables have no hyphens and no case: `ORDER_EVENTS` is `order-events`.
fn position(known: &[&str], name: &str, what: &str) -> Result<usize, Problem> {
    let spelled = |known: &str| known.to_ascii_lowercase().replace('-', "_");
    known
        .iter()
        .position(|known| spelled(known) == name)
        .ok_or_else(|| {
            let allowed = match known {
                [] => format!("the file has no {what}"),
                known => format!("the file has the {what} {}", known.join(", ")),
            };
            Problem::not_allowed(name, allowed)
        })
}
