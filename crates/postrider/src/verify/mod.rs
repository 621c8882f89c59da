//! Compares the published records of an outbox with what the broker holds: what is lost, duplicated, inverted within
//! its key, or unknown to the outbox. It changes nothing on either side.

mod broker;
mod ledger;
mod outbox;
mod report;
mod strangers;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use postrider_core::operate::Records;
use postrider_core::{Layout, Readback, Router, Timestamp};
use tokio::sync::watch;

pub use report::{Report, Stage, Suspect, Tally, VerifyError, VerifyProgress};

use broker::Comparison;
use wire::Wire;

/// Memory that each record of the range takes, in bytes.
pub const RECORD_BYTES: usize = size_of::<ledger::Entry>();
/// Records of a range unless it is set otherwise: about 96 MB.
pub const RECORDS_MAX: u64 = 2_000_000;
/// Suspects of each kind that are named.
pub const NAMED_MAX: usize = 10;

/// Which records are compared, and how.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// Records by the time they were created: from this one on, and before that one.
    pub since: Timestamp,
    pub until: Timestamp,
    /// How far the clocks of services, database, relays and brokers may be apart. The topics are read from so long before
    /// `since` to so long after the last record was published.
    pub slack: Duration,
    /// A range with more records is refused.
    pub records_max: u64,
}

impl VerifyOptions {
    pub fn new(since: Timestamp, until: Timestamp) -> Self {
        Self {
            since,
            until,
            slack: Duration::from_secs(300),
            records_max: RECORDS_MAX,
        }
    }
}

/// A comparison, ready to run.
pub struct Verify {
    records: Arc<dyn Records>,
    broker: Arc<dyn Readback>,
    layout: Layout,
    router: Router,
    options: VerifyOptions,
    progress: watch::Sender<VerifyProgress>,
}

impl Verify {
    /// `layout` and `router` are those of the outbox's relay.
    pub fn new(
        records: Arc<dyn Records>,
        broker: Arc<dyn Readback>,
        layout: Layout,
        router: Router,
        options: VerifyOptions,
    ) -> Self {
        Self {
            records,
            broker,
            layout,
            router,
            options,
            progress: watch::Sender::default(),
        }
    }

    /// How it stands while it runs.
    pub fn progress(&self) -> watch::Receiver<VerifyProgress> {
        self.progress.subscribe()
    }

    /// Reads the outbox, then the broker. What was published when the outbox was read has been acknowledged before, so
    /// it is not lost only because relays go on.
    pub async fn run(self) -> Result<Report, VerifyError> {
        let wire = Wire::of(&self.layout)?;
        let outbox = self.read_outbox().await?;
        let mut comparison = Comparison::new(&self, &wire, outbox);
        comparison.read_topics().await?;
        comparison.report().await
    }

    fn progressed(&self, stage: Stage, done: u64, total: u64) {
        self.progress
            .send_replace(VerifyProgress { stage, done, total });
    }
}
