//! What an operator sees: records by filter, page by page, and the keys that are held up. Statements are made per
//! question, so that the database plans for the fields that are really asked about.

use postrider_core::layout::{Identifier, State};
use postrider_core::{OnDead, RecordFilter, RecordId, RecordState};

use super::{Writer, literal, of};
use crate::sql::selection::Selection;
use crate::sql::table::Kind;

/// A statement and the values of its parameters, in order.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub text: String,
    pub parameters: Vec<Parameter>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parameter {
    /// A list of [`Writer::id_list`]'s type.
    Ids(Vec<RecordId>),
    Text(String),
    Int(i64),
}

/// Where the values of a [`Writer::find`] stand in a row; the order columns' follow.
pub(crate) mod stored {
    pub(crate) const ID: usize = 0;
    pub(crate) const EVENT_ID: usize = 1;
    pub(crate) const HEADERS: usize = 2;
    pub(crate) const EVENT_TYPE: usize = 3;
    pub(crate) const AGGREGATE_TYPE: usize = 4;
    pub(crate) const AGGREGATE_ID: usize = 5;
    pub(crate) const KEY: usize = 6;
    pub(crate) const TOPIC: usize = 7;
    pub(crate) const STATE: usize = 8;
    pub(crate) const ATTEMPTS: usize = 9;
    pub(crate) const ERROR: usize = 10;
    pub(crate) const CREATED_AT: usize = 11;
    pub(crate) const PUBLISHED_AT: usize = 12;
    pub(crate) const RETRY_AT: usize = 13;
    pub(crate) const PAYLOAD_BYTES: usize = 14;
    pub(crate) const ORDER: usize = 15;
}

impl Writer<'_> {
    /// Stored records without their payloads, at the positions of [`stored`].
    pub(crate) fn find(
        &self,
        outbox: &str,
        filter: &RecordFilter,
        from: Option<&[String]>,
        limit: u32,
    ) -> Question {
        self.page(&self.stored_list(), outbox, filter, from, limit)
    }

    /// Whole records as `selection` has them, then their attempts, then the order columns' values.
    pub(crate) fn read(
        &self,
        selection: &Selection,
        outbox: &str,
        filter: &RecordFilter,
        from: Option<&[String]>,
        limit: u32,
    ) -> Question {
        let attempts = (self.dialect.cast)(&self.attempts_made(), "int8");
        let list = format!("{}, {attempts}, {}", selection.list(), self.order_texts());
        self.page(&list, outbox, filter, from, limit)
    }

    pub(crate) fn count(&self, outbox: &str, filter: &RecordFilter) -> Question {
        let wanted = self.wanted(outbox, filter, None);
        Question {
            text: format!(
                "SELECT count(*) FROM {} AS o{}\nWHERE {}",
                self.source(),
                self.with_troubles(),
                wanted.conditions()
            ),
            parameters: wanted.parameters,
        }
    }

    /// The page is chosen by ids first: nothing large is sorted, and no payload is looked at that is not in it.
    fn page(
        &self,
        list: &str,
        outbox: &str,
        filter: &RecordFilter,
        from: Option<&[String]>,
        limit: u32,
    ) -> Question {
        let mut wanted = self.wanted(outbox, filter, from);
        let limit = wanted.parameter(Parameter::Int(i64::from(limit)));
        let text = format!(
            "WITH page AS MATERIALIZED (\nSELECT {id} AS id FROM {name} AS o{troubles}\nWHERE {}\nORDER BY {order} LIMIT {limit})\n\
             SELECT {list}\nFROM page JOIN {name} AS o ON {id} = page.id{troubles}\nORDER BY {order}",
            wanted.conditions(),
            id = self.id("o"),
            name = self.source(),
            troubles = self.with_troubles(),
            order = self.order("o"),
        );
        Question {
            text,
            parameters: wanted.parameters,
        }
    }

    /// Keys with a record that holds them up, the longest held first: what [`Writer::find`] gives of that record,
    /// then how many wait behind it. Nothing where no order is kept.
    pub(crate) fn parked(&self, outbox: &str, limit: u32) -> Option<Question> {
        let key = of("o", self.ordered_key()?);
        let mut wanted = Wanted::new(self, outbox);
        let limit = wanted.parameter(Parameter::Int(i64::from(limit)));
        let sorted = |prefix: &str| -> String {
            let names = (0..self.layout.order.len()).map(|n| format!("{prefix}s{n}"));
            names.collect::<Vec<_>>().join(", ")
        };
        let named: Vec<String> = (0..)
            .zip(&self.layout.order)
            .map(|(n, column): (usize, _)| format!("{} AS s{n}", of("o", column)))
            .collect();
        let holds = match self.rules.on_dead {
            OnDead::Park => format!(
                "({} OR {})",
                self.is(RecordState::Dead),
                self.is(RecordState::Waiting)
            ),
            OnDead::Skip => self.is(RecordState::Waiting),
        };
        let text = format!(
            "WITH held AS (\nSELECT {id} AS id, {key} AS key, {named}, \
             row_number() OVER (PARTITION BY {key} ORDER BY {order}) AS place\n\
             FROM {name} AS o{troubles}\nWHERE {key} IS NOT NULL AND {holds}),\n\
             head AS MATERIALIZED (\nSELECT * FROM held WHERE place = 1 ORDER BY {sort} LIMIT {limit}),\n\
             behind AS (\nSELECT head.id AS id, count(*) AS records\n\
             FROM head JOIN {name} AS o ON {key} = head.key{troubles}\n\
             WHERE {waits} AND ({order}) > ({head_sort}) GROUP BY head.id)\n\
             SELECT {list}, coalesce(behind.records, 0)\n\
             FROM head JOIN {name} AS o ON {id} = head.id{troubles} LEFT JOIN behind ON behind.id = head.id\n\
             ORDER BY {order}",
            id = self.id("o"),
            named = named.join(", "),
            order = self.order("o"),
            name = self.source(),
            troubles = self.with_troubles(),
            sort = sorted(""),
            head_sort = sorted("head."),
            waits = self.unsettled(),
            list = self.stored_list(),
        );
        Some(Question {
            text,
            parameters: wanted.parameters,
        })
    }

    /// What records are read from: for an append-only outbox, what is put together of it and the copies that were made.
    fn source(&self) -> String {
        self.stream_records().unwrap_or_else(|| self.name())
    }

    fn appends(&self) -> bool {
        matches!(self.layout.state, State::Append { .. })
    }

    /// Joins a record's troubles, where they are kept aside; $1 is the outbox.
    fn with_troubles(&self) -> String {
        if !self.layout.needs_troubles() {
            return String::new();
        }
        format!(
            "\nLEFT JOIN {} AS t ON t.outbox = $1 AND {} = {}",
            self.troubles(),
            self.id("o"),
            self.trouble_id()
        )
    }

    fn stored_list(&self) -> String {
        let columns = &self.layout.columns;
        let published_at = self.layout.published_at().map(|column| {
            format!(
                "CASE WHEN {} THEN {} END",
                self.is(RecordState::Published),
                self.time(column)
            )
        });
        let values = [
            self.text(Some(&columns.id)),
            self.text(columns.event_id.as_ref()),
            self.headers_for_id(),
            self.text(columns.event_type.as_ref()),
            self.text(columns.aggregate_type.as_ref()),
            self.text(columns.aggregate_id.as_ref()),
            self.text(columns.key.as_ref()),
            self.text(columns.topic.as_ref()),
            self.state(),
            (self.dialect.cast)(&self.attempts_made(), "int8"),
            self.error(),
            self.time(&columns.created_at),
            published_at.unwrap_or_else(|| (self.dialect.cast)("NULL", "timestamptz")),
            self.retry_at(),
            (self.dialect.cast)(&self.payload_bytes(), "int8"),
            self.order_texts(),
        ];
        values.join(", ")
    }

    /// A column as text; NULL where there is none.
    fn text(&self, column: Option<&Identifier>) -> String {
        let value = column.map_or_else(|| "NULL".into(), |column| of("o", column));
        (self.dialect.cast)(&value, "text")
    }

    fn time(&self, column: &Identifier) -> String {
        match self.table.kind(column) {
            Kind::Time => of("o", column),
            _ => (self.dialect.cast)(&of("o", column), "timestamptz"),
        }
    }

    fn order_texts(&self) -> String {
        let texts: Vec<String> = self
            .layout
            .order
            .iter()
            .map(|column| self.text(Some(column)))
            .collect();
        texts.join(", ")
    }

    /// The headers, where the event id is one of them: they are read as a claim reads them.
    fn headers_for_id(&self) -> String {
        let columns = &self.layout.columns;
        match (&columns.event_id_header, &columns.headers) {
            (Some(_), Some(headers)) if self.table.kind(headers) == Kind::Bytes => of("o", headers),
            (Some(_), Some(headers)) => self.text(Some(headers)),
            _ => self.text(None),
        }
    }

    fn payload_bytes(&self) -> String {
        let payload = &self.layout.columns.payload;
        match self.table.kind(payload) {
            Kind::Bytes => (self.dialect.octets)(&of("o", payload)),
            _ => (self.dialect.octets)(&self.text(Some(payload))),
        }
    }

    fn attempts_made(&self) -> String {
        if self.appends() {
            return "o.attempts".into();
        }
        if self.layout.needs_troubles() {
            "coalesce(t.attempts, 0)".into()
        } else {
            self.attempts("o")
        }
    }

    fn error(&self) -> String {
        if self.appends() {
            return "o.last_error".into();
        }
        let own = self.layout.columns.last_error.as_ref();
        match (self.layout.needs_troubles(), own) {
            (true, Some(_)) => format!("coalesce(t.last_error, {})", self.text(own)),
            (true, None) => "t.last_error".into(),
            (false, _) => self.text(own),
        }
    }

    fn retry_at(&self) -> String {
        let waiting = self.is(RecordState::Waiting);
        match &self.layout.state {
            State::Status { retry_at, .. } => {
                format!("CASE WHEN {waiting} THEN {} END", self.time(retry_at))
            }
            State::Flag { .. } | State::Delete => {
                format!("CASE WHEN {waiting} THEN t.next_attempt_at END")
            }
            State::Append { .. } => format!("CASE WHEN {waiting} THEN o.next_attempt_at END"),
            State::Timestamp { .. } => (self.dialect.cast)("NULL", "timestamptz"),
        }
    }

    /// The word of a record's state.
    fn state(&self) -> String {
        let when = |state: RecordState| {
            format!("WHEN {} THEN {}", self.is(state), literal(state.as_str()))
        };
        format!(
            "CASE {} {} {} ELSE {} END",
            when(RecordState::Dead),
            when(RecordState::Published),
            when(RecordState::Waiting),
            literal(RecordState::Pending.as_str())
        )
    }

    /// Whether a record is in a state. Every record is in one at most; troubles must be joined.
    fn is(&self, state: RecordState) -> String {
        match state {
            RecordState::Dead => format!("({})", self.dead("o")),
            RecordState::Published => format!("({})", self.published()),
            RecordState::Waiting => format!("({} AND {})", self.unsettled(), self.failed()),
            RecordState::Pending => format!("({} AND NOT {})", self.unsettled(), self.failed()),
        }
    }

    fn published(&self) -> String {
        match &self.layout.state {
            State::Timestamp { published_at } => format!("{} IS NOT NULL", of("o", published_at)),
            State::Flag {
                published,
                dead_is_flagged: true,
                ..
            } => {
                let published = of("o", published);
                format!("{published} = true AND ({}) IS NOT TRUE", self.dead("o"))
            }
            State::Flag { published, .. } => format!("{} = true", of("o", published)),
            State::Status {
                column, published, ..
            } => format!("{} = {}", of("o", column), literal(published)),
            State::Delete => "false".into(),
            State::Append { .. } => "o.settled".into(),
        }
    }

    /// Records that may yet be published, by all that is known of them.
    fn unsettled(&self) -> String {
        let pending = self.pending("o");
        match &self.layout.state {
            State::Flag {
                dead_is_flagged: false,
                ..
            }
            | State::Delete => format!("{pending} AND t.dead IS NOT TRUE"),
            _ => pending,
        }
    }

    fn failed(&self) -> String {
        let tried = format!("{} > 0", self.attempts_made());
        match &self.layout.state {
            // A released record has that word too, without an attempt.
            State::Status { column, failed, .. } => {
                format!("({} = {} AND {tried})", of("o", column), literal(failed))
            }
            _ => tried,
        }
    }

    fn wanted(&self, outbox: &str, filter: &RecordFilter, from: Option<&[String]>) -> Wanted<'_> {
        let mut wanted = Wanted::new(self, outbox);
        let columns = &self.layout.columns;
        wanted
            .conditions
            .extend(filter.state.map(|state| self.is(state)));
        if !filter.ids.is_empty() {
            wanted.parameter(Parameter::Ids(filter.ids.clone()));
            let among = (self.dialect.among)(&self.id("o"), wanted.number(), &self.id_list());
            wanted.conditions.push(among);
        }
        for (column, value) in [
            (&columns.event_type, &filter.event_type),
            (&columns.key, &filter.key),
            (&columns.topic, &filter.topic),
        ] {
            if let Some(value) = value {
                let value = wanted.parameter(Parameter::Text(value.clone()));
                let column = self.text(column.as_ref());
                wanted.conditions.push(format!("{column} = {value}"));
            }
        }
        if let Some(error) = &filter.error {
            let part = wanted.parameter(Parameter::Text(error.clone()));
            let contains = (self.dialect.contains)(&self.error(), &part);
            wanted.conditions.push(contains);
        }
        let created_at = self.time(&columns.created_at);
        for (comparison, time) in [(">=", filter.since), ("<", filter.until)] {
            if let Some(time) = time {
                let micros = wanted.parameter(Parameter::Int(time.as_micros()));
                let micros = (self.dialect.cast)(&micros, "int8");
                let time = (self.dialect.after)(self.dialect.epoch, &micros);
                wanted
                    .conditions
                    .push(format!("{created_at} {comparison} {time}"));
            }
        }
        if let Some(from) = from {
            wanted.after(from);
        }
        wanted
    }
}

/// Conditions with their parameters.
struct Wanted<'a> {
    writer: &'a Writer<'a>,
    conditions: Vec<String>,
    parameters: Vec<Parameter>,
}

impl<'a> Wanted<'a> {
    fn new(writer: &'a Writer<'a>, outbox: &str) -> Self {
        let outbox = Parameter::Text(outbox.to_owned());
        Self {
            writer,
            conditions: Vec::new(),
            parameters: writer
                .layout
                .needs_troubles()
                .then_some(outbox)
                .into_iter()
                .collect(),
        }
    }

    fn parameter(&mut self, value: Parameter) -> String {
        self.parameters.push(value);
        format!("${}", self.number())
    }

    /// Of the last parameter.
    fn number(&self) -> u32 {
        u32::try_from(self.parameters.len()).unwrap_or(u32::MAX)
    }

    fn conditions(&self) -> String {
        if self.conditions.is_empty() {
            "true".into()
        } else {
            self.conditions.join("\nAND ")
        }
    }

    /// Behind the record whose order columns had these values.
    fn after(&mut self, from: &[String]) {
        let writer = self.writer;
        let values: Vec<String> = std::iter::zip(from, &writer.layout.order)
            .map(|(value, column)| {
                let value = self.parameter(Parameter::Text(value.clone()));
                (writer.dialect.cast)(&value, writer.table.sql_type(column))
            })
            .collect();
        self.conditions
            .push(format!("({}) > ({})", writer.order("o"), values.join(", ")));
    }
}

impl Writer<'_> {
    /// $1 bytes; with troubles $2 outbox → the id of the first record to be published whose payload has more, and how
    /// many there are.
    pub(crate) fn oversized(&self) -> String {
        let troubles = self.with_troubles().replace("$1", "$2");
        format!(
            "SELECT {}, count(*) OVER () FROM {} AS o{troubles}\nWHERE {} AND {} > $1\nORDER BY {} LIMIT 1",
            self.text(Some(&self.layout.columns.id)),
            self.source(),
            self.unsettled(),
            self.payload_bytes(),
            self.order("o"),
        )
    }
}
