//! The layouts that come with Postrider, embedded as TOML.

use super::LayoutError;

/// Names of the presets.
pub const PRESETS: [&str; 6] = [
    "packfinderz",
    "talkie",
    "polyshop",
    "gopipe",
    "debezium",
    "native",
];

const SOURCES: [&str; 6] = [
    include_str!("../../layouts/packfinderz.toml"),
    include_str!("../../layouts/talkie.toml"),
    include_str!("../../layouts/polyshop.toml"),
    include_str!("../../layouts/gopipe.toml"),
    include_str!("../../layouts/debezium.toml"),
    include_str!("../../layouts/native.toml"),
];

/// A preset's TOML text, to read or to start an own layout from.
pub fn preset_source(name: &str) -> Result<&'static str, LayoutError> {
    std::iter::zip(PRESETS, SOURCES)
        .find(|(preset, _)| *preset == name)
        .map(|(_, source)| source)
        .ok_or_else(|| LayoutError::Unknown { name: name.into() })
}

pub(super) fn table(name: &str) -> Result<toml::Table, LayoutError> {
    let source = preset_source(name)?;
    source.parse().map_err(|source| LayoutError::Malformed {
        layout: name.into(),
        source,
    })
}
