//! The tables of the presets, as their source systems state them. Where a source says nothing, JSON is
//! stored as text (`json` keeps the bytes) and times come from the moment of the insert.

use postrider_core::Layout;
use postrider_core::layout::{Identifier, State, TableName};

use super::dialect::Dialect;
use crate::options::Options;
use crate::sql::statement::{
    audit_table, claim_index, dead_check, dead_index, literal, suffixed, troubled_index,
    troubles_table,
};
use crate::sql::table::Table;

const AGGREGATE_TYPES: &[&str] = &[
    "vendor_order",
    "checkout_group",
    "license",
    "store",
    "media",
    "ledger_event",
    "notification",
    "ad",
];

const EVENT_TYPES: &[&str] = &[
    "order_created",
    "order_state_changed",
    "line_item_state_changed",
    "license_status_changed",
    "media_uploaded",
    "payment_settled",
    "cash_collected",
    "vendor_payout_recorded",
    "notification_requested",
    "order_expired",
    "order_canceled",
    "reservation_released",
    "ad_created",
    "ad_updated",
    "ad_paused",
    "ad_activated",
    "ad_expired",
    "ad_daily_rollup_ready",
];

/// The statements that create a preset's table and what it cannot be without; none for others.
pub(crate) fn table(layout: &Layout, dialect: &Dialect) -> Vec<String> {
    match layout.name.as_str() {
        "packfinderz" => packfinderz(layout, dialect),
        "talkie" => talkie(layout, dialect),
        "polyshop" => polyshop(layout, dialect),
        "gopipe" => gopipe(layout, dialect),
        "debezium" => debezium(layout, dialect),
        "native" if dialect.locks_rows => super::native::table(layout),
        _ => Vec::new(),
    }
}

fn packfinderz(layout: &Layout, dialect: &Dialect) -> Vec<String> {
    let columns = &layout.columns;
    let mut statements = Vec::new();
    let mut word = |name, words| {
        if !dialect.describes {
            return "text".to_owned();
        }
        let (name, create) = enum_type(&layout.table, name, words);
        statements.push(create);
        name
    };
    let event_type = word("event_type_enum", EVENT_TYPES);
    let aggregate_type = word("aggregate_type_enum", AGGREGATE_TYPES);
    let mut table = Create::new(layout, dialect);
    table.column(&columns.id, "uuid PRIMARY KEY");
    table.maybe(&columns.event_type, &format!("{event_type} NOT NULL"));
    table.maybe(
        &columns.aggregate_type,
        &format!("{aggregate_type} NOT NULL"),
    );
    table.maybe(&columns.aggregate_id, "uuid NOT NULL");
    table.column(&columns.payload, "jsonb NOT NULL");
    table.column(&columns.created_at, "timestamptz NOT NULL DEFAULT now()");
    table.state();
    statements.push(table.statement());
    if !dialect.describes {
        // The source's own index of published_at would be preferred to the claim's, and the backlog sorted.
        statements.extend(claim_indexes(layout, dialect));
        return statements;
    }
    let published_at = layout.published_at().cloned();
    let both = columns
        .aggregate_type
        .iter()
        .chain(&columns.aggregate_id)
        .collect::<Vec<_>>();
    for indexed in [
        published_at.iter().collect(),
        columns.event_type.iter().collect(),
        both,
    ] {
        statements.extend(index(layout, &indexed));
    }
    statements
}

fn talkie(layout: &Layout, dialect: &Dialect) -> Vec<String> {
    let columns = &layout.columns;
    let mut table = Create::new(layout, dialect);
    table.column(&columns.id, "uuid PRIMARY KEY DEFAULT gen_random_uuid()");
    table.maybe(&columns.topic, "text NOT NULL");
    table.maybe(&columns.key, "text");
    table.maybe(&columns.idempotency_key, "text");
    table.column(&columns.payload, "json NOT NULL");
    table.state();
    table.column(
        &columns.created_at,
        "timestamptz NOT NULL DEFAULT clock_timestamp()",
    );
    let mut comment = None;
    if let (Some(topic), Some(key)) = (&columns.topic, &columns.idempotency_key) {
        table.constraint(format!("UNIQUE ({}, {})", topic.quoted(), key.quoted()));
        comment = dialect.describes.then(|| format!(
            "COMMENT ON COLUMN {}.{} IS 'An event is recorded once per topic and key; NULL opts out.'",
            layout.table.quoted(),
            key.quoted()
        ));
    }
    table.unpublished_has_no_time();
    table.dead_was_tried();
    let mut statements = vec![table.statement()];
    statements.extend(comment);
    statements.extend(claim_indexes(layout, dialect));
    let options = Options::new(layout.clone());
    let dead = dead_index(&options.writer(&Table::unseen(&layout.table), dialect));
    statements.extend(dead.map(|index| index.create("IF NOT EXISTS", &layout.table.quoted())));
    statements
}

fn polyshop(layout: &Layout, dialect: &Dialect) -> Vec<String> {
    let columns = &layout.columns;
    let mut table = Create::new(layout, dialect);
    table.column(&columns.id, "uuid PRIMARY KEY DEFAULT gen_random_uuid()");
    table.maybe(&columns.aggregate_id, "text NOT NULL");
    table.maybe(&columns.event_type, "text NOT NULL");
    table.maybe(&columns.version, "integer NOT NULL DEFAULT 1");
    table.column(&columns.payload, "json NOT NULL");
    table.column(
        &columns.created_at,
        "timestamptz NOT NULL DEFAULT clock_timestamp()",
    );
    table.state();
    table.maybe(&columns.metadata, "jsonb");
    let mut statements = vec![table.statement()];
    statements.extend(claim_indexes(layout, dialect));
    statements
}

fn gopipe(layout: &Layout, dialect: &Dialect) -> Vec<String> {
    let columns = &layout.columns;
    let mut table = Create::new(layout, dialect);
    table.column(&columns.id, "bigserial PRIMARY KEY");
    table.column(&columns.created_at, "timestamptz NOT NULL DEFAULT now()");
    table.maybe(&columns.topic, "text NOT NULL");
    table.maybe(&columns.event_type, "text NOT NULL");
    table.column(&columns.payload, "jsonb NOT NULL");
    table.maybe(&columns.headers, "jsonb NOT NULL");
    table.state();
    let mut statements = vec![table.statement()];
    statements.extend(claim_indexes(layout, dialect));
    statements.extend(index(layout, &[&columns.created_at]));
    statements
}

fn debezium(layout: &Layout, dialect: &Dialect) -> Vec<String> {
    let columns = &layout.columns;
    let mut table = Create::new(layout, dialect);
    table.column(&columns.id, "uuid PRIMARY KEY");
    table.maybe(&columns.aggregate_type, "varchar(255) NOT NULL");
    table.maybe(&columns.aggregate_id, "varchar(255) NOT NULL");
    table.maybe(&columns.event_type, "varchar(255) NOT NULL");
    table.column(&columns.payload, "jsonb");
    table.column(
        &columns.created_at,
        "timestamptz NOT NULL DEFAULT clock_timestamp()",
    );
    table.state();
    let mut statements = vec![table.statement()];
    statements.extend(claim_indexes(layout, dialect));
    statements
}

fn claim_indexes(layout: &Layout, dialect: &Dialect) -> Vec<String> {
    let options = Options::new(layout.clone());
    let unseen = Table::unseen(&layout.table);
    let writer = options.writer(&unseen, dialect);
    let name = layout.table.quoted();
    let indexes = [Some(claim_index(&writer)), troubled_index(&writer)];
    indexes
        .into_iter()
        .flatten()
        .map(|index| index.create("IF NOT EXISTS", &name))
        .collect()
}

/// An index of the source system's own, named as Postgres would.
fn index(layout: &Layout, columns: &[&Identifier]) -> Option<String> {
    let first = columns.first()?;
    let joined: Vec<&str> = columns.iter().map(|column| column.as_str()).collect();
    let suffix = format!("_{}_idx", joined.join("_"));
    let suffix = if suffix.len() < 48 {
        suffix
    } else {
        format!("_{}_idx", first.as_str().len())
    };
    let quoted: Vec<String> = columns.iter().map(|column| column.quoted()).collect();
    Some(format!(
        "CREATE INDEX IF NOT EXISTS {} ON {} ({})",
        suffixed(&layout.table.name, &suffix).quoted(),
        layout.table.quoted(),
        quoted.join(", ")
    ))
}

/// A table in the making. A column that plays two roles is made once.
struct Create<'a> {
    layout: &'a Layout,
    dialect: &'a Dialect,
    names: Vec<&'a Identifier>,
    lines: Vec<String>,
}

impl<'a> Create<'a> {
    fn new(layout: &'a Layout, dialect: &'a Dialect) -> Self {
        Self {
            layout,
            dialect,
            names: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn column(&mut self, name: &'a Identifier, definition: &str) {
        if !self.names.contains(&name) {
            self.names.push(name);
            let definition = self.dialect.defined(definition);
            self.lines.push(format!("{} {definition}", name.quoted()));
        }
    }

    fn maybe(&mut self, name: &'a Option<Identifier>, definition: &str) {
        if let Some(name) = name {
            self.column(name, definition);
        }
    }

    fn constraint(&mut self, definition: String) {
        self.lines.push(definition);
    }

    /// The columns that a record's state is written in.
    fn state(&mut self) {
        let columns = &self.layout.columns;
        match &self.layout.state {
            State::Timestamp { published_at } => self.column(published_at, "timestamptz"),
            State::Flag {
                published,
                published_at,
                ..
            } => {
                self.column(published, "boolean NOT NULL DEFAULT false");
                self.maybe(published_at, "timestamptz");
            }
            State::Status {
                column,
                pending,
                retry_at,
                last_attempt_at,
                published_at,
                ..
            } => {
                self.column(column, &self.status(column, pending));
                self.column(retry_at, "timestamptz NOT NULL DEFAULT now()");
                self.column(last_attempt_at, "timestamptz");
                self.maybe(published_at, "timestamptz");
            }
            State::Delete | State::Append { .. } => {}
        }
        self.maybe(&columns.attempts, "integer NOT NULL DEFAULT 0");
        self.maybe(&columns.last_error, "text");
    }

    fn status(&self, column: &Identifier, first: &str) -> String {
        let State::Status {
            pending,
            publishing,
            published,
            failed,
            dead,
            ..
        } = &self.layout.state
        else {
            return "text".into();
        };
        let words: Vec<String> = [pending, publishing, published, failed, dead]
            .map(|word| literal(word))
            .into();
        format!(
            "text NOT NULL DEFAULT {} CHECK ({} IN ({}))",
            literal(first),
            column.quoted(),
            words.join(", ")
        )
    }

    /// Claims look for records without a time, so that one which is set back by hand must lose it.
    fn unpublished_has_no_time(&mut self) {
        if let State::Status {
            column,
            published,
            published_at: Some(time),
            ..
        } = &self.layout.state
        {
            let (status, published) = (column.quoted(), literal(published));
            self.constraint(format!(
                "CHECK ({} IS NULL OR {status} = {published})",
                time.quoted()
            ));
        }
    }

    /// Dead records are looked for among those that have failed, where claims must write no index.
    fn dead_was_tried(&mut self) {
        if let (State::Status { column, dead, .. }, Some(attempts), true) = (
            &self.layout.state,
            &self.layout.columns.attempts,
            self.dialect.locks_rows,
        ) {
            self.constraint(format!(
                "CONSTRAINT {} CHECK ({} <> {} OR {} > 0)",
                dead_check(&self.layout.table).quoted(),
                column.quoted(),
                literal(dead),
                attempts.quoted()
            ));
        }
    }

    fn statement(&self) -> String {
        let table = self.layout.table.quoted();
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  {}\n){}",
            self.lines.join(",\n  "),
            self.room()
        )
    }

    /// A claim by status writes a second version of each record. With room for it on the same page, no index has to
    /// be written.
    fn room(&self) -> &'static str {
        match self.layout.state {
            State::Status { .. } if self.dialect.locks_rows => " WITH (fillfactor = 45)",
            _ => "",
        }
    }
}

/// The table of troubles beside an outbox.
pub(crate) fn troubles(outbox: &TableName, dialect: &Dialect) -> String {
    let token = dialect.token_type;
    // An id or a key may be longer than an index takes, so neither stands in one.
    let columns = dialect.defined(&format!(
        "outbox text NOT NULL,\n  record_id text NOT NULL,\n  id_token {token} NOT NULL,\n  key text,\n  \
         key_token {token},\n  record_created_at timestamptz,\n  attempts integer NOT NULL,\n  \
         next_attempt_at timestamptz NOT NULL,\n  last_error text,\n  dead boolean NOT NULL DEFAULT false,\n  \
         created_at timestamptz NOT NULL DEFAULT now(),\n  PRIMARY KEY (outbox, id_token)",
    ));
    let table = troubles_table(outbox).quoted();
    format!("CREATE TABLE IF NOT EXISTS {table} (\n  {columns}\n)")
}

/// By which claims find those of records above a value: see `postgres/floor`.
#[cfg(feature = "postgres")]
pub(crate) fn troubles_index(outbox: &TableName) -> String {
    let table = troubles_table(outbox);
    format!(
        "CREATE INDEX IF NOT EXISTS {} ON {} (outbox, ({}))",
        suffixed(&table.name, "_record").quoted(),
        table.quoted(),
        crate::sql::statement::trouble_value("")
    )
}

/// The audit table beside an outbox.
pub(crate) fn audit(outbox: &TableName, dialect: &Dialect) -> [String; 2] {
    let table = audit_table(outbox);
    let index = suffixed(&table.name, "_record");
    let columns = dialect.defined(
        "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,\n  \
         at timestamptz NOT NULL DEFAULT clock_timestamp(),\n  who text NOT NULL,\n  action text NOT NULL,\n  \
         outbox text NOT NULL,\n  record_id text,\n  detail text",
    );
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {} (\n  {columns}\n)",
            table.quoted()
        ),
        format!(
            "CREATE INDEX IF NOT EXISTS {} ON {} (outbox, record_id)",
            index.quoted(),
            table.quoted()
        ),
    ]
}

/// An enum type beside the table.
fn enum_type(table: &TableName, name: &str, labels: &[&str]) -> (String, String) {
    let name: Identifier = name.to_owned().try_into().expect("is a name");
    let name = table.sibling(name).quoted();
    let labels: Vec<String> = labels.iter().map(|label| literal(label)).collect();
    let create = block(&format!(
        "BEGIN\n  CREATE TYPE {name} AS ENUM ({});\nEXCEPTION WHEN duplicate_object OR unique_violation THEN\n  NULL;\nEND",
        labels.join(", ")
    ));
    (name, create)
}

/// Statements that Postgres runs as one.
pub(crate) fn block(body: &str) -> String {
    format!("DO {}", quote(body))
}

/// A text as one literal, readable where it can be.
pub(crate) fn quote(text: &str) -> String {
    const TAG: &str = "$postrider$";
    if text.contains(TAG) {
        literal(text)
    } else {
        format!("{TAG}\n{text}\n{TAG}")
    }
}
