//! The effective config as text, with secrets hidden.

use std::time::Duration;

use postrider::core::Layout;
use serde::Serializer;
use serde::ser::{Error as _, SerializeMap as _};

use super::Config;

impl Config {
    /// As TOML, in the shape that a config has.
    pub(crate) fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

pub(super) fn duration<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*duration))
}

/// A layout's keys stand among the outbox's own; its name is the value of `layout`.
pub(super) fn layout<S: Serializer>(layout: &Layout, serializer: S) -> Result<S::Ok, S::Error> {
    let mut table = toml::Table::try_from(layout).map_err(S::Error::custom)?;
    table.remove("name");
    table.remove("defaults");
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("layout", &layout.name)?;
    for (key, value) in &table {
        map.serialize_entry(key, value)?;
    }
    map.end()
}
