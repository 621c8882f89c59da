//! How a table maps to an inbox.

use postrider_core::layout::{Identifier, TableName};

/// Where a consumer remembers which events it has applied. Start from a preset and replace what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxLayout {
    pub table: TableName,
    pub columns: InboxColumns,
    /// What `ddl` makes of the id column. A table that is there already has its own type, which may be the other.
    pub id_type: IdType,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxColumns {
    pub id: Identifier,
    /// Without it the consumer's name is no part of an entry, and consumers that share the table hide events from each
    /// other: then each needs a table of its own.
    pub subscriber: Option<Identifier>,
    /// Written where the table has it.
    pub event_type: Option<Identifier>,
    /// Written where the table has it.
    pub source: Option<Identifier>,
    /// When the event was entered; entries are cleaned up by it.
    pub time: Identifier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdType {
    Text,
    Uuid,
}

impl InboxLayout {
    /// `processed_messages (subscriber, message_id, created_at)`.
    pub fn gopipe() -> Self {
        Self {
            table: "processed_messages".to_owned().try_into().expect(NAME),
            columns: InboxColumns {
                id: name("message_id"),
                subscriber: Some(name("subscriber")),
                event_type: None,
                source: None,
                time: name("created_at"),
            },
            id_type: IdType::Text,
        }
    }

    /// `processed_events (event_id, processed_at, event_type, source)`: one consumer a table.
    pub fn polyshop() -> Self {
        Self {
            table: "processed_events".to_owned().try_into().expect(NAME),
            columns: InboxColumns {
                id: name("event_id"),
                subscriber: None,
                event_type: Some(name("event_type")),
                source: Some(name("source")),
                time: name("processed_at"),
            },
            id_type: IdType::Uuid,
        }
    }

    /// What an entry is known by.
    pub(crate) fn key(&self) -> impl Iterator<Item = &Identifier> {
        (self.columns.subscriber.iter()).chain([&self.columns.id])
    }
}

const NAME: &str = "is a name";

fn name(name: &str) -> Identifier {
    name.to_owned().try_into().expect(NAME)
}
