//! From row to record. A row that makes no sense becomes a record with a defect: it is dead on its
//! own, and the others of its claim go on.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use postrider_core::{ByteString, EventId, Header, Record, RecordId, Timestamp};

use crate::sql::selection::{Form, Selection};

/// Bytes of an [`Arena`]'s pieces: not so many that one record keeps much of the others' memory.
const PIECE: usize = 64 << 10;

/// Where the texts and documents of a claim's records lie side by side, so that a record is not a dozen allocations.
#[derive(Debug, Default)]
pub(crate) struct Arena(BytesMut);

impl Arena {
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() > PIECE / 8 {
            return Bytes::copy_from_slice(bytes);
        }
        if self.0.capacity() < bytes.len() {
            self.0 = BytesMut::with_capacity(PIECE);
        }
        self.0.extend_from_slice(bytes);
        self.0.split().freeze()
    }

    /// The bytes as text, if they are UTF-8.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> Option<ByteString> {
        std::str::from_utf8(bytes).ok()?;
        ByteString::try_from(self.bytes(bytes)).ok()
    }
}

/// One row's values, by their positions in a selection.
pub(crate) trait Cells {
    fn id(&mut self, position: usize) -> Result<RecordId, sqlx::Error>;
    fn text(
        &mut self,
        position: Option<usize>,
        arena: &mut Arena,
    ) -> Result<Option<ByteString>, sqlx::Error>;
    fn int(&mut self, position: Option<usize>) -> Result<Option<i64>, sqlx::Error>;
    fn document(
        &mut self,
        position: Option<usize>,
        arena: &mut Arena,
    ) -> Result<Option<Bytes>, sqlx::Error>;
    fn time(&mut self, position: usize) -> Result<Timestamp, sqlx::Error>;

    /// Says what is wrong with the row.
    fn mark(&mut self, defect: String);
    /// What is wrong with the row, as far as it was read.
    fn defect(&mut self) -> Option<String>;
}

/// Reads the rows of one claim.
pub(crate) struct Reader<'a> {
    selection: &'a Selection,
    /// Header names repeat from row to row.
    names: HashMap<String, Arc<str>>,
    arena: Arena,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(selection: &'a Selection) -> Self {
        Self {
            selection,
            names: HashMap::new(),
            arena: Arena::default(),
        }
    }

    pub(crate) fn record<C: Cells>(&mut self, mut cells: C) -> Result<Record, sqlx::Error> {
        let selection = self.selection;
        let id = cells.id(selection.id)?;
        let mut arena = std::mem::take(&mut self.arena);
        let headers = cells.document(selection.headers, &mut arena)?;
        let headers = match headers.map(|json| self.headers(&json)) {
            Some(Ok(headers)) => headers,
            Some(Err(defect)) => {
                cells.mark(defect);
                Vec::new()
            }
            None => Vec::new(),
        };
        let mut text = |cells: &mut C, position| cells.text(position, &mut arena);
        let event_id = match (
            text(&mut cells, selection.event_id)?,
            &selection.event_id_header,
        ) {
            (Some(event_id), _) => event_id.into(),
            (None, Some(name)) => {
                header_id(&headers, name).unwrap_or_else(|| id.to_string().into())
            }
            (None, None) => id.to_string().into(),
        };
        let record = Record {
            event_id,
            event_type: text(&mut cells, selection.event_type)?,
            aggregate_type: text(&mut cells, selection.aggregate_type)?,
            aggregate_id: text(&mut cells, selection.aggregate_id)?,
            topic: text(&mut cells, selection.topic)?,
            key: text(&mut cells, selection.key)?.map(Into::into),
            idempotency_key: text(&mut cells, selection.idempotency_key)?,
            version: cells
                .int(selection.version)?
                .and_then(|version| i32::try_from(version).ok()),
            payload: cells.document(Some(selection.payload), &mut arena)?,
            headers,
            metadata: cells.document(selection.metadata, &mut arena)?,
            created_at: cells.time(selection.created_at)?,
            attempts: cells
                .int(selection.attempts)?
                .map_or(0, |n| u32::try_from(n).unwrap_or(0)),
            defect: cells.defect(),
            id,
        };
        self.arena = arena;
        Ok(record)
    }

    /// A record's id, from its text, in the form that the records have.
    pub(crate) fn id(&self, text: String) -> RecordId {
        match self.selection.columns[self.selection.id].form {
            Form::Uuid => text
                .parse()
                .map_or_else(|_| RecordId::Text(text.into()), RecordId::Uuid),
            Form::Int => text
                .parse()
                .map_or_else(|_| RecordId::Text(text.into()), RecordId::Int),
            _ => RecordId::Text(text.into()),
        }
    }

    /// The event id among a record's headers.
    pub(crate) fn event_id(&mut self, headers: &[u8]) -> Option<EventId> {
        let name = self.selection.event_id_header.as_ref()?;
        header_id(&self.headers(headers).ok()?, name)
    }

    fn headers(&mut self, json: &[u8]) -> Result<Vec<Header>, String> {
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(json).map_err(|_| "headers are not a JSON object".to_owned())?;
        let header = |(name, value): (String, serde_json::Value)| {
            let value = match value {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            let name = self
                .names
                .entry(name)
                .or_insert_with_key(|name| name.as_str().into())
                .clone();
            Header::new(name, value)
        };
        Ok(object.into_iter().map(header).collect())
    }
}

fn header_id(headers: &[Header], name: &str) -> Option<EventId> {
    headers
        .iter()
        .find(|header| &*header.name == name)
        .and_then(Header::text)
        .map(Into::into)
}
