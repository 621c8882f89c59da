//! From chunks of several teams and records that failed earlier to one claim, in order of position.

use std::collections::HashSet;

use postrider_core::{MessageKey, Record};

use super::read::{Chunk, position};
use super::team::Team;

/// What a claim holds.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// To be published, in order of position.
    pub(super) records: Vec<Record>,
    /// One per record: whether it failed earlier and is kept aside.
    pub(super) is_troubled: Vec<bool>,
    pub(super) parts: Vec<Part>,
}

impl Gathered {
    /// Whether the claim has published others before these.
    pub(super) fn has_gone_on(&self) -> bool {
        self.parts.iter().any(|part| part.published_upto.is_some())
    }
}

/// One team's part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) team: Team,
    /// Where the claim has gone on from.
    pub(super) published_upto: Option<i64>,
    /// In order of position, without gaps.
    pub(super) entries: Vec<Entry>,
    /// Whether the team may have more after them.
    pub(super) more: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) position: i64,
    /// Which of the claim's records it is; `None` if it has to wait behind an earlier record of its key.
    pub(super) given: Option<usize>,
}

pub(super) fn gather(
    chunks: Vec<(Team, Chunk)>,
    troubled: Vec<Record>,
    parked: &[MessageKey],
    limit: u32,
) -> Gathered {
    let parked: HashSet<&MessageKey> = parked.iter().collect();
    let mut gathered = Gathered::default();
    let mut all: Vec<(Option<usize>, Record)> = Vec::new();
    all.extend(troubled.into_iter().map(|record| (None, record)));
    for (team, chunk) in chunks {
        let part = gathered.parts.len();
        all.extend(chunk.records.into_iter().map(|record| (Some(part), record)));
        gathered.parts.push(Part {
            team,
            published_upto: None,
            entries: Vec::new(),
            more: chunk.more,
        });
    }
    // Finds that it has nothing to do where there is one chunk.
    all.sort_by_key(|(_, record)| position(record));
    for (part, record) in all {
        let full = gathered.records.len() >= limit as usize;
        let part = part.map(|part| &mut gathered.parts[part]);
        match part {
            Some(part) if full => part.more = true,
            None if full => {}
            Some(part) => {
                let waits = record.key.as_ref().is_some_and(|key| parked.contains(key));
                part.entries.push(Entry {
                    position: position(&record),
                    given: (!waits).then_some(gathered.records.len()),
                });
                if !waits {
                    gathered.records.push(record);
                    gathered.is_troubled.push(false);
                }
            }
            None => {
                gathered.records.push(record);
                gathered.is_troubled.push(true);
            }
        }
    }
    gathered
}
