//! Rows of every layout: good ones, and good ones of which columns were replaced.

use fastrand::Rng;
use postrider::core::Layout;
use uuid::Uuid;

use super::database::{Row, Stored};
use super::values::{self, Column, Kind, LARGE_NAME, Value};

/// What a good row's body holds, before its number.
pub(super) const GOOD: &str = "good-";

/// Columns in which a row says itself that it is dead, waits or is somebody's: then it parks its key from the start.
const OF_STATE: &[&str] = &[
    "attempt_count",
    "retry_count",
    "status",
    "next_attempt_at",
    "last_attempt_at",
    "published_at",
    "published",
    "processed",
    "error_message",
];

/// Where good rows go, in brokers that take any name.
pub(super) fn topic(layout: &Layout) -> &'static str {
    match layout.name.as_str() {
        "packfinderz" => "pf-domain-events",
        "debezium" => "outbox.event.sample",
        _ => "samples",
    }
}

/// Whether a row is to be published, by its own state.
pub(super) fn pending(layout: &Layout, now: &str) -> String {
    match layout.name.as_str() {
        "packfinderz" => "published_at IS NULL AND attempt_count < 25".into(),
        "polyshop" => "processed = false".into(),
        "gopipe" => "published = false".into(),
        "talkie" => format!(
            "(status IN ('pending', 'failed') AND coalesce(next_attempt_at <= {now}, true) \
             OR status = 'publishing' AND last_attempt_at IS NULL)"
        ),
        _ => "true".into(),
    }
}

/// The good rows that are not settled, as the rest of a `FROM …` clause.
pub(super) fn unsettled(layout: &Layout) -> String {
    let (from, body) = match layout.name.as_str() {
        "packfinderz" => ("outbox_events WHERE published_at IS NULL", "payload_json"),
        "polyshop" => (
            "outbox_events WHERE (processed = false OR error_message IS NOT NULL)",
            "payload",
        ),
        "gopipe" => ("outbox WHERE published = false", "data"),
        "talkie" => ("outbox WHERE status <> 'published'", "payload_json"),
        "debezium" => ("outbox WHERE true", "payload"),
        // It is appended to only; what failed is copied.
        "native" => (
            "postrider_outbox_troubles WHERE true",
            "encode(payload, 'escape')",
        ),
        other => panic!("no rows of {other} are known"),
    };
    format!("{from} AND CAST({body} AS text) LIKE '%{GOOD}%'")
}

/// Makes rows of one layout, the same ones for the same seed.
pub(super) struct Maker<'a> {
    pub(super) layout: &'a Layout,
    pub(super) columns: &'a [Column],
    /// Where good rows go.
    pub(super) topic: &'a str,
    pub(super) random: Rng,
    /// Values of ten megabytes that may still be made.
    pub(super) large: u32,
    /// The only hostile value that is made, as `column=name`.
    pub(super) only: Option<String>,
    /// Rows whose columns were chosen at random.
    pub(super) turn: usize,
}

/// A row of which some columns are hostile, and what became of its insert.
pub(super) struct Hostile {
    pub(super) row: Row,
    /// `column=name` of each hostile value.
    pub(super) what: Vec<String>,
    pub(super) stored: Option<Stored>,
}

impl<'a> Maker<'a> {
    pub(super) fn uuid(&mut self) -> String {
        let bits = self.random.u128(..);
        uuid::Builder::from_random_bytes(bits.to_be_bytes())
            .into_uuid()
            .to_string()
    }

    /// A key that the layout's table takes.
    pub(super) fn key(&mut self) -> String {
        let name = self.key_column();
        let column = self.columns.iter().find(|c| Some(c.name.as_str()) == name);
        if column.is_some_and(|column| column.kind == Kind::Number) {
            return self.random.u32(..).to_string();
        }
        match self.layout.name.as_str() {
            "packfinderz" => self.uuid(),
            _ => format!("key-{}", Uuid::from_u128(self.random.u128(..)).simple()),
        }
    }

    /// A row that nothing is wrong with, whose body holds the token.
    pub(super) fn good(&mut self, key: &str, token: &str) -> Row {
        let id = self.uuid();
        let (body, topic) = (format!("{{\"token\": \"{token}\"}}"), self.topic);
        let values: Vec<(&str, Value)> = match self.layout.name.as_str() {
            "packfinderz" => vec![
                ("id", id.as_str().into()),
                ("event_type", "license_status_changed".into()),
                ("aggregate_type", "license".into()),
                ("aggregate_id", key.into()),
                (
                    "payload_json",
                    format!(
                        "{{\"version\": 1, \"eventId\": \"{id}\", \"occurredAt\": \"2026-01-01T00:00:00Z\", \
                         \"data\": {body}}}"
                    )
                    .into(),
                ),
            ],
            "polyshop" => vec![
                ("id", id.into()),
                ("aggregate_id", key.into()),
                ("event_type", topic.into()),
                ("payload", body.into()),
                ("metadata", "{}".into()),
            ],
            "talkie" => vec![
                ("id", id.into()),
                ("topic", topic.into()),
                ("key", key.into()),
                ("payload_json", body.into()),
            ],
            "gopipe" => vec![
                ("topic", topic.into()),
                ("event_type", "sampled".into()),
                ("data", body.into()),
                ("attributes", format!("{{\"id\": \"{id}\"}}").into()),
            ],
            "debezium" => vec![
                ("id", id.into()),
                ("aggregatetype", "sample".into()),
                ("aggregateid", key.into()),
                ("type", "sampled".into()),
                ("payload", body.into()),
            ],
            "native" => vec![
                ("event_id", id.into()),
                ("topic", topic.into()),
                ("key", key.into()),
                ("type", "sampled".into()),
                ("payload", Value::Bytes(body.into_bytes())),
            ],
            other => panic!("no rows of {other} are known"),
        };
        let named = values
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        named.collect()
    }

    /// A row of which at least one column is hostile.
    pub(super) fn hostile(&mut self, number: usize) -> Hostile {
        let key = self.key();
        let mut row = self.good(&key, &format!("bad-{number}"));
        let mut what = Vec::new();
        for (column, name) in self.choice(number) {
            let value = values::make(name, &column, &mut self.random);
            what.push(format!("{}={name}", column.name));
            row.insert(column.name, value);
        }
        let stored = None;
        Hostile { row, what, stored }
    }

    /// Every value of every column that holds numbers.
    pub(super) fn numbers(&self) -> Vec<(Column, &'static str)> {
        let columns = self.columns.iter().filter(|c| c.kind == Kind::Number);
        let values = columns.flat_map(|column| {
            let names = values::names(column).into_iter();
            names.map(|name| (column.clone(), name))
        });
        values.collect()
    }

    fn choice(&mut self, number: usize) -> Vec<(Column, &'static str)> {
        if let Some(only) = &self.only {
            let wanted: Vec<&str> = only.split(',').collect();
            return self.named(&wanted);
        }
        // One after the other: chance would leave some of so few out.
        let numbers = self.numbers();
        if let Some(value) = numbers.get(number) {
            return vec![value.clone()];
        }
        // What is dead for sure, and has a key that no index takes.
        if self.random.u8(0..5) == 0
            && let (Some(topic), Some(key)) = (
                self.topic_column(),
                self.key_column().map(ToOwned::to_owned),
            )
        {
            let topic_name = self
                .random
                .choice(["empty", "250 characters"])
                .expect("two");
            let wanted = [
                format!("{topic}={topic_name}"),
                format!("{key}=incompressible"),
            ];
            return self.named(&wanted.each_ref().map(String::as_str));
        }
        let mut open = self.open_columns();
        // Each column comes first in turn, so that all are filled.
        let turn = self.turn % open.len();
        self.turn += 1;
        let first = open.remove(turn);
        // One column mostly: two may hide each other.
        let count = match self.random.u32(0..10) {
            0..6 => 0,
            6..9 => self.random.usize(1..=2),
            _ => open.len(),
        };
        let mut chosen = self.random.choose_multiple(open, count);
        chosen.push(first);
        let mut choice = Vec::new();
        for column in chosen {
            let mut names = values::names(column);
            if self.large == 0 {
                names.retain(|name| *name != LARGE_NAME);
            }
            let name = self.random.choice(names).expect("every column has values");
            self.large -= u32::from(name == LARGE_NAME);
            choice.push((column.clone(), name));
        }
        choice
    }

    /// The values of these `column=name` that the table has.
    fn named(&self, wanted: &[&str]) -> Vec<(Column, &'static str)> {
        let open = self.columns.iter().filter(|column| self.is_open(column));
        let pairs = open.flat_map(|column| {
            let names = values::names(column).into_iter();
            names.map(|name| (column.clone(), name))
        });
        let is_wanted = |(column, name): &(Column, &str)| {
            wanted.contains(&format!("{}={name}", column.name).as_str())
        };
        pairs.filter(is_wanted).collect()
    }

    pub(super) fn open_columns(&self) -> Vec<&'a Column> {
        let columns = self.columns;
        columns.iter().filter(|c| self.is_open(c)).collect()
    }

    /// The column that names a record's topic.
    fn topic_column(&self) -> Option<&'static str> {
        match self.layout.name.as_str() {
            "polyshop" => Some("event_type"),
            "debezium" => Some("aggregatetype"),
            "talkie" | "native" => Some("topic"),
            _ => None,
        }
    }

    /// A stream's positions and transactions are drawn by the database, and nobody else gives them.
    fn is_open(&self, column: &Column) -> bool {
        let is_drawn = self.layout.name == "native" && ["xid", "position"].contains(&&*column.name);
        column.kind != Kind::Closed && !is_drawn
    }

    /// The column that the layout keeps order by, if it is one that rows have values in.
    pub(super) fn key_column(&self) -> Option<&str> {
        self.layout.columns.key.as_ref().map(|key| key.as_str())
    }

    /// Whether a good row may have the hostile one's key and come before it.
    pub(super) fn may_share(&self, hostile: &Hostile) -> bool {
        let of_order = self.layout.order.iter().map(|column| column.as_str());
        let mut spared = of_order
            .chain(self.key_column())
            .chain(OF_STATE.iter().copied());
        self.key_column().is_some()
            && !spared.any(|name| {
                hostile
                    .what
                    .iter()
                    .any(|what| what.starts_with(&format!("{name}=")))
            })
    }
}
