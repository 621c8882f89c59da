//! Who did what to which record. Rows are only ever added.

use std::sync::Arc;

use postrider_core::layout::TableName;

use crate::sql::AUDIT;
use crate::sql::dialect::Dialect;

#[derive(Debug, Clone)]
pub(crate) struct Audit {
    /// who, action, outbox, detail or NULL, record ids as text: a row for each of them.
    pub write: Arc<str>,
    /// who, action, outbox, detail or NULL, record id or NULL: one row.
    pub note: Arc<str>,
    /// outbox, limit → at, who, action, record id, detail; the latest first.
    pub read: Arc<str>,
    /// outbox, limit, record id → the same.
    pub read_of_record: Arc<str>,
}

impl Audit {
    pub(crate) fn new(outbox: &TableName, dialect: &Dialect) -> Self {
        let table = audit_table(outbox).quoted();
        let insert = format!("INSERT INTO {table} (who, action, outbox, detail, record_id)\n");
        let read = |record: &str| {
            format!(
                "SELECT at, who, action, record_id, detail FROM {table}\nWHERE outbox = $1{record}\nORDER BY id DESC LIMIT $2"
            )
        };
        let ids = (dialect.values)(5, "text");
        Self {
            write: format!("{insert}WITH r(id) AS ({ids})\nSELECT $1, $2, $3, $4, r.id FROM r")
                .into(),
            note: format!("{insert}VALUES ($1, $2, $3, $4, $5)").into(),
            read: read("").into(),
            read_of_record: read(" AND record_id = $3").into(),
        }
    }
}

/// The audit of an outbox: beside it, in its schema, shared by all outboxes there.
pub(crate) fn audit_table(outbox: &TableName) -> TableName {
    let name = AUDIT.to_owned().try_into().expect("is a name");
    outbox.sibling(name)
}
