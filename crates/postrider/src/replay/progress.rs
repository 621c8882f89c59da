//! How a replay stands, for whoever watches it.

use std::fmt;

use postrider_core::Timestamp;
use postrider_core::operate::Cursor;
use tokio::sync::watch;

use super::{End, Resume};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub state: ReplayState,
    /// Records that the broker has acknowledged, those of the replay that this one goes on from included.
    pub sent: u64,
    /// Records that were left out because they cannot be sent.
    pub skipped: u64,
    /// Records that matched when it began.
    pub total: u64,
    /// Why nothing moves at the moment.
    pub waiting: Option<String>,
    /// Why it failed, or the last record that was left out and why.
    pub error: Option<String>,
    /// Where to go on; `None` where that is at the beginning.
    pub resume: Option<Resume>,
    /// Also the value of the header.
    pub started_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayState {
    Running,
    Done,
    Stopped,
    Failed,
}

impl ReplayState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// In words, for the audit table.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} with {} of {} records sent, {} left out",
            self.state.as_str(),
            self.sent,
            self.total,
            self.skipped
        )?;
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

/// Writes the progress down.
pub(super) struct Meter(watch::Sender<Progress>);

impl Meter {
    pub(super) fn new(started_at: Timestamp, resume: Option<Resume>) -> Self {
        Self(watch::Sender::new(Progress {
            state: ReplayState::Running,
            sent: resume.as_ref().map_or(0, |resume| resume.passed),
            skipped: 0,
            total: 0,
            waiting: None,
            error: None,
            resume,
            started_at,
        }))
    }

    pub(super) fn watch(&self) -> watch::Receiver<Progress> {
        self.0.subscribe()
    }

    pub(super) fn now(&self) -> Progress {
        self.0.borrow().clone()
    }

    pub(super) fn started_at(&self) -> Timestamp {
        self.0.borrow().started_at
    }

    pub(super) fn begin(&self, total: u64) {
        self.0.send_modify(|progress| progress.total = total);
    }

    pub(super) fn sent(&self, records: u64) {
        self.0.send_modify(|progress| progress.sent += records);
    }

    pub(super) fn skipped(&self, why: String) {
        self.0.send_modify(|progress| {
            progress.skipped += 1;
            progress.error = Some(why);
        });
    }

    /// Everything before the cursor is sent.
    pub(super) fn passed(&self, cursor: &Cursor) {
        self.0.send_modify(|progress| {
            progress.resume = Some(Resume {
                passed: progress.sent + progress.skipped,
                cursor: cursor.clone(),
            });
        });
    }

    pub(super) fn waits(&self, why: &str) {
        self.0
            .send_modify(|progress| progress.waiting = Some(why.into()));
    }

    pub(super) fn goes_on(&self) {
        self.0
            .send_if_modified(|progress| progress.waiting.take().is_some());
    }

    pub(super) fn end(&self, end: Result<(), End>) {
        self.0.send_modify(|progress| {
            progress.waiting = None;
            (progress.state, progress.error) = match end {
                Ok(()) => (ReplayState::Done, progress.error.take()),
                Err(End::Stopped) => (ReplayState::Stopped, progress.error.take()),
                Err(End::Failed(error)) => (ReplayState::Failed, Some(error)),
            };
        });
    }
}
