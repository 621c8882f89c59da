//! Which columns a claim reads, in which form, and where each role's value stands in a row. A column
//! that plays two roles is read once.

use postrider_core::Layout;
use postrider_core::layout::Identifier;

use super::dialect::Dialect;
use super::table::{Kind, Table};

/// The form in which a value arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Uuid,
    Int,
    Text,
    Bytes,
    Jsonb,
    Time,
}

#[derive(Debug, Clone)]
pub(crate) struct Selected {
    column: String,
    pub expression: String,
    pub form: Form,
}

/// Positions in a row.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub columns: Vec<Selected>,
    pub id: usize,
    pub event_id: Option<usize>,
    pub event_id_header: Option<String>,
    pub event_type: Option<usize>,
    pub aggregate_type: Option<usize>,
    pub aggregate_id: Option<usize>,
    pub topic: Option<usize>,
    pub key: Option<usize>,
    pub idempotency_key: Option<usize>,
    pub version: Option<usize>,
    pub payload: usize,
    pub headers: Option<usize>,
    pub metadata: Option<usize>,
    pub created_at: usize,
    pub attempts: Option<usize>,
}

impl Selection {
    pub(crate) fn new(layout: &Layout, table: &Table, dialect: &Dialect) -> Self {
        let columns = &layout.columns;
        let mut picked = Picked {
            table,
            dialect,
            columns: Vec::new(),
        };
        Self {
            id: picked.value(&columns.id),
            event_id: picked.maybe(columns.event_id.as_ref()),
            event_id_header: columns.event_id_header.clone(),
            event_type: picked.maybe(columns.event_type.as_ref()),
            aggregate_type: picked.maybe(columns.aggregate_type.as_ref()),
            aggregate_id: picked.maybe(columns.aggregate_id.as_ref()),
            topic: picked.maybe(columns.topic.as_ref()),
            key: picked.maybe(columns.key.as_ref()),
            idempotency_key: picked.maybe(columns.idempotency_key.as_ref()),
            version: picked.maybe(columns.version.as_ref()),
            payload: picked.bytes(&columns.payload),
            headers: columns.headers.as_ref().map(|column| picked.bytes(column)),
            // The one column that a table may lack.
            metadata: (columns.metadata.as_ref())
                .filter(|column| table.column(column).is_some())
                .map(|column| picked.bytes(column)),
            created_at: picked.time(&columns.created_at),
            attempts: picked.maybe(columns.attempts.as_ref()),
            columns: picked.columns,
        }
    }

    /// The select list, with the names that [`Selection::names`] gives.
    pub(crate) fn list(&self) -> String {
        let named: Vec<String> = self
            .columns
            .iter()
            .enumerate()
            .map(|(n, c)| format!("{} AS c{n}", c.expression))
            .collect();
        named.join(", ")
    }

    pub(crate) fn names(&self) -> String {
        let names: Vec<String> = (0..self.columns.len()).map(|n| format!("c{n}")).collect();
        names.join(", ")
    }
}

struct Picked<'a> {
    table: &'a Table,
    dialect: &'a Dialect,
    columns: Vec<Selected>,
}

impl Picked<'_> {
    fn maybe(&mut self, column: Option<&Identifier>) -> Option<usize> {
        column.map(|column| self.value(column))
    }

    /// An id, a number or a word. What has no simple form of its own is read as text.
    fn value(&mut self, column: &Identifier) -> usize {
        match self.table.kind(column) {
            Kind::Uuid => self.pick(column, None, Form::Uuid),
            Kind::Int => self.pick(column, None, Form::Int),
            Kind::Text => self.pick(column, None, Form::Text),
            _ => self.pick(column, Some("text"), Form::Text),
        }
    }

    /// A document, in the bytes in which it is stored.
    fn bytes(&mut self, column: &Identifier) -> usize {
        match self.table.kind(column) {
            Kind::Json | Kind::Text | Kind::Bytes => self.pick(column, None, Form::Bytes),
            Kind::Jsonb => self.pick(column, None, Form::Jsonb),
            _ => self.pick(column, Some("text"), Form::Bytes),
        }
    }

    fn time(&mut self, column: &Identifier) -> usize {
        match self.table.kind(column) {
            Kind::Time => self.pick(column, None, Form::Time),
            _ => self.pick(column, Some("timestamptz"), Form::Time),
        }
    }

    fn pick(&mut self, column: &Identifier, cast: Option<&str>, form: Form) -> usize {
        let same = |picked: &Selected| picked.column == column.as_str() && picked.form == form;
        if let Some(position) = self.columns.iter().position(same) {
            return position;
        }
        let value = format!("o.{}", column.quoted());
        self.columns.push(Selected {
            column: column.as_str().into(),
            expression: cast.map_or(value.clone(), |to| (self.dialect.cast)(&value, to)),
            form,
        });
        self.columns.len() - 1
    }
}
