//! The outbox's side: its published records of the range, and where they were meant to go.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use postrider_core::operate::{Cursor, RecordFilter, RecordState, StoredRecord};
use postrider_core::{MessageKey, Ordering, Record, RecordId, Timestamp, Topic};

use super::ledger::{Entry, Ledger};
use super::wire::Fingerprints;
use super::{Stage, Verify, VerifyError};

/// Records that are read at a time, without their payloads. Where no index has the outbox's order, each page costs the
/// database a pass over the table, so pages are large: some 10 MB.
pub(super) const PAGE: u32 = 20_000;
const TOPICS_MAX: usize = 1_000;
/// Event types that are remembered; with more, a message's type says nothing.
const TYPES_MAX: usize = 10_000;

/// What the outbox has of the range.
pub(super) struct Outbox {
    pub(super) ledger: Ledger,
    pub(super) fingerprints: Fingerprints,
    pub(super) topics: BTreeSet<Topic>,
    /// Event types that it may send.
    pub(super) types: BTreeSet<String>,
    /// Whether the routes say which these are; otherwise the records of the range do.
    routed: bool,
    /// One of its ids, for their kind; `None` where it has no record at all.
    pub(super) sample: Option<RecordId>,
    /// When the last of them was published; `None` where that is not known of all.
    pub(super) published_until: Option<Timestamp>,
    pub(super) waiting: u64,
    pub(super) dead: u64,
    pages: Vec<PageStart>,
}

/// Where to read the records from this rank on.
struct PageStart {
    rank: u32,
    cursor: Option<Cursor>,
}

impl Verify {
    pub(super) async fn read_outbox(&self) -> Result<Outbox, VerifyError> {
        let total = self.count(RecordState::Published).await?;
        self.refuse_over_limit(total)?;
        let (topics, types) = self.router.known();
        let mut outbox = Outbox {
            ledger: Ledger::with_capacity(usize::try_from(total).unwrap_or(usize::MAX)),
            fingerprints: Fingerprints::default(),
            topics: topics.into_iter().collect(),
            routed: !types.is_empty(),
            types: types.into_iter().map(str::to_owned).collect(),
            sample: None,
            published_until: Some(self.options.until),
            waiting: 0,
            dead: 0,
            pages: Vec::new(),
        };
        let mut cursor = None;
        loop {
            let found = self
                .records
                .find(&self.range(), cursor.as_ref(), PAGE)
                .await?;
            outbox.pages.push(PageStart {
                rank: u32::try_from(outbox.ledger.len()).unwrap_or(u32::MAX),
                cursor,
            });
            for record in found.items {
                self.take(&mut outbox, record)?;
            }
            let read = outbox.ledger.len() as u64;
            self.refuse_over_limit(read)?;
            self.progressed(Stage::Outbox, read, total);
            let Some(next) = found.next else { break };
            cursor = Some(next);
        }
        outbox.ledger.seal();
        if outbox.sample.is_none() {
            let any = self.records.find(&RecordFilter::default(), None, 1).await?;
            outbox.sample = any.items.into_iter().next().map(|record| record.id);
        }
        outbox.waiting =
            self.count(RecordState::Pending).await? + self.count(RecordState::Waiting).await?;
        outbox.dead = self.count(RecordState::Dead).await?;
        Ok(outbox)
    }

    /// Notes a record down, and where it goes.
    fn take(&self, outbox: &mut Outbox, record: StoredRecord) -> Result<(), VerifyError> {
        let key = match self.layout.ordering {
            Ordering::Key => record.key.as_deref(),
            Ordering::None => None,
        };
        let key = key.map_or(0, |key| outbox.fingerprints.of_key(key));
        let id = outbox.fingerprints.of(record.event_id.as_str());
        outbox.ledger.push(id, key);
        // One that is not known may have been the last.
        outbox.published_until = match (outbox.published_until, record.published_at) {
            (Some(last), Some(this)) => Some(last.max(this)),
            _ => None,
        };
        if !outbox.routed
            && let Some(event_type) = &record.event_type
            && outbox.types.len() <= TYPES_MAX
            && !outbox.types.contains(event_type)
        {
            outbox.types.insert(event_type.clone());
        }
        let record = bare(record);
        let topic = self.router.topic(&record);
        let topic = topic.map_err(|source| VerifyError::NoTopic {
            record: record.id.clone(),
            source,
        })?;
        outbox.sample = Some(record.id);
        if !outbox.topics.contains(&topic) {
            outbox.topics.insert(topic);
        }
        match outbox.topics.len() {
            topics if topics > TOPICS_MAX => Err(VerifyError::TooManyTopics { limit: TOPICS_MAX }),
            _ => Ok(()),
        }
    }

    /// The records of these entries, as far as they are still there, by rank.
    pub(super) async fn look_up(
        &self,
        outbox: &Outbox,
        entries: impl Iterator<Item = Entry>,
    ) -> Result<HashMap<u32, StoredRecord>, VerifyError> {
        let wanted: HashMap<u128, u32> = entries.map(|entry| (entry.id, entry.rank)).collect();
        let pages: BTreeSet<usize> = wanted
            .values()
            .filter_map(|rank| {
                let after = outbox.pages.partition_point(|page| page.rank <= *rank);
                after.checked_sub(1)
            })
            .collect();
        let mut found = HashMap::new();
        for page in pages {
            let cursor = outbox.pages[page].cursor.as_ref();
            // Records may have been purged since, so ranks do not count here.
            for record in self.records.find(&self.range(), cursor, PAGE).await?.items {
                let id = outbox.fingerprints.of(record.event_id.as_str());
                if let Some(rank) = wanted.get(&id) {
                    found.insert(*rank, record);
                }
            }
        }
        Ok(found)
    }

    fn range(&self) -> RecordFilter {
        self.range_in(RecordState::Published)
    }

    fn range_in(&self, state: RecordState) -> RecordFilter {
        RecordFilter {
            since: Some(self.options.since),
            until: Some(self.options.until),
            ..RecordFilter::in_state(state)
        }
    }

    async fn count(&self, state: RecordState) -> Result<u64, VerifyError> {
        Ok(self.records.count(&self.range_in(state)).await?)
    }

    fn refuse_over_limit(&self, records: u64) -> Result<(), VerifyError> {
        let limit = self.options.records_max.min(u64::from(u32::MAX - 1));
        match records > limit {
            true => Err(VerifyError::TooMany { records, limit }),
            false => Ok(()),
        }
    }
}

/// As much of a record as its topic is made of.
fn bare(record: StoredRecord) -> Record {
    Record {
        id: record.id,
        event_id: record.event_id,
        event_type: record.event_type.map(Into::into),
        aggregate_type: record.aggregate_type.map(Into::into),
        aggregate_id: record.aggregate_id.map(Into::into),
        topic: record.topic.map(Into::into),
        key: record.key.map(MessageKey::from),
        idempotency_key: None,
        version: None,
        payload: None::<Bytes>,
        headers: Vec::new(),
        metadata: None,
        defect: None,
        created_at: record.created_at,
        attempts: record.attempts,
    }
}
