//! Writing to records so that nothing that one of them contains keeps the others from being written: what the database
//! refuses as a set it gets in halves, down to the one record that it refuses.

use std::collections::HashSet;
use std::error::Error;
use std::ops::Range;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use postrider_core::{MessageKey, Ordering, Record, StoreError};

use crate::fates::{Failed, Sorted, let_go};

/// Between two tries to settle while the database does not answer.
const SETTLE_AGAIN: Duration = Duration::from_millis(200);
/// How many statements a claim may take to find out which records it cannot mark.
const MARKS_MAX: usize = 100;

/// An open transaction with a savepoint.
#[async_trait]
pub(crate) trait Savepoint: Send {
    /// Sets the savepoint anew, unless nothing was written since.
    async fn guard(&mut self) -> Result<(), StoreError>;

    /// Undoes what was written since the savepoint.
    async fn undo(&mut self) -> Result<(), StoreError>;
}

/// Where fates are written. What is given no record writes nothing, and fails where every record would.
#[async_trait]
pub(crate) trait Ledger: Send {
    fn savepoint(&mut self) -> &mut dyn Savepoint;

    /// Marks records as published and says how many were there.
    async fn published(&mut self, records: &[&Record]) -> Result<u64, StoreError>;

    /// Stores failures and says of how many.
    async fn failed(&mut self, failures: &[Failed<'_>]) -> Result<u64, StoreError>;

    /// Gives records back, where the end of the transaction does not, and says how many were there.
    async fn released(&mut self, records: &[&Record]) -> Result<u64, StoreError> {
        Ok(records.len() as u64)
    }
}

/// Where records are marked as claimed. The same holds of none.
#[async_trait]
pub(crate) trait Marks: Send {
    fn savepoint(&mut self) -> &mut dyn Savepoint;

    async fn mark(&mut self, records: &[&Record]) -> Result<u64, StoreError>;
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Written<'a> {
    /// How many were to be written, but for those that were refused.
    pub expected: u64,
    /// Rows that were there.
    pub found: u64,
    /// Records whose fate was not stored, whether they are published, and what the database said.
    pub refused: Vec<(&'a Record, bool, StoreError)>,
}

impl Written<'_> {
    /// How many were not there any more.
    pub(crate) fn lapsed(&self) -> u64 {
        self.expected.saturating_sub(self.found)
    }
}

/// Writes what is published, and then what is not: a failure that cannot be stored costs the others nothing.
pub(crate) async fn write<'a>(
    ledger: &mut impl Ledger,
    sorted: &Sorted<'a>,
    plain_error: Option<&'static str>,
) -> Result<Written<'a>, StoreError> {
    let mut written = Written::default();
    for (at, error) in written
        .add(ledger, Same::Published(&sorted.published))
        .await?
    {
        written.refused.push((sorted.published[at], true, error));
    }
    for (at, error) in written.add(ledger, Same::Failed(&sorted.failed)).await? {
        let failed = &sorted.failed[at];
        // The text of an error is the one thing in it that did not come from the table.
        let plain = [Failed {
            error: plain_error,
            ..*failed
        }];
        let again = written.add(ledger, Same::Failed(&plain)).await?;
        if !again.is_empty() {
            written.refused.push((failed.record, false, error));
        }
    }
    // What cannot be given back is free when the claim ends.
    let kept = written
        .add(ledger, Same::Released(&sorted.released))
        .await?;
    written.expected = (sorted.len() - written.refused.len() - kept.len()) as u64;
    Ok(written)
}

/// Marks records as claimed. Takes out what the database refuses to have marked, and with order per key also what
/// follows it in its key, and gives back what was refused and why.
pub(crate) async fn mark(
    marks: &mut impl Marks,
    records: &mut Vec<Record>,
    ordering: Ordering,
) -> Result<Vec<(Record, StoreError)>, StoreError> {
    let mut parts = Parts::of(records.len());
    let mut blocked: HashSet<&MessageKey> = HashSet::new();
    let mut asked = 0;
    while asked < MARKS_MAX
        && let Some(part) = parts.next()
    {
        asked += 1;
        let free = |record: &&Record| !record.key.as_ref().is_some_and(|key| blocked.contains(key));
        let free: Vec<&Record> = records[part.clone()].iter().filter(free).collect();
        marks.savepoint().guard().await?;
        let wrote = marks.mark(&free).await;
        parts.settle(marks.savepoint(), part, wrote).await?;
        // What follows comes later, and is not marked yet.
        if let (Ordering::Key, Some((at, _))) = (ordering, parts.refused.last()) {
            blocked.extend(&records[*at].key);
        }
    }
    let refused: Vec<(Record, StoreError)> = (parts.refused.into_iter())
        .map(|(at, error)| (records[at].clone(), error))
        .collect();
    let unmarked = parts.left.iter().cloned().flatten();
    let unmarked: HashSet<_> = unmarked.map(|at| records[at].id.clone()).collect();
    let_go(records, ordering, |record| {
        unmarked.contains(&record.id) || refused.iter().any(|(refused, _)| refused.id == record.id)
    });
    Ok(refused)
}

/// A claim that others respect until a time, whatever becomes of a transaction.
#[async_trait]
pub(crate) trait Lease: Sync {
    fn ends_at(&self) -> Instant;

    /// Writes fates in a transaction of their own.
    async fn write<'a>(&self, part: &Sorted<'a>) -> Result<Written<'a>, StoreError>;
}

/// Writes what is published, which waits for nothing that the others need, and then the others. Tries again for as long as
/// the lease lasts: what is not settled is published again.
pub(crate) async fn write_leased<'a>(
    lease: &impl Lease,
    sorted: &Sorted<'a>,
) -> Result<Written<'a>, StoreError> {
    let mut all = Written::default();
    for part in [sorted.only_published(), sorted.only_unpublished()] {
        if part.is_empty() {
            continue;
        }
        let written = loop {
            match lease.write(&part).await {
                Err(StoreError::Unavailable { .. })
                    if Instant::now() + SETTLE_AGAIN < lease.ends_at() =>
                {
                    tokio::time::sleep(SETTLE_AGAIN).await;
                }
                written => break written?,
            }
        };
        all.expected += written.expected;
        all.found += written.found;
        all.refused.extend(written.refused);
    }
    Ok(all)
}

/// What is refused, by its place, and why.
type Refusals = Vec<(usize, StoreError)>;

/// Records that meet the same fate.
enum Same<'a, 'b> {
    Published(&'b [&'a Record]),
    Failed(&'b [Failed<'a>]),
    Released(&'b [&'a Record]),
}

impl Same<'_, '_> {
    fn len(&self) -> usize {
        match self {
            Self::Published(records) | Self::Released(records) => records.len(),
            Self::Failed(failures) => failures.len(),
        }
    }

    async fn write(&self, part: Range<usize>, ledger: &mut impl Ledger) -> Result<u64, StoreError> {
        match self {
            Self::Published(records) => ledger.published(&records[part]).await,
            Self::Failed(failures) => ledger.failed(&failures[part]).await,
            Self::Released(records) => ledger.released(&records[part]).await,
        }
    }
}

impl Written<'_> {
    async fn add(
        &mut self,
        ledger: &mut impl Ledger,
        same: Same<'_, '_>,
    ) -> Result<Refusals, StoreError> {
        let mut parts = Parts::of(same.len());
        while let Some(part) = parts.next() {
            ledger.savepoint().guard().await?;
            let wrote = same.write(part.clone(), ledger).await;
            self.found += parts.settle(ledger.savepoint(), part, wrote).await?;
        }
        Ok(parts.refused)
    }
}

/// What is yet to be written, the first part last.
struct Parts {
    left: Vec<Range<usize>>,
    refused: Refusals,
    /// Whether none at all was tried, to see whether the statement is at fault.
    tried_none: bool,
    /// Whether the same was tried again.
    tried_again: bool,
}

impl Parts {
    fn of(count: usize) -> Self {
        let mut left = Vec::new();
        if count > 0 {
            left.push(0..count);
        }
        Self {
            left,
            refused: Vec::new(),
            tried_none: false,
            tried_again: false,
        }
    }

    fn next(&mut self) -> Option<Range<usize>> {
        self.left.pop()
    }

    async fn settle(
        &mut self,
        savepoint: &mut dyn Savepoint,
        part: Range<usize>,
        wrote: Result<u64, StoreError>,
    ) -> Result<u64, StoreError> {
        let error = match wrote {
            Ok(found) => return at_most(found, part.len()),
            Err(error) => error,
        };
        let fault = Fault::of(&error);
        if fault == Fault::Database || part.is_empty() {
            return Err(error);
        }
        savepoint.undo().await?;
        let middle = part.start + part.len() / 2;
        match fault {
            Fault::Statement if !self.tried_none => {
                self.tried_none = true;
                self.left.push(part.clone());
                self.left.push(part.start..part.start);
            }
            Fault::Moment if !self.tried_again => {
                self.tried_again = true;
                self.left.push(part);
            }
            _ if part.len() == 1 => self.refused.push((part.start, error)),
            _ => {
                self.left.push(middle..part.end);
                self.left.push(part.start..middle);
            }
        }
        Ok(0)
    }
}

/// What an error may be laid to. A trigger can fail with any code, so what looks like one thing may be another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A record: others fare better.
    Record,
    /// The statement or the table, unless it succeeds for no record at all: then a trigger said it of one.
    Statement,
    /// Somebody else at this moment, unless it happens again.
    Moment,
    /// The database: nothing would fare better now.
    Database,
}

impl Fault {
    pub(crate) fn of(error: &StoreError) -> Self {
        let code = |source: &Option<Box<dyn Error + Send + Sync>>| {
            let error = source.as_ref()?.downcast_ref::<sqlx::Error>()?;
            Some(error.as_database_error()?.code()?.into_owned())
        };
        match error {
            StoreError::Unfit { .. } => Self::Record,
            StoreError::Mismatch(_) => Self::Statement,
            // The role lacks a right, or a policy refuses the row.
            StoreError::Refused { source, .. } => match code(source).as_deref() {
                Some("42501") => Self::Statement,
                _ => Self::Record,
            },
            StoreError::Unavailable { source, .. } => Self::of_code(code(source).as_deref()),
            _ => Self::Database,
        }
    }

    /// By the SQLSTATE of what may succeed later. SQLite's codes are shorter.
    fn of_code(code: Option<&str>) -> Self {
        match code {
            Some("40001" | "40P01") => Self::Moment,
            Some("55P03") => Self::Database,
            Some(code) if code.len() == 5 => match &code[..2] {
                "08" => Self::Moment,
                // Full, cancelled, shutting down, or out of order itself.
                "53" | "57" | "58" => Self::Database,
                _ => Self::Statement,
            },
            _ => Self::Database,
        }
    }
}

/// More rows than records: then an id is no id, and what was marked was never published.
fn at_most(found: u64, expected: usize) -> Result<u64, StoreError> {
    if found <= expected as u64 {
        return Ok(found);
    }
    Err(StoreError::Mismatch(format!(
        "{expected} records were to be written and {found} rows have their ids, so nothing was written: the id column is not \
         unique; run `postrider check`"
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use postrider_core::{Fate, RecordId};

    use super::*;

    /// Fails so many times before it writes.
    struct Shaky {
        failures: Mutex<u32>,
        ends_at: Instant,
    }

    #[async_trait]
    impl Lease for Shaky {
        fn ends_at(&self) -> Instant {
            self.ends_at
        }

        async fn write<'a>(&self, part: &Sorted<'a>) -> Result<Written<'a>, StoreError> {
            let mut failures = self.failures.lock().unwrap();
            if *failures > 0 {
                *failures -= 1;
                return Err(StoreError::unavailable("away"));
            }
            Ok(Written {
                found: part.len() as u64,
                expected: part.len() as u64,
                refused: Vec::new(),
            })
        }
    }

    /// R14, of both databases.
    #[tokio::test]
    async fn a_lease_is_settled_for_as_long_as_it_lasts() {
        let records = [Record::bare(RecordId::Int(1), "1".into())];
        let fates = [Fate::Published];
        let sorted = Sorted::new(&records, &fates).unwrap();
        let shaky = |lasts| Shaky {
            failures: Mutex::new(4),
            ends_at: Instant::now() + lasts,
        };
        let lasting = shaky(Duration::from_secs(60));
        assert_eq!(write_leased(&lasting, &sorted).await.unwrap().found, 1);
        let lapsed = shaky(Duration::ZERO);
        assert!(write_leased(&lapsed, &sorted).await.is_err());
        assert_eq!(*lapsed.failures.lock().unwrap(), 3);
    }
}
