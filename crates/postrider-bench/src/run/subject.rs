//! A system under test: a folder with `subject.toml` and an executable `run`. Nothing here knows one by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::phase::Phase;

#[derive(Debug, Clone)]
pub(crate) struct Subject {
    folder: PathBuf,
    pub(crate) about: About,
    /// As `run build` printed them.
    pub(crate) versions: BTreeMap<String, String>,
}

/// `subject.toml`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) title: String,
    /// Whether it is somebody else's.
    pub(crate) peer: bool,
    pub(crate) phases: Vec<Phase>,
    /// Whether the second half of a drain is what counts.
    #[serde(default)]
    pub(crate) warms_up: bool,
    /// The largest backlog that it is given; larger ones would take it too long.
    pub(crate) records_max: Option<u64>,
    /// Writes any number of events: `$1` keys, `$2` payloads, both `text[]`.
    pub(crate) insert: String,
    /// What is not default, for the report.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, toml::Value>,
}

/// What the results keep of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) peer: bool,
    pub(crate) warms_up: bool,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) versions: BTreeMap<String, String>,
}

/// Compiling a peer from nothing.
const BUILD_PATIENCE: Duration = Duration::from_secs(1800);
const RESET_PATIENCE: Duration = Duration::from_secs(120);

impl Subject {
    pub(super) fn load(folder: &Path) -> anyhow::Result<Self> {
        let file = folder.join("subject.toml");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let about = parse(&text).with_context(|| file.display().to_string())?;
        anyhow::ensure!(
            folder.file_name().is_some_and(|name| name == &*about.name),
            "{}: name is {:?}, but must be the folder's",
            file.display(),
            about.name
        );
        anyhow::ensure!(
            folder.join("run").is_file(),
            "{} has no executable `run`",
            folder.display()
        );
        Ok(Self {
            folder: folder.to_owned(),
            about,
            versions: BTreeMap::new(),
        })
    }

    /// The programs it needs are there afterwards.
    pub(crate) async fn build(&mut self, environment: &Environment) -> anyhow::Result<()> {
        let output = self.run("build", environment, BUILD_PATIENCE).await?;
        let versions = output.lines().filter_map(|line| line.split_once('='));
        self.versions = versions
            .map(|(name, version)| (name.trim().to_owned(), version.trim().to_owned()))
            .collect();
        Ok(())
    }

    /// Its tables are there and empty afterwards.
    pub(crate) async fn reset(&self, environment: &Environment) -> anyhow::Result<()> {
        self.run("reset", environment, RESET_PATIENCE).await?;
        Ok(())
    }

    async fn run(
        &self,
        verb: &str,
        environment: &Environment,
        patience: Duration,
    ) -> anyhow::Result<String> {
        let name = &self.about.name;
        let command = Command::new(self.folder.join("run"))
            .arg(verb)
            .envs(environment)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(patience, command)
            .await
            .with_context(|| format!("{name}: `run {verb}` took more than {patience:?}"))?
            .with_context(|| format!("{name}: `run {verb}` cannot be started"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(
            output.status.success(),
            "{name}: `run {verb}` ended with {}: {}",
            output.status,
            last_lines(&said, 15)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    pub(crate) fn start_program(&self) -> PathBuf {
        self.folder.join("run")
    }

    pub(crate) fn kept(&self) -> Kept {
        let about = self.about.clone();
        let settings = about.settings.into_iter();
        Kept {
            name: about.name,
            title: about.title,
            peer: about.peer,
            warms_up: about.warms_up,
            settings: settings
                .map(|(name, value)| (name, plain(&value)))
                .collect(),
            versions: self.versions.clone(),
        }
    }
}

/// Variables of a subject's `run`.
pub(crate) type Environment = BTreeMap<&'static str, String>;

fn parse(text: &str) -> anyhow::Result<About> {
    let about: About = toml::from_str(text)?;
    anyhow::ensure!(
        about.insert.contains("$1") && about.insert.contains("$2"),
        "insert needs $1 for the keys and $2 for the payloads"
    );
    anyhow::ensure!(!about.phases.is_empty(), "phases is empty");
    Ok(about)
}

fn plain(value: &toml::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Those that are named, or ours, or all; in the order of their names, ours first.
pub(crate) fn load_all(
    folder: &Path,
    names: Option<&[String]>,
    with_peers: bool,
) -> anyhow::Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let folder = entry?.path();
        if folder.join("subject.toml").exists() {
            subjects.push(Subject::load(&folder)?);
        }
    }
    subjects.sort_by_key(|subject| (subject.about.peer, subject.about.name.clone()));
    let Some(names) = names else {
        subjects.retain(|subject| with_peers || !subject.about.peer);
        return Ok(subjects);
    };
    for name in names {
        anyhow::ensure!(
            subjects.iter().any(|subject| subject.about.name == *name),
            "no subject {name:?} in {}",
            folder.display()
        );
    }
    subjects.retain(|subject| names.contains(&subject.about.name));
    Ok(subjects)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        name = "debezium-tuned"
        title = "Debezium Server, tuned"
        peer = true
        phases = ["drain", "steady", "held", "kill", "outage"]
        warms_up = true
        insert = "INSERT INTO t SELECT * FROM unnest($1::text[], $2::text[])"
        [settings]
        "max.batch.size" = 8192
    "#;

    #[test]
    fn a_subject_is_data() {
        let about = parse(GOOD).unwrap();
        assert_eq!(about.phases[0], Phase::Drain);
        assert!(about.peer && about.warms_up);
        assert_eq!(plain(&about.settings["max.batch.size"]), "8192");
    }

    #[test]
    fn mistakes_are_refused() {
        for (from, to, says) in [
            ("warms_up", "warm_up", "unknown field"),
            ("\"kill\"", "\"kil\"", "unknown variant"),
            ("$2", "$3", "$2 for the payloads"),
            ("peer = true", "", "missing field `peer`"),
        ] {
            let error = parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(format!("{error:#}").contains(says), "{error:#}");
        }
    }

    #[test]
    fn our_own_subjects_can_be_read() {
        let folder = super::super::root().join("bench/subjects");
        let ours = load_all(&folder, None, false).unwrap();
        assert_eq!(ours.len(), 5);
        let all = load_all(&folder, None, true).unwrap();
        assert!(all.len() >= 4 && !all[0].about.peer);
        assert!(load_all(&folder, Some(&["none".into()]), true).is_err());
    }
}
