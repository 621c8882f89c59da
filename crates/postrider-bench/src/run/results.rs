//! What a run found, as it is written to a file after every measurement.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::quiet::{Machine, Quiet};
pub(crate) use super::subject::Kept;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Results {
    /// When the run began.
    pub(crate) started: String,
    pub(crate) version: String,
    pub(crate) commit: String,
    /// Whether the sources differed from the commit.
    pub(crate) changed: bool,
    pub(crate) machine: Machine,
    pub(crate) servers: Vec<(String, String)>,
    pub(crate) rounds: u32,
    pub(crate) payload_bytes: usize,
    pub(crate) subjects: Vec<Kept>,
    pub(crate) measurements: Vec<Measurement>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    pub(crate) round: u32,
    pub(crate) step: String,
    pub(crate) subject: String,
    pub(crate) quiet: Quiet,
    pub(crate) took_secs: f64,
    pub(crate) figures: Figures,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
    /// The relay's last lines when it failed. They stay in the run's own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) log: Option<String>,
}

impl Measurement {
    pub(crate) fn new(round: u32, step: String, subject: String) -> Self {
        Self {
            round,
            step,
            subject,
            quiet: Quiet::default(),
            took_secs: 0.0,
            figures: Figures::default(),
            failed: None,
            log: None,
        }
    }
}

/// By name. What was not measured is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// With as many digits as mean something.
    pub(crate) fn set(&mut self, name: &str, value: f64) {
        self.0
            .insert(name.to_owned(), (value * 1000.0).round() / 1000.0);
    }

    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<f64> {
        self.0.remove(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl Results {
    pub(crate) fn load(file: &Path) -> anyhow::Result<Self> {
        let name = || file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(name)?;
        serde_json::from_str(&text).with_context(name)
    }

    /// The file is never half written.
    pub(crate) fn save(&self, file: &Path) -> anyhow::Result<()> {
        let new = file.with_extension("new");
        std::fs::write(&new, self.text()?)?;
        std::fs::rename(&new, file)?;
        Ok(())
    }

    pub(crate) fn text(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}
