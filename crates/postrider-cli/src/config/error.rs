//! Why a config is refused: which key, which value, what is allowed, and where it was written.

use std::fmt;
use std::path::PathBuf;

use postrider::core::{LayoutError, RouteError};

use super::secret::SecretError;

/// One refusal. Exit code 2, whatever the verb.
#[derive(Debug)]
pub(crate) struct ConfigError {
    pub(crate) key: KeyPath,
    pub(crate) problem: Box<Problem>,
    pub(crate) place: Option<Place>,
}

/// What is wrong with a value. The text continues the key's name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("is missing; {needed}")]
    Missing { needed: String },
    #[error("`{value}` is not allowed; {allowed}")]
    NotAllowed { value: String, allowed: String },
    /// Syntax, an unknown key or a wrong type, in the parser's words.
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    Layout(LayoutError),
    #[error("{0}")]
    Secret(SecretError),
    #[error("schema {schema}: {error}")]
    Schema { schema: String, error: RouteError },
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
}

impl Problem {
    pub(crate) fn not_allowed(value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self::NotAllowed {
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }

    /// The parser's words, without names of Rust types.
    pub(crate) fn malformed(error: &toml::de::Error) -> Self {
        let text = error
            .message()
            .replace("expected i64", "expected a whole number");
        Self::Malformed(text.replace("expected a map", "expected a table"))
    }
}

/// Where the refused value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    File {
        file: String,
        line: usize,
        column: usize,
        excerpt: String,
    },
    Variable(String),
}

impl ConfigError {
    pub(crate) fn new(key: KeyPath, problem: Problem) -> Self {
        Self {
            key,
            problem: Box::new(problem),
            place: None,
        }
    }

    /// A broker's client does not take its settings.
    pub(crate) fn in_broker(name: &str, reason: String) -> Self {
        Self::new(
            KeyPath::root().key("broker").key(name),
            Problem::Malformed(reason),
        )
    }

    /// A database's client does not take its URL.
    pub(crate) fn in_database(outbox: &str, reason: String) -> Self {
        let key = KeyPath::root().key("outbox").key(outbox).key("database");
        Self::new(key, Problem::Malformed(reason))
    }

    #[must_use]
    pub(crate) fn at(mut self, place: Option<Place>) -> Self {
        self.place = place;
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(Place::File {
                file, line, column, ..
            }) => write!(f, "{file}:{line}:{column}: ")?,
            Some(Place::Variable(name)) => write!(f, "{name} in the environment: ")?,
            None => {}
        }
        if self.key.is_root() {
            write!(f, "{}", self.problem)?;
        } else {
            write!(f, "{}: {}", self.key, self.problem)?;
        }
        match &self.place {
            Some(Place::File { excerpt, .. }) => write!(f, "\n{excerpt}"),
            _ => Ok(()),
        }
    }
}

/// The problem's own text has its causes in it.
impl std::error::Error for ConfigError {}

/// The way from the top of the document to a value, as `outbox.orders.retry.base`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    /// An entry of a list, shown by its name where it has one.
    Item {
        index: usize,
        name: Option<String>,
    },
}

impl KeyPath {
    pub(crate) fn root() -> Self {
        Self::default()
    }

    pub(crate) fn key(&self, name: impl Into<String>) -> Self {
        self.with(Step::Key(name.into()))
    }

    pub(crate) fn item(&self, index: usize, name: Option<&str>) -> Self {
        self.with(Step::Item {
            index,
            name: name.map(Into::into),
        })
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last name on the way, where there is one.
    pub(crate) fn last_name(&self) -> Option<&str> {
        match self.0.last()? {
            Step::Key(name) => Some(name),
            Step::Item { name, .. } => name.as_deref(),
        }
    }

    /// The key below this one that a parser stumbled over. It tells only at the end of its text: "… in
    /// `columns.id`".
    pub(crate) fn within(&self, error: &toml::de::Error) -> Self {
        let text = error.to_string();
        let keys = text
            .trim_end()
            .rsplit_once("\nin `")
            .and_then(|(_, keys)| keys.strip_suffix('`'));
        match keys {
            Some(keys) => keys
                .split('.')
                .fold(self.clone(), |path, key| path.key(key)),
            None => self.clone(),
        }
    }

    fn with(&self, step: Step) -> Self {
        let mut path = self.clone();
        path.0.push(step);
        path
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Item { index, name: None } => write!(f, "[{index}]")?,
                Step::Key(name)
                | Step::Item {
                    name: Some(name), ..
                } => {
                    let dot = if depth == 0 { "" } else { "." };
                    write!(f, "{dot}{name}")?;
                }
            }
        }
        Ok(())
    }
}
