//! Hints that new records have come.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Wakes when records may have come. Listens for as long as it lives.
#[derive(Debug)]
pub struct Wake {
    notify: Arc<Notify>,
    _listening: AbortOnDropHandle<()>,
}

impl Wake {
    /// Runs what listens and notifies. Must be called within a runtime.
    pub(crate) fn start<L>(listen: impl FnOnce(Arc<Notify>) -> L) -> Self
    where
        L: Future<Output = ()> + Send + 'static,
    {
        let notify = Arc::new(Notify::new());
        let task = tokio::spawn(listen(notify.clone()));
        Self {
            notify,
            _listening: AbortOnDropHandle::new(task),
        }
    }

    /// Returns when records may have come since the last call.
    pub async fn woken(&self) {
        self.notify.notified().await;
    }
}
