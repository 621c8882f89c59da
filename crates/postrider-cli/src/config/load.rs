//! From a file and the environment to a checked config, with each error placed where its value was
//! written.

use std::path::Path;

use super::document::Document;
use super::error::{ConfigError, KeyPath, Problem};
use super::overlay::Overlay;
use super::raw::Raw;
use super::secret::{Environment, Sources};
use super::{Config, validate};

impl Config {
    pub(crate) fn load(file: &Path, environment: &Environment) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|source| {
            let problem = Problem::Unreadable {
                path: file.into(),
                source,
            };
            ConfigError::new(KeyPath::root(), problem)
        })?;
        let sources = Sources::new(environment.clone(), file);
        Self::read(Document::new(file, text), &sources)
    }

    pub(super) fn read(document: Document, sources: &Sources) -> Result<Self, ConfigError> {
        let malformed = |error: toml::de::Error| {
            let span = error.span().unwrap_or_default();
            let problem = Problem::malformed(&error);
            let place = document.place(span.clone());
            ConfigError::new(document.key_at(&span), problem).at(Some(place))
        };
        // The file is read alone first: only then does the parser know the line of a mistake.
        toml::from_str::<Raw>(document.text()).map_err(malformed)?;
        let mut table: toml::Table = document.text().parse().map_err(malformed)?;
        let overlay = Overlay::apply(&mut table, &sources.environment)?;
        let raw: Raw = toml::Value::Table(table).try_into().map_err(malformed)?;
        validate::config(raw, sources).map_err(|error| {
            let place = overlay
                .place_of(&error)
                .or_else(|| document.place_of(&error.key));
            error.at(place)
        })
    }
}
