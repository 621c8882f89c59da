//! Sends published records that are still stored again, in the outbox's order, marked by a header. It never changes a
//! record, claims none and works beside running relays.

mod batch;
mod options;
mod progress;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::operate::{Act, Actor, Cursor, ManagedStore, Page, RecordFilter, RecordState};
use postrider_core::text::chain;
use postrider_core::{Publisher, Record, Router, StoreError, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use options::{BadResume, ReplayOptions, Resume};
pub use progress::{Progress, ReplayState};

use crate::relay::Appetite;
use batch::Sender;
use progress::Meter;

/// The header that marks what was sent again; its value is the time at which the replay began, in RFC 3339.
pub const REPLAY_HEADER: &str = "postrider-replay";

/// Payload bytes that are read at a time, about.
const BATCH_BYTES: usize = 8 << 20;
/// How many times a second a rate is kept to.
const SLICES: u32 = 4;

/// Why a replay ended before its last record.
enum End {
    Stopped,
    Failed(String),
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        Self::Failed(chain(&error))
    }
}

/// A replay, ready to run.
pub struct Replay {
    store: Arc<dyn ManagedStore>,
    publisher: Arc<dyn Publisher>,
    router: Router,
    options: ReplayOptions,
    meter: Meter,
}

impl Replay {
    /// `router` is that of the outbox's relay. `publisher` is best one of its own: a relay may be sending the same key,
    /// and a publisher wants a key in one call at a time.
    ///
    /// Without an `until` in the filter, the replay ends at what was created before now. Otherwise it would run after
    /// a relay that goes on publishing.
    pub fn new(
        store: Arc<dyn ManagedStore>,
        publisher: Arc<dyn Publisher>,
        router: Router,
        mut options: ReplayOptions,
    ) -> Self {
        let now = Timestamp::now();
        options.filter.state = Some(RecordState::Published);
        options.filter.until.get_or_insert(now);
        Self {
            meter: Meter::new(now, options.from.clone()),
            store,
            publisher,
            router,
            options,
        }
    }

    /// How it stands, before, while and after it runs.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.meter.watch()
    }

    /// What it does, with the filter as it is applied.
    pub fn options(&self) -> &ReplayOptions {
        &self.options
    }

    /// How many records match now, those before [`ReplayOptions::from`] included.
    pub async fn count(&self) -> Result<u64, StoreError> {
        self.store.count(&self.options.filter).await
    }

    /// Sends everything that matches and says how that ended; watch [`Self::progress`] meanwhile.
    ///
    /// * One batch after the other, each until the broker has all of it: a later record of a key waits for the earlier.
    /// * While the broker or the database does not answer, it waits and goes on.
    /// * A record that the broker or the router refuses ends it, or is left out with [`ReplayOptions::skip`].
    /// * After `stop` it ends within 5 seconds. [`Progress::resume`] says where the next one goes on; what it sends
    ///   twice is at most one batch.
    /// * Beginning and end are written to the audit table. Where that is missing, nothing is sent.
    pub async fn run(self, by: &Actor, stop: CancellationToken) -> Progress {
        let begun = self.begin(by).await;
        let noted = begun.is_ok();
        let end = match begun {
            Ok(()) => self.send_all(&stop).await,
            failed => failed,
        };
        self.meter.end(end);
        if noted {
            self.note_end(by).await;
        }
        self.meter.now()
    }

    async fn begin(&self, by: &Actor) -> Result<(), End> {
        let total = self.count().await?;
        self.meter.begin(total);
        let detail = format!("begins with {total} records: {}", self.options);
        Ok(self.note(by, detail).await?)
    }

    /// A note that cannot be written does not undo what was sent.
    async fn note_end(&self, by: &Actor) {
        let detail = self.meter.now().to_string();
        if let Err(error) = self.note(by, detail).await {
            tracing::warn!(
                reason = chain(&error),
                "the end of a replay was not written to the audit table"
            );
        }
    }

    async fn note(&self, by: &Actor, detail: String) -> Result<(), StoreError> {
        let record = match self.options.filter.ids.as_slice() {
            [record] => Some(record.clone()),
            _ => None,
        };
        let act = Act {
            action: "replay".into(),
            record,
            detail: Some(detail),
        };
        self.store.note(by, &act).await
    }

    async fn send_all(&self, stop: &CancellationToken) -> Result<(), End> {
        let sender = Sender::new(self, stop);
        let mut appetite = Appetite::of(self.options.batch.max(1), BATCH_BYTES);
        let mut cursor = self.options.from.as_ref().map(|from| from.cursor.clone());
        loop {
            let began = Instant::now();
            let limit = appetite.next().min(self.slice());
            let page = self.read(cursor.as_ref(), limit, stop).await?;
            let (records, bytes) = (page.items.len(), page.items.iter().map(Record::size).sum());
            sender.send(page.items).await?;
            let Some(next) = page.next else {
                return Ok(());
            };
            self.meter.passed(&next);
            cursor = Some(next);
            appetite.learn(records, bytes);
            self.keep_rate(began, records, stop).await?;
        }
    }

    /// The next records; waits for a database that does not answer.
    async fn read(
        &self,
        from: Option<&Cursor>,
        limit: u32,
        stop: &CancellationToken,
    ) -> Result<Page<Record>, End> {
        let filter: &RecordFilter = &self.options.filter;
        let mut failures = 0_u32;
        loop {
            let read = tokio::select! {
                read = self.store.read(filter, from, limit) => read,
                () = stop.cancelled() => return Err(End::Stopped),
            };
            match read {
                Err(StoreError::Unavailable { reason, .. }) => {
                    failures = failures.saturating_add(1);
                    self.meter.waits(&format!("database unavailable: {reason}"));
                    pause(self.options.backoff.random_delay(failures), stop).await?;
                }
                read => {
                    self.meter.goes_on();
                    return Ok(read?);
                }
            }
        }
    }

    /// Most records at a time, so that a rate is kept within a second too.
    fn slice(&self) -> u32 {
        self.options
            .rate
            .map_or(u32::MAX, |rate| (rate.get() / SLICES).max(1))
    }

    async fn keep_rate(
        &self,
        began: Instant,
        records: usize,
        stop: &CancellationToken,
    ) -> Result<(), End> {
        let Some(rate) = self.options.rate else {
            return Ok(());
        };
        let due = Duration::from_secs_f64(records as f64 / f64::from(rate.get()));
        pause(due.saturating_sub(began.elapsed()), stop).await
    }
}

/// Waits, unless it is told to stop.
async fn pause(wait: Duration, stop: &CancellationToken) -> Result<(), End> {
    tokio::select! {
        () = tokio::time::sleep(wait) => Ok(()),
        () = stop.cancelled() => Err(End::Stopped),
    }
}
