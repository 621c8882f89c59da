//! Messages with an event id that no published record of the range has. Most are of records outside the range; those
//! that the outbox does not have at all are unknown.

use std::collections::HashMap;

use postrider_core::layout::Columns;
use postrider_core::operate::RecordFilter;
use postrider_core::text::bounded;
use postrider_core::{KeptMessage, RecordId, Topic};

use super::outbox::{Outbox, PAGE};
use super::wire::Wire;
use super::{NAMED_MAX, Stage, Suspect, Tally, Verify, VerifyError};

/// Ids that are looked for at a time, where the outbox can be asked for an event id.
const LOOKUP: usize = 500;
/// Ids that are kept until the whole outbox is read, where it cannot.
const KEPT_MAX: usize = 100_000;
const ID_BYTES_MAX: usize = 1_024;
const TEXT_BYTES_MAX: usize = 200;

pub(super) struct Strangers {
    by_record_id: bool,
    open: HashMap<u128, Stranger>,
    pub(super) unknown: Tally,
    pub(super) foreign: u64,
    /// Messages that nobody looked for, because there were too many.
    pub(super) unresolved: u64,
}

struct Stranger {
    messages: u64,
    suspect: Suspect,
}

impl Strangers {
    pub(super) fn new(columns: &Columns) -> Self {
        let by_record_id = match &columns.event_id {
            Some(event_id) => *event_id == columns.id,
            None => columns.event_id_header.is_none(),
        };
        Self {
            by_record_id,
            open: HashMap::new(),
            unknown: Tally::default(),
            foreign: 0,
            unresolved: 0,
        }
    }

    /// Takes a message in. Only what this outbox could have made is suspected: an id of the kind of its own, and an
    /// event type of its routes or, without routes, of its records in the range.
    pub(super) fn take(
        &mut self,
        outbox: &Outbox,
        wire: &Wire,
        topic: &Topic,
        id: &str,
        message: &KeptMessage,
    ) {
        let event_type = wire.event_type(message);
        let sent = |event_type| outbox.types.is_empty() || outbox.types.contains(event_type);
        let possible = id.len() <= ID_BYTES_MAX
            && event_type.is_none_or(sent)
            && (!self.by_record_id || outbox.has_kind_of(id));
        if !possible {
            self.foreign += 1;
            return;
        }
        let fingerprint = outbox.fingerprints.of(id);
        if !self.open.contains_key(&fingerprint) && self.open.len() >= KEPT_MAX {
            self.unresolved += 1;
            return;
        }
        let stranger = self.open.entry(fingerprint).or_insert_with(|| Stranger {
            messages: 0,
            suspect: Suspect {
                event_id: id.into(),
                record: None,
                event_type: event_type.map(|text| bounded(text, TEXT_BYTES_MAX)),
                key: message
                    .key
                    .as_ref()
                    .map(|key| bounded(&key.to_string(), TEXT_BYTES_MAX)),
                seen: format!("at {topic}[{}]@{}", message.partition, message.offset),
            },
        });
        stranger.messages += 1;
    }

    /// Looks up what has come together, where that is cheap.
    pub(super) async fn resolve_some(
        &mut self,
        verify: &Verify,
        outbox: &Outbox,
    ) -> Result<(), VerifyError> {
        match self.by_record_id && self.open.len() >= LOOKUP {
            true => self.resolve_by_id(verify, outbox).await,
            false => Ok(()),
        }
    }

    pub(super) async fn resolve(
        &mut self,
        verify: &Verify,
        outbox: &Outbox,
    ) -> Result<(), VerifyError> {
        match self.by_record_id {
            true => self.resolve_by_id(verify, outbox).await,
            false => self.resolve_by_reading(verify, outbox).await,
        }
    }

    async fn resolve_by_id(&mut self, verify: &Verify, outbox: &Outbox) -> Result<(), VerifyError> {
        // Without a record nothing is known, and no id has the right type to ask for.
        let asked = self.open.values().filter(|_| outbox.sample.is_some());
        let ids: Vec<RecordId> = asked
            .map(|stranger| outbox.record_id(stranger.suspect.event_id.as_str()))
            .collect();
        for ids in ids.chunks(LOOKUP) {
            let filter = RecordFilter {
                ids: ids.to_vec(),
                ..RecordFilter::default()
            };
            let limit = u32::try_from(LOOKUP).unwrap_or(PAGE);
            for record in verify.records.find(&filter, None, limit).await?.items {
                let known = outbox.fingerprints.of(record.event_id.as_str());
                self.open.remove(&known);
            }
        }
        self.give_up_the_rest();
        Ok(())
    }

    /// Where no index leads from an event id to its record, the outbox is read until all are found.
    async fn resolve_by_reading(
        &mut self,
        verify: &Verify,
        outbox: &Outbox,
    ) -> Result<(), VerifyError> {
        let everything = RecordFilter::default();
        let (mut cursor, mut read) = (None, 0);
        while !self.open.is_empty() {
            let page = verify
                .records
                .find(&everything, cursor.as_ref(), PAGE)
                .await?;
            read += page.items.len() as u64;
            verify.progressed(Stage::Lookup, read, 0);
            for record in page.items {
                let known = outbox.fingerprints.of(record.event_id.as_str());
                self.open.remove(&known);
            }
            let Some(next) = page.next else { break };
            cursor = Some(next);
        }
        self.give_up_the_rest();
        Ok(())
    }

    fn give_up_the_rest(&mut self) {
        for (_, stranger) in self.open.drain() {
            self.unknown.count += stranger.messages;
            self.unknown.first.push(stranger.suspect);
        }
        let order = |suspect: &Suspect| (suspect.seen.clone(), suspect.event_id.clone());
        self.unknown.first.sort_by_cached_key(order);
        self.unknown.first.truncate(NAMED_MAX);
    }
}

impl Outbox {
    /// Whether the text could be an id of this outbox.
    fn has_kind_of(&self, id: &str) -> bool {
        match &self.sample {
            Some(sample) => {
                std::mem::discriminant(sample) == std::mem::discriminant(&self.record_id(id))
            }
            None => true,
        }
    }

    fn record_id(&self, id: &str) -> RecordId {
        match &self.sample {
            Some(RecordId::Text(_)) => RecordId::Text(id.into()),
            _ => RecordId::from(id),
        }
    }
}
