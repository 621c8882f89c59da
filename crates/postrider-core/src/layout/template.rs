//! Text with `{role}` in it, filled from a record.

use std::fmt::{self, Write as _};

use bytestring::ByteString;
use serde::{Deserialize, Serialize};

use crate::Record;

/// A part of a record that a topic or an attribute can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    EventId,
    EventType,
    AggregateType,
    AggregateId,
    Topic,
    Key,
    IdempotencyKey,
    Version,
    CreatedAt,
}

impl Role {
    const ALL: [(&'static str, Self); 9] = [
        ("event_id", Self::EventId),
        ("event_type", Self::EventType),
        ("aggregate_type", Self::AggregateType),
        ("aggregate_id", Self::AggregateId),
        ("topic", Self::Topic),
        ("key", Self::Key),
        ("idempotency_key", Self::IdempotencyKey),
        ("version", Self::Version),
        ("created_at", Self::CreatedAt),
    ];

    /// The record's value, or `None` where the column is NULL.
    pub fn of(self, record: &Record) -> Option<ByteString> {
        match self {
            Self::EventId => Some(record.event_id.clone().into()),
            Self::EventType => record.event_type.clone(),
            Self::AggregateType => record.aggregate_type.clone(),
            Self::AggregateId => record.aggregate_id.clone(),
            Self::Topic => record.topic.clone(),
            Self::Key => record.key.as_ref().map(|key| key.to_string().into()),
            Self::IdempotencyKey => record.idempotency_key.clone(),
            Self::Version => record.version.map(|version| version.to_string().into()),
            Self::CreatedAt => Some(record.created_at.to_string().into()),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL
            .iter()
            .find(|(_, role)| role == self)
            .map_or("?", |(name, _)| name);
        f.write_str(name)
    }
}

/// Parsed once, when a layout is loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(ByteString),
    Role(Role),
}

impl Template {
    pub fn roles(&self) -> impl Iterator<Item = Role> + '_ {
        self.0.iter().filter_map(|part| match part {
            Part::Role(role) => Some(*role),
            Part::Text(_) => None,
        })
    }

    /// The text for a record, or the role that it has no value for.
    pub fn fill(&self, record: &Record) -> Result<ByteString, Role> {
        // Most have one part, which is there already.
        match self.0.as_slice() {
            [Part::Text(literal)] => return Ok(literal.clone()),
            [Part::Role(role)] => return role.of(record).ok_or(*role),
            _ => {}
        }
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Role(role) => text.push_str(&role.of(record).ok_or(*role)?),
            }
        }
        Ok(text.into())
    }
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(source: String) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = source.as_str();
        while let Some((text, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| format!("`{source}` has a `{{` without `}}`"))?;
            let (_, role) = Role::ALL
                .iter()
                .find(|(role, _)| *role == name)
                .ok_or_else(|| {
                    let known: Vec<&str> = Role::ALL.iter().map(|(name, _)| *name).collect();
                    format!("`{{{name}}}` is not a role; there are {}", known.join(", "))
                })?;
            if !text.is_empty() {
                parts.push(Part::Text(text.into()));
            }
            parts.push(Part::Role(*role));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        if parts.is_empty() {
            return Err("is empty; give a topic, or `{topic}` or `{event_type}`".into());
        }
        Ok(Self(parts))
    }
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.to_string()
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Role(role) => {
                f.write_char('{')?;
                role.fmt(f)?;
                f.write_char('}')
            }
        })
    }
}
