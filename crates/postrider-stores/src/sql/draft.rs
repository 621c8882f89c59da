//! Events as column values. Everything that the database would refuse is refused here, because a
//! statement that fails takes the caller's whole transaction with it.

use std::borrow::Cow;

use postrider_core::envelope::{self, EnvelopeKind};
use postrider_core::layout::{Identifier, Role};
use postrider_core::{Event, Layout, Route, Routes, Timestamp};
use serde_json::{Map, Value};

use super::fit::fit;
use super::table::{Kind, Table};
use crate::EmitError;

/// Values for one insert, column by column.
#[derive(Debug)]
pub(crate) struct Drafts<'e> {
    pub columns: Vec<DraftColumn<'e>>,
    /// Whether the insert also writes the time, since the table orders by it or has no default for it.
    pub stamped: bool,
    /// The event ids as the table will have them, in the events' order.
    pub event_ids: Vec<Cow<'e, str>>,
}

#[derive(Debug)]
pub(crate) struct DraftColumn<'e> {
    pub name: &'e Identifier,
    pub kind: Kind,
    pub sql_type: String,
    /// One per event. Text, or bytes where the column's kind is bytes.
    pub values: Vec<Option<Cow<'e, [u8]>>>,
}

/// The trace that an event belongs to, as the current span has it.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub trace_id: String,
    pub traceparent: String,
}

/// What all events of a call share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drafting<'e> {
    pub layout: &'e Layout,
    pub table: &'e Table,
    pub routes: &'e Routes,
    pub trace: Option<&'e Trace>,
    pub now: Timestamp,
}

type Bytes<'e> = Cow<'e, [u8]>;

/// A part of an event that has a column of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    EventId,
    EventType,
    AggregateType,
    AggregateId,
    Topic,
    Key,
    IdempotencyKey,
    Version,
    Payload,
    Headers,
    Metadata,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::EventId => "id",
            Self::EventType => "event_type",
            Self::AggregateType => "aggregate_type",
            Self::AggregateId => "aggregate_id",
            Self::Topic => "topic",
            Self::Key => "key",
            Self::IdempotencyKey => "idempotency_key",
            Self::Version => "version",
            Self::Payload => "payload",
            Self::Headers => "headers",
            Self::Metadata => "metadata",
        }
    }
}

impl<'e> Drafting<'e> {
    pub(crate) fn draft(self, events: &'e [Event]) -> Result<Drafts<'e>, EmitError> {
        let places = self.places();
        let mut values: Vec<Vec<Option<Bytes<'e>>>> = vec![Vec::new(); places.len()];
        for event in events {
            let route = self.routes.check_event(event)?;
            self.refuse_unplaced(event)?;
            for ((field, column), values) in places.iter().zip(&mut values) {
                let value = self.value(event, *field, route)?;
                values.push(self.fitted(*field, column, value)?);
            }
        }
        let mut columns = Vec::new();
        for ((field, name), values) in places.into_iter().zip(values) {
            if values.iter().any(Option::is_none) {
                self.require_optional(field, name, values.iter().any(Option::is_some))?;
            }
            if values.iter().any(Option::is_some) {
                let sql_type = self.table.sql_type(name).into();
                columns.push(DraftColumn {
                    name,
                    kind: self.table.kind(name),
                    sql_type,
                    values,
                });
            }
        }
        let event_ids = events
            .iter()
            .map(|event| self.event_id(event))
            .collect::<Result<_, _>>()?;
        Ok(Drafts {
            columns,
            stamped: self.is_stamped(),
            event_ids,
        })
    }

    /// Which field goes to which column. A column that plays two roles is written once.
    fn places(self) -> Vec<(Field, &'e Identifier)> {
        let columns = &self.layout.columns;
        let in_table = |column: &&Identifier| self.table.column(column).is_some();
        let named = [
            (Field::EventId, columns.event_id.as_ref()),
            (Field::EventType, columns.event_type.as_ref()),
            (Field::AggregateType, columns.aggregate_type.as_ref()),
            (Field::AggregateId, columns.aggregate_id.as_ref()),
            (Field::Topic, columns.topic.as_ref()),
            (Field::Key, columns.key.as_ref()),
            (Field::IdempotencyKey, columns.idempotency_key.as_ref()),
            (Field::Version, columns.version.as_ref()),
            (Field::Payload, Some(&columns.payload)),
            (Field::Headers, columns.headers.as_ref()),
            (Field::Metadata, columns.metadata.as_ref().filter(in_table)),
        ];
        let mut places: Vec<(Field, &Identifier)> = Vec::new();
        for (field, column) in named {
            if let Some(column) = column
                && places.iter().all(|(_, placed)| *placed != column)
            {
                places.push((field, column));
            }
        }
        places
    }

    fn is_stamped(self) -> bool {
        let created_at = &self.layout.columns.created_at;
        let defaulted = self
            .table
            .column(created_at)
            .is_some_and(|column| column.default.is_some());
        self.layout.order.contains(created_at) || !defaulted
    }

    fn value(
        self,
        event: &'e Event,
        field: Field,
        route: Option<&Route>,
    ) -> Result<Option<Bytes<'e>>, EmitError> {
        let text = |text: &'e Option<String>| text.as_ref().map(|text| bytes(text.as_str().into()));
        Ok(match field {
            Field::EventId => Some(bytes(self.event_id(event)?)),
            Field::EventType => Some(bytes(event.event_type.as_str().into())),
            Field::AggregateType => text(&event.aggregate_type),
            Field::AggregateId if self.shares_key() => {
                text(&event.aggregate_id).or(text(&event.key))
            }
            Field::AggregateId => text(&event.aggregate_id),
            Field::Topic => self.topic(event, route)?.map(bytes),
            Field::Key => text(&event.key),
            Field::IdempotencyKey => text(&event.idempotency_key),
            Field::Version => Some(bytes(event.version.to_string().into())),
            Field::Payload => self.payload(event)?,
            Field::Headers => Some(json(self.headers(event))),
            Field::Metadata => self.metadata(event).map(json),
        })
    }

    /// In the form that the database gives it back in.
    fn event_id(self, event: &'e Event) -> Result<Cow<'e, str>, EmitError> {
        let id = event.id.as_str();
        match &self.layout.columns.event_id {
            Some(column) => {
                let fitted = self.fitted(Field::EventId, column, Some(bytes(id.into())))?;
                Ok(fitted.map_or(id.into(), |id| match id {
                    Cow::Borrowed(_) => event.id.as_str().into(),
                    Cow::Owned(id) => String::from_utf8_lossy(&id).into_owned().into(),
                }))
            }
            None => Ok(id.into()),
        }
    }

    fn topic(
        self,
        event: &'e Event,
        route: Option<&Route>,
    ) -> Result<Option<Cow<'e, str>>, EmitError> {
        if let Some(topic) = &event.topic {
            return Ok(Some(topic.as_str().into()));
        }
        if let Some(topic) = route.and_then(|route| route.topic.as_ref()) {
            return Ok(Some(topic.as_str().to_owned().into()));
        }
        if self.layout.topic.roles().any(|role| role == Role::Topic) {
            return Err(self.missing(Field::Topic, "neither the event nor its route names one"));
        }
        Ok(None)
    }

    /// An empty payload is no payload where the layout publishes tombstones.
    fn payload(self, event: &'e Event) -> Result<Option<Bytes<'e>>, EmitError> {
        if self.layout.tombstones && event.payload.is_empty() {
            return Ok(None);
        }
        if self.layout.envelope != EnvelopeKind::Packfinderz {
            return Ok(Some(event.payload.as_slice().into()));
        }
        let id = self.event_id(event)?;
        if id == event.id.as_str() {
            return Ok(Some(
                envelope::at_emit(self.layout.envelope, event, self.now)?.into(),
            ));
        }
        let event = event.clone().with_id(&*id);
        Ok(Some(
            envelope::at_emit(self.layout.envelope, &event, self.now)?.into(),
        ))
    }

    fn headers(self, event: &Event) -> Map<String, Value> {
        let mut headers = Map::new();
        if let Some(trace) = self.trace {
            headers.insert("traceparent".into(), trace.traceparent.as_str().into());
        }
        if self.layout.columns.event_id_header.is_some() {
            headers.insert("type".into(), event.event_type.as_str().into());
        }
        for (name, value) in &event.headers {
            headers.insert(name.clone(), value.as_str().into());
        }
        if let Some(name) = &self.layout.columns.event_id_header {
            headers.insert(name.clone(), event.id.as_str().into());
        }
        headers
    }

    fn metadata(self, event: &Event) -> Option<Map<String, Value>> {
        let mut metadata = Map::new();
        if let Some(trace) = self.trace {
            metadata.insert("traceId".into(), trace.trace_id.as_str().into());
            metadata.insert("traceparent".into(), trace.traceparent.as_str().into());
        }
        metadata.extend(event.metadata.clone());
        Some(metadata).filter(|metadata| !metadata.is_empty())
    }

    fn shares_key(self) -> bool {
        let columns = &self.layout.columns;
        columns.key.is_some() && columns.key == columns.aggregate_id
    }

    /// What the event says must not be dropped on the way.
    fn refuse_unplaced(self, event: &Event) -> Result<(), EmitError> {
        let columns = &self.layout.columns;
        let in_envelope = self.layout.envelope == EnvelopeKind::Packfinderz;
        let metadata = columns
            .metadata
            .as_ref()
            .and_then(|column| self.table.column(column));
        let no_column = "it has no column for it";
        let unplaced = [
            (
                "aggregate_type",
                event.aggregate_type.is_some() && columns.aggregate_type.is_none(),
            ),
            (
                "aggregate_id",
                event.aggregate_id.is_some() && columns.aggregate_id.is_none(),
            ),
            ("topic", event.topic.is_some() && columns.topic.is_none()),
            ("key", event.key.is_some() && columns.key.is_none()),
            (
                "idempotency_key",
                event.idempotency_key.is_some() && columns.idempotency_key.is_none(),
            ),
            (
                "version",
                event.version != 1 && columns.version.is_none() && !in_envelope,
            ),
            ("actor", event.actor.is_some() && !in_envelope),
            (
                "headers",
                !event.headers.is_empty() && columns.headers.is_none(),
            ),
            ("metadata", !event.metadata.is_empty() && metadata.is_none()),
        ];
        if let Some((field, _)) = unplaced.into_iter().find(|(_, unplaced)| *unplaced) {
            return Err(self.no_place(field, no_column));
        }
        let two_keys =
            event.key.is_some() && event.aggregate_id.is_some() && event.key != event.aggregate_id;
        if self.shares_key() && two_keys {
            return Err(self.no_place("key", "it uses `aggregate_id` as the key, and they differ"));
        }
        Ok(())
    }

    fn fitted(
        self,
        field: Field,
        column: &Identifier,
        value: Option<Bytes<'e>>,
    ) -> Result<Option<Bytes<'e>>, EmitError> {
        let (Some(value), Some(found)) = (value, self.table.column(column)) else {
            return Ok(None);
        };
        let unfit = |reason| EmitError::Unfit {
            field: field.name(),
            column: column.to_string(),
            reason,
        };
        fit(value, found).map(Some).map_err(unfit)
    }

    /// Some event has nothing for this column; `named` says whether the insert will name it.
    fn require_optional(
        self,
        field: Field,
        column: &Identifier,
        named: bool,
    ) -> Result<(), EmitError> {
        let Some(found) = self.table.column(column) else {
            return Ok(());
        };
        if found.nullable || (found.default.is_some() && !named) {
            return Ok(());
        }
        Err(self.missing(field, &format!("column {column} must not be NULL")))
    }

    fn missing(self, field: Field, reason: &str) -> EmitError {
        let layout = self.layout.name.clone();
        EmitError::Missing {
            layout,
            field: field.name(),
            reason: reason.into(),
        }
    }

    fn no_place(self, field: &'static str, reason: &str) -> EmitError {
        EmitError::NoPlace {
            layout: self.layout.name.clone(),
            field,
            reason: reason.into(),
        }
    }
}

fn bytes(text: Cow<'_, str>) -> Bytes<'_> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

fn json<'e>(object: Map<String, Value>) -> Bytes<'e> {
    Value::Object(object).to_string().into_bytes().into()
}
