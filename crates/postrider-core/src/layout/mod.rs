//! How a table maps to a record: which column plays which role, how state is written, how a
//! message is made. Layouts are data; presets are embedded TOML files and a config may override
//! any part of one.

mod identifier;
mod preset;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use identifier::{Identifier, TableName};
pub use preset::{PRESETS, preset_source};
pub use template::{Role, Template};

use crate::envelope::EnvelopeKind;

/// Whether later events of a key may overtake earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ordering {
    Key,
    None,
}

/// How a relay holds the records it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimMode {
    /// By the row locks of one open transaction. Needs no column.
    Hold,
    /// By a status and the time of the claim, for `lease` at most.
    Lease,
    /// By a lock on a group of lanes, whose saved progress says what was read. Needs a table that is only appended to.
    Stream,
}

/// A whole layout, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// The preset's name, or `custom`.
    #[serde(default = "custom")]
    pub name: String,
    pub table: TableName,
    pub claim: ClaimMode,
    pub columns: Columns,
    pub state: State,
    /// Columns that put records in order. The last one must be unique.
    pub order: Vec<Identifier>,
    pub ordering: Ordering,
    /// Where messages go: text with `{role}` in it, for example `outbox.event.{aggregate_type}`.
    pub topic: Template,
    #[serde(default)]
    pub envelope: EnvelopeKind,
    /// Whether a NULL payload is published as a tombstone. Otherwise it is a permanent failure.
    #[serde(default)]
    pub tombstones: bool,
    /// Header or attribute name → the role whose value it carries.
    #[serde(default)]
    pub attributes: BTreeMap<String, Role>,
    #[serde(default)]
    pub defaults: Defaults,
}

fn custom() -> String {
    "custom".into()
}

/// Which column plays which role. Only `id`, `payload` and `created_at` are needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// What a record is known by. Unique.
    pub id: Identifier,
    /// The column that holds the event id; where there is none, `event_id_header` or the record id.
    pub event_id: Option<Identifier>,
    /// The name in the headers column that holds the event id.
    pub event_id_header: Option<String>,
    /// What happened, for routes and envelopes.
    pub event_type: Option<Identifier>,
    /// What kind of thing it happened to.
    pub aggregate_type: Option<Identifier>,
    /// Which one it happened to.
    pub aggregate_id: Option<Identifier>,
    /// Where the message goes, for a `topic` with `{topic}` in it.
    pub topic: Option<Identifier>,
    /// What records of one order share. It is also the message's key.
    pub key: Option<Identifier>,
    /// The writer's own name for the event, handed on to consumers.
    pub idempotency_key: Option<Identifier>,
    /// The version of the payload's shape.
    pub version: Option<Identifier>,
    /// The message's body, or what the envelope is built around.
    pub payload: Identifier,
    /// A JSON object of header names and values.
    pub headers: Option<Identifier>,
    /// A JSON object (trace, correlation, user). Used where the table has it, else ignored.
    pub metadata: Option<Identifier>,
    /// When the record was written. The backlog's age is counted from here.
    pub created_at: Identifier,
    /// How often publishing failed. Without it, attempts are kept in `postrider_troubles`.
    pub attempts: Option<Identifier>,
    /// Why publishing failed the last time.
    pub last_error: Option<Identifier>,
}

/// How a record's state is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum State {
    /// `published_at` is NULL until published. Dead: `attempts` has reached the maximum.
    Timestamp { published_at: Identifier },
    /// A boolean turns true. Retries and deaths are kept in `postrider_troubles`.
    Flag {
        published: Identifier,
        published_at: Option<Identifier>,
        /// Whether a dead record is marked published too, told apart by its error. It then leaves
        /// the claim's index. Needs `last_error`.
        #[serde(default)]
        dead_is_flagged: bool,
    },
    /// A status column with one word per state.
    Status {
        column: Identifier,
        pending: String,
        publishing: String,
        published: String,
        failed: String,
        dead: String,
        retry_at: Identifier,
        last_attempt_at: Identifier,
        published_at: Option<Identifier>,
    },
    /// The row is deleted once published. Retries and deaths are kept in `postrider_troubles`.
    Delete,
    /// No row is ever updated: what was published is known from the saved progress of each group of lanes.
    Append {
        /// The transaction that wrote the row.
        xid: Identifier,
        /// Groups of lanes that `init` sets up; each is read by one relay at a time.
        #[serde(default = "groups")]
        groups: u32,
        /// What `init` makes of the payload column.
        #[serde(default)]
        payload: PayloadType,
    },
}

/// The most groups of lanes that an append-only outbox may have: as many as there are lanes.
pub const GROUPS_MAX: u32 = 32;

fn groups() -> u32 {
    2
}

/// How an append-only outbox stores payloads. Both give back the bytes that were given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PayloadType {
    #[default]
    Bytea,
    /// Refuses what is not JSON, and can be read in SQL.
    Json,
}

/// What a source system uses where a config says nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    pub batch: Option<u32>,
    pub poll_ms: Option<u64>,
    pub max_attempts: Option<u32>,
    pub keep_days: Option<u32>,
}

impl Defaults {
    pub fn keep(&self) -> Option<Duration> {
        self.keep_days
            .map(|days| Duration::from_secs(u64::from(days) * 24 * 60 * 60))
    }
}

impl Layout {
    /// One of [`PRESETS`].
    pub fn preset(name: &str) -> Result<Self, LayoutError> {
        Self::with_overrides(name, toml::Table::new())
    }

    /// A preset with some of its values replaced: tables are merged, all else is replaced. The
    /// name `custom` starts from nothing.
    pub fn with_overrides(name: &str, overrides: toml::Table) -> Result<Self, LayoutError> {
        let mut table = if name == "custom" {
            toml::Table::new()
        } else {
            preset::table(name)?
        };
        merge(&mut table, overrides);
        let layout: Self =
            toml::Value::Table(table)
                .try_into()
                .map_err(|source| LayoutError::Malformed {
                    layout: name.into(),
                    source,
                })?;
        layout.validate()?;
        Ok(layout)
    }

    /// Whether retries and deaths need the side table `postrider_troubles`.
    pub fn needs_troubles(&self) -> bool {
        matches!(self.state, State::Flag { .. } | State::Delete)
    }

    /// The column whose value says when a record was published, if there is one.
    pub fn published_at(&self) -> Option<&Identifier> {
        match &self.state {
            State::Timestamp { published_at } => Some(published_at),
            State::Flag { published_at, .. } | State::Status { published_at, .. } => {
                published_at.as_ref()
            }
            State::Delete | State::Append { .. } => None,
        }
    }

    fn validate(&self) -> Result<(), LayoutError> {
        let wrong = |what: &str| {
            Err(LayoutError::Inconsistent {
                layout: self.name.clone(),
                what: what.into(),
            })
        };
        let columns = &self.columns;
        if self.order.is_empty() {
            return wrong("`order` names no column; name those that put records in insert order");
        }
        if self.ordering == Ordering::Key && columns.key.is_none() {
            return wrong("`ordering = \"key\"` needs `columns.key`");
        }
        if (self.claim == ClaimMode::Lease) != matches!(self.state, State::Status { .. }) {
            return wrong("`claim = \"lease\"` and `state.kind = \"status\"` need each other");
        }
        if (self.claim == ClaimMode::Stream) != matches!(self.state, State::Append { .. }) {
            return wrong("`claim = \"stream\"` and `state.kind = \"append\"` need each other");
        }
        match &self.state {
            State::Append { groups, .. } if !(1..=GROUPS_MAX).contains(groups) => {
                wrong("`state.groups` must be from 1 to 32")
            }
            State::Append { .. } if columns.attempts.is_some() || columns.last_error.is_some() => {
                wrong(
                    "`state.kind = \"append\"` updates no row, so it has no `columns.attempts` or `columns.last_error`",
                )
            }
            State::Append { .. } if self.order.as_slice() != [columns.id.clone()] => {
                wrong("`state.kind = \"append\"` is ordered by `columns.id` alone")
            }
            State::Timestamp { .. } if columns.attempts.is_none() => {
                wrong("`state.kind = \"timestamp\"` needs `columns.attempts`")
            }
            State::Status { .. } if columns.attempts.is_none() => {
                wrong("`state.kind = \"status\"` needs `columns.attempts`")
            }
            State::Flag {
                dead_is_flagged: true,
                ..
            } if columns.last_error.is_none() => {
                wrong("`state.dead_is_flagged` needs `columns.last_error`")
            }
            _ => self.validate_roles(),
        }
    }

    fn validate_roles(&self) -> Result<(), LayoutError> {
        let named = self.topic.roles().chain(self.attributes.values().copied());
        for role in named {
            if !self.has(role) {
                return Err(LayoutError::Inconsistent {
                    layout: self.name.clone(),
                    what: format!(
                        "`{role}` is used in `topic` or `attributes`, but `columns.{role}` is not set"
                    ),
                });
            }
        }
        Ok(())
    }

    fn has(&self, role: Role) -> bool {
        let columns = &self.columns;
        match role {
            Role::EventId | Role::CreatedAt => true,
            Role::EventType => columns.event_type.is_some(),
            Role::AggregateType => columns.aggregate_type.is_some(),
            Role::AggregateId => columns.aggregate_id.is_some(),
            Role::Topic => columns.topic.is_some(),
            Role::Key => columns.key.is_some(),
            Role::IdempotencyKey => columns.idempotency_key.is_some(),
            Role::Version => columns.version.is_some(),
        }
    }
}

fn merge(base: &mut toml::Table, overrides: toml::Table) {
    for (name, value) in overrides {
        match (base.get_mut(&name), value) {
            // Another kind of state has other fields: nothing of the old one is kept.
            (Some(toml::Value::Table(old)), toml::Value::Table(new))
                if !new.contains_key("kind") =>
            {
                merge(old, new);
            }
            (_, value) => {
                base.insert(name, value);
            }
        }
    }
}

/// Why a layout is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    #[error("there is no layout `{name}`; there are {}, and `custom`", PRESETS.join(", "))]
    Unknown { name: String },
    #[error("layout {layout}: {}", source.message())]
    Malformed {
        layout: String,
        source: toml::de::Error,
    },
    #[error("layout {layout}: {what}")]
    Inconsistent { layout: String, what: String },
}
