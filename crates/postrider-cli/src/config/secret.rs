//! Values that are never printed: read from the config, the environment or a file, shown masked.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;

/// What stands in place of a secret.
pub(crate) const MASK: &str = "***";

/// Parts of a key's name that make its value a secret.
const SECRET_NAMES: [&str; 7] = [
    "password",
    "passphrase",
    "secret",
    "token",
    "credential",
    "pem",
    "private_key",
];

/// A secret's value. Only [`Secret::expose`] shows it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// A secret as it was written: the value itself, `env:NAME` or `file:/path`.
#[derive(Clone)]
pub(crate) struct Reference(String);

impl Reference {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Fetches the value. A file's last line break is not part of it.
    pub(crate) fn resolve(&self, sources: &Sources) -> Result<Secret, SecretError> {
        let value = if let Some(name) = self.0.strip_prefix("env:") {
            let found = sources.environment.get(name);
            found
                .ok_or_else(|| SecretError::NoVariable { name: name.into() })?
                .to_owned()
        } else if let Some(path) = self.0.strip_prefix("file:") {
            let path = sources.dir.join(path);
            let text = std::fs::read_to_string(&path)
                .map_err(|source| SecretError::Unreadable { path, source })?;
            let line = text.strip_suffix('\n').unwrap_or(&text);
            line.strip_suffix('\r').unwrap_or(line).to_owned()
        } else {
            self.0.clone()
        };
        if value.is_empty() {
            return Err(SecretError::Empty {
                reference: self.shown(),
            });
        }
        Ok(Secret(value))
    }

    /// Names where the secret comes from, never the secret.
    fn shown(&self) -> String {
        let refers = self.0.starts_with("env:") || self.0.starts_with("file:");
        if refers {
            self.0.clone()
        } else {
            "the value".into()
        }
    }
}

/// The error of a wrong type says nothing of the value, which serde's own would quote.
impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => Ok(Self(text)),
            other => Err(serde::de::Error::custom(format!(
                "a secret is text: the value itself, `env:NAME` or `file:/path`; this is of type {}",
                other.type_str()
            ))),
        }
    }
}

/// Where references lead: the environment as it was at start, and the config file's folder, which relative
/// paths start from.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    pub(crate) environment: Environment,
    pub(crate) dir: PathBuf,
}

/// A copy of the environment. Variables that are not UTF-8 are left out.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(crate) fn of_process() -> Self {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(utf8).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Name without the prefix, and value, in the order of names.
    pub(crate) fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| {
            name.strip_prefix(prefix).map(|rest| (rest, value.as_str()))
        })
    }
}

#[cfg(test)]
impl<'a> FromIterator<(&'a str, &'a str)> for Environment {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(variables: I) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self(variables.into_iter().map(owned).collect())
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        variables.into_iter().collect()
    }
}

/// A database's address. Printed with its password masked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DatabaseUrl {
    url: Secret,
    kind: DatabaseKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Postgres,
    Sqlite,
}

impl DatabaseKind {
    /// By the scheme of a URL.
    fn of(scheme: &str) -> Option<Self> {
        match scheme {
            "postgres" | "postgresql" => Some(Self::Postgres),
            "sqlite" => Some(Self::Sqlite),
            _ => None,
        }
    }
}

impl DatabaseUrl {
    pub(crate) fn new(url: Secret) -> Result<Self, SecretError> {
        let parsed = Url::parse(url.expose()).map_err(|error| SecretError::BadUrl {
            reason: error.to_string(),
        })?;
        let Some(kind) = DatabaseKind::of(parsed.scheme()) else {
            let reason = format!("its scheme is `{}`", parsed.scheme());
            return Err(SecretError::BadUrl { reason });
        };
        Ok(Self { url, kind })
    }

    pub(crate) fn kind(&self) -> DatabaseKind {
        self.kind
    }

    pub(crate) fn expose(&self) -> &str {
        self.url.expose()
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked_url(self.url.expose()).unwrap_or_else(|| MASK.into()))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DatabaseUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a value under this name is to be hidden.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['.', '-'], "_");
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// The URL without its password, or `None` where the text is no URL.
pub(crate) fn masked_url(text: &str) -> Option<String> {
    let mut url = Url::parse(text).ok()?;
    if url.password().is_some() {
        url.set_password(Some(MASK)).ok()?;
    }
    if url.query().is_some() {
        let pairs: Vec<(String, String)> = url
            .query_pairs()
            .map(|(name, value)| {
                let value = if is_secret_name(&name) {
                    MASK.into()
                } else {
                    value.into_owned()
                };
                (name.into_owned(), value)
            })
            .collect();
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
    Some(url.into())
}

/// Why there is no secret. Its text holds none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("the environment has no variable `{name}`; set it, or name another by `env:NAME`")]
    NoVariable { name: String },
    #[error("cannot read {}: {source}; name a readable file by `file:/path`", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{reference} is empty")]
    Empty { reference: String },
    #[error(
        "is not a database URL ({reason}); it looks like postgres://user:password@host:5432/name, \
         with `%40` and so on for special characters in the password, or like sqlite:path/to/file.db"
    )]
    BadUrl { reason: String },
}

impl Sources {
    pub(crate) fn new(environment: Environment, config_file: &Path) -> Self {
        let dir = config_file
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_default();
        Self { environment, dir }
    }
}
