//! What is known of a real table: read from the database's catalogue once, then plain data.

use postrider_core::layout::{Identifier, TableName};

/// What a column holds, as far as statements and decoding care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Uuid,
    Int,
    Text,
    Json,
    Jsonb,
    Bytes,
    Bool,
    /// An instant.
    Time,
    /// A time without a zone; the session's zone says which instant it is.
    LocalTime,
    Enum,
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub name: String,
    pub kind: Kind,
    /// As SQL writes it, for casts.
    pub sql_type: String,
    pub nullable: bool,
    /// The default's expression, or what stands for it in identity and generated columns.
    pub default: Option<String>,
    /// The most characters it takes.
    pub chars_max: Option<u32>,
    /// An enum's words.
    pub labels: Vec<String>,
    /// Whether each new value comes from a sequence that sessions take in advance.
    pub sequence_cached: bool,
    pub may_select: bool,
    pub may_update: bool,
    pub may_insert: bool,
    pub details: Details,
}

/// What only checks ask of a column.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details {
    pub rank: Rank,
    /// Whether a value whose row is gone may be given again.
    pub given_again: bool,
    /// The domains of its type that have a CHECK.
    pub domain_checks: Vec<String>,
    /// The table's own CHECK constraints that read it.
    pub table_checks: Vec<String>,
}

/// Whether a catalogue shows this name so: quoted where it must be.
pub(crate) fn is_shown_as(name: &Identifier, shown: &str) -> bool {
    shown == name.as_str() || shown == name.quoted()
}

/// How far a column's values tell which record came first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Rank {
    /// As far as its values go: numbers, and times to the microsecond.
    #[default]
    Fine,
    /// Never in the wrong order, but many records share a value; why.
    Coarse(String),
    /// A time that each session reads in its own zone; why it is coarse besides, if it is.
    Zoneless(Option<String>),
    /// As far as whoever writes the record makes it so.
    Free,
    /// Not at all; why.
    Never(&'static str),
}

#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The real name with its schema, whatever a config calls it.
    pub full_name: String,
    pub columns: Vec<Column>,
    pub may_delete: bool,
    /// Who asks, as SQL writes it.
    pub role: String,
    /// Neither partitioned nor a part of another, nor a view: whoever inserts into it locks it before.
    pub is_plain: bool,
    /// Whether the claim can walk an index that holds only pending records, in order.
    pub claim_index: bool,
    pub troubles: Beside,
    pub audit: Beside,
    /// The sets of columns that no two rows share.
    pub unique: Vec<Vec<String>>,
    pub partitions: Option<Partitions>,
    pub rows: Rows,
}

/// Where a table's rows are. Its own indexes speak for no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    Here,
    /// It is a view or a foreign table.
    Elsewhere,
    /// Also in tables that inherit from it.
    Inherited,
}

/// How a table is partitioned.
#[derive(Debug, Clone)]
pub(crate) struct Partitions {
    /// The columns that say where a row belongs.
    pub by: Vec<String>,
    /// Whether an expression does, too. No unique index can be made on such a table.
    pub by_expression: bool,
    /// The columns whose values no two rows of a partition share, in any of them.
    pub unique_in_each: Vec<String>,
}

/// The state of a table that Postrider keeps beside the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Missing,
    /// There, but this role may not do with it what it must.
    Forbidden,
    Ready,
}

impl Beside {
    pub(crate) fn new(exists: bool, may: bool) -> Self {
        match (exists, may) {
            (false, _) => Self::Missing,
            (true, false) => Self::Forbidden,
            (true, true) => Self::Ready,
        }
    }
}

impl Table {
    /// A table of which nothing is known, as if every column were fit and filled.
    pub(crate) fn unseen(name: &TableName) -> Self {
        Self {
            full_name: name.to_string(),
            columns: Vec::new(),
            may_delete: true,
            role: "CURRENT_USER".into(),
            is_plain: true,
            claim_index: false,
            troubles: Beside::Ready,
            audit: Beside::Ready,
            unique: Vec::new(),
            partitions: None,
            rows: Rows::Here,
        }
    }

    pub(crate) fn column(&self, name: &Identifier) -> Option<&Column> {
        self.columns
            .iter()
            .find(|column| column.name == name.as_str())
    }

    pub(crate) fn kind(&self, name: &Identifier) -> Kind {
        self.column(name).map_or(Kind::Other, |column| column.kind)
    }

    pub(crate) fn sql_type(&self, name: &Identifier) -> &str {
        self.column(name).map_or("text", |column| &column.sql_type)
    }

    pub(crate) fn is_nullable(&self, name: &Identifier) -> bool {
        self.column(name).is_some_and(|column| column.nullable)
    }
}
