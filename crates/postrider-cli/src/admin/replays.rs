//! The replays of one outbox: one at a time, and the last one is remembered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider::core::operate::ManagedStore;
use postrider::core::{Publisher, Router};
use postrider::replay::{Progress, Replay, ReplayOptions, ReplayState};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::outbox::MakePublisher;

pub(super) struct Replays {
    store: Arc<dyn ManagedStore>,
    router: Router,
    publisher: MakePublisher,
    last: Mutex<Option<Watched>>,
}

/// A replay that was started here.
#[derive(Clone)]
pub(super) struct Watched {
    progress: watch::Receiver<Progress>,
    by: Arc<str>,
    stop: CancellationToken,
}

/// Why there is no replay.
pub(super) enum NotStarted {
    /// One is running.
    Busy,
    /// There is no publisher for it.
    NoPublisher(String),
}

impl Replays {
    pub(super) fn new(
        store: Arc<dyn ManagedStore>,
        router: Router,
        publisher: MakePublisher,
    ) -> Self {
        Self {
            store,
            router,
            publisher,
            last: Mutex::default(),
        }
    }

    /// Makes a replay ready to run, and takes the place of the last one.
    pub(super) fn begin(
        &self,
        options: ReplayOptions,
        by: Arc<str>,
        stop: CancellationToken,
    ) -> Result<(Replay, Watched, CancellationToken), NotStarted> {
        let mut last = self.lock();
        if last.as_ref().is_some_and(Watched::runs) {
            return Err(NotStarted::Busy);
        }
        let publisher: Arc<dyn Publisher> = (self.publisher)().map_err(NotStarted::NoPublisher)?;
        let replay = Replay::new(self.store.clone(), publisher, self.router.clone(), options);
        let watched = Watched {
            progress: replay.progress(),
            by,
            stop: stop.clone(),
        };
        *last = Some(watched.clone());
        Ok((replay, watched, stop))
    }

    pub(super) fn last(&self) -> Option<Watched> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Watched>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn runs(&self) -> bool {
        // A replay that went without an end (a panic, say) runs no more.
        let running = self.progress.borrow().state == ReplayState::Running;
        running && self.progress.has_changed().is_ok()
    }

    /// Tells it to stop, and waits until it has.
    pub(super) async fn stop(&mut self) {
        self.stop.cancel();
        let ended = self
            .progress
            .wait_for(|progress| progress.state != ReplayState::Running);
        // An error says that the replay is gone, which is an end too.
        drop(ended.await);
    }

    pub(super) fn shown(&self) -> Value {
        let progress = self.progress.borrow().clone();
        let state = match progress.state {
            ReplayState::Running if !self.runs() => ReplayState::Failed,
            state => state,
        };
        json!({
            "state": state.as_str(),
            "sent": progress.sent,
            "skipped": progress.skipped,
            "total": progress.total,
            "waiting": progress.waiting,
            "error": progress.error,
            "started_at": progress.started_at.to_string(),
            "by": &*self.by,
        })
    }
}
