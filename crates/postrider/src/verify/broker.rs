//! The broker's side: its topics are read and held against the outbox.

use std::collections::HashMap;

use postrider_core::operate::StoredRecord;
use postrider_core::{KeptMessage, Ordering, Timestamp, Topic};

use super::ledger::{Entry, Picked};
use super::outbox::Outbox;
use super::strangers::Strangers;
use super::wire::Wire;
use super::{Report, Stage, Suspect, Tally, Verify, VerifyError};

pub(super) struct Comparison<'a> {
    verify: &'a Verify,
    wire: &'a Wire,
    outbox: Outbox,
    strangers: Strangers,
    /// A partition's number in the ledger is its place here.
    places: Vec<(Topic, i32)>,
    numbers: HashMap<(Topic, i32), u32>,
    messages: u64,
    messages_expected: u64,
    replayed: u64,
    notes: Vec<String>,
}

/// What part of the topics is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// The part in which the records should be.
    Range,
    /// What follows, where some were not found: clocks may be further apart than thought.
    Rest,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(verify: &'a Verify, wire: &'a Wire, outbox: Outbox) -> Self {
        Self {
            verify,
            wire,
            outbox,
            strangers: Strangers::new(&verify.layout.columns),
            places: Vec::new(),
            numbers: HashMap::new(),
            messages: 0,
            messages_expected: 0,
            replayed: 0,
            notes: Vec::new(),
        }
    }

    pub(super) async fn read_topics(&mut self) -> Result<(), VerifyError> {
        let options = &self.verify.options;
        let slack = i64::try_from(options.slack.as_micros()).unwrap_or(i64::MAX);
        let shift = |time: Timestamp, micros| {
            Timestamp::from_micros(time.as_micros().saturating_add(micros))
        };
        let since = shift(options.since, -slack);
        let until = self.outbox.published_until.map(|last| shift(last, slack));
        let topics: Vec<Topic> = self.outbox.topics.iter().cloned().collect();
        for topic in &topics {
            self.read(topic, since, until, Pass::Range).await?;
        }
        let Some(rest) = until else { return Ok(()) };
        for topic in &topics {
            if self.outbox.ledger.missing() > 0 {
                self.read(topic, rest, None, Pass::Rest).await?;
            }
        }
        Ok(())
    }

    async fn read(
        &mut self,
        topic: &Topic,
        since: Timestamp,
        until: Option<Timestamp>,
        pass: Pass,
    ) -> Result<(), VerifyError> {
        let reading = self.verify.broker.read_back(topic, since, until).await?;
        let Some(mut reading) = reading else {
            if pass == Pass::Range {
                self.notes.push(format!("topic {topic} does not exist"));
            }
            return Ok(());
        };
        if reading.is_cut() && pass == Pass::Range {
            self.notes.push(format!(
                "topic {topic} has deleted messages that may be of the range; their records look lost"
            ));
        }
        self.messages_expected += reading.total();
        loop {
            let messages = reading.next().await?;
            if messages.is_empty() {
                return Ok(());
            }
            self.messages += messages.len() as u64;
            for message in &messages {
                self.meet(topic, message, pass);
            }
            self.strangers
                .resolve_some(self.verify, &self.outbox)
                .await?;
            self.verify.progressed(
                Stage::Broker,
                self.messages,
                self.messages_expected.max(self.messages),
            );
        }
    }

    fn meet(&mut self, topic: &Topic, message: &KeptMessage, pass: Pass) {
        let options = &self.verify.options;
        // A neighbour of the range is another range's stranger.
        let in_range = message
            .time
            .is_none_or(|time| options.since <= time && time < options.until);
        let may_be_strange = pass == Pass::Range && in_range;
        let Some(id) = self.wire.event_id(message) else {
            self.strangers.foreign += u64::from(may_be_strange);
            return;
        };
        let replayed = Wire::is_replayed(message);
        let place = self.place(topic, message.partition);
        let fingerprint = self.outbox.fingerprints.of(id);
        if self
            .outbox
            .ledger
            .meet(fingerprint, place, message.offset, replayed)
        {
            self.replayed += u64::from(replayed);
        } else if may_be_strange && !replayed {
            self.strangers
                .take(&self.outbox, self.wire, topic, id, message);
        }
    }

    fn place(&mut self, topic: &Topic, partition: i32) -> u32 {
        let place = (topic.clone(), partition);
        if let Some(number) = self.numbers.get(&place) {
            return *number;
        }
        let number = u32::try_from(self.places.len()).unwrap_or(u32::MAX - 1);
        self.places.push(place.clone());
        self.numbers.insert(place, number);
        number
    }

    pub(super) async fn report(mut self) -> Result<Report, VerifyError> {
        self.strangers.resolve(self.verify, &self.outbox).await?;
        if self.strangers.unresolved > 0 {
            self.notes.push(format!(
                "{} more messages are of no record of the range; they were not looked for",
                self.strangers.unresolved
            ));
        }
        let lost = self.outbox.ledger.lost();
        let duplicated = self.outbox.ledger.duplicated();
        let inverted = self.outbox.ledger.inverted();
        let entries = lost.first.values().chain(duplicated.first.values());
        let pairs = inverted.first.values();
        let entries = entries
            .copied()
            .chain(pairs.flat_map(|it| [it.entry, it.overtaken]));
        let records = self.verify.look_up(&self.outbox, entries).await?;
        let tally = |picked: &Picked<Entry>, seen: &dyn Fn(&Entry, &StoredRecord) -> String| {
            let entries = picked.first.values();
            let suspects = entries.filter_map(|entry| {
                let record = records.get(&entry.rank)?;
                Some(suspect(record, seen(entry, record)))
            });
            Tally {
                count: picked.count,
                first: suspects.collect(),
            }
        };
        let overtaking = inverted.first.values().filter_map(|it| {
            let (record, overtaken) = (
                records.get(&it.entry.rank)?,
                records.get(&it.overtaken.rank)?,
            );
            let seen = format!("{}, before {}", self.at(&it.entry), overtaken.event_id);
            Some(suspect(record, seen))
        });
        Ok(Report {
            since: self.verify.options.since,
            until: self.verify.options.until,
            published: self.outbox.ledger.len() as u64,
            waiting: self.outbox.waiting,
            dead: self.outbox.dead,
            topics: self.outbox.topics.len() as u64,
            messages: self.messages,
            replayed: self.replayed,
            foreign: self.strangers.foreign,
            lost: tally(&lost, &|_, record| match record.published_at {
                Some(at) => format!("published at {at}"),
                None => "marked as published".into(),
            }),
            duplicated: tally(&duplicated, &|entry, _| {
                format!("{} times, first {}", entry.times, self.at(entry))
            }),
            inverted: (self.verify.layout.ordering == Ordering::Key).then(|| Tally {
                count: inverted.count,
                first: overtaking.collect(),
            }),
            unknown: self.strangers.unknown.clone(),
            notes: self.notes.clone(),
        })
    }

    fn at(&self, entry: &Entry) -> String {
        match self.places.get(entry.place as usize) {
            Some((topic, partition)) => format!("at {topic}[{partition}]@{}", entry.offset),
            None => "nowhere".into(),
        }
    }
}

fn suspect(record: &StoredRecord, seen: String) -> Suspect {
    Suspect {
        event_id: record.event_id.clone(),
        record: Some(record.id.clone()),
        event_type: record.event_type.clone(),
        key: record.key.clone(),
        seen,
    }
}
