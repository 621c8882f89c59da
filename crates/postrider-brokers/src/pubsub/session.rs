//! The client and everything that it runs in the background. Google's client offers no way to take back
//! what it was given: it goes on sending, even when it is dropped. So it runs in a runtime of its own,
//! and ending that is the way.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use google_cloud_gax::retry_policy::RetryPolicyExt;
use google_cloud_pubsub::client::{BasePublisher, Publisher};
use google_cloud_pubsub::retry_policy::RetryableErrors;
use postrider_core::text;
use tokio::runtime::Handle;

use super::check::{REQUEST_BYTES_MAX, REQUEST_MESSAGES_MAX};
use super::config::PubSubConfig;
use super::runtime::OwnRuntime;

/// How long the client tries one request again before it gives up. Its own default is ten minutes.
const RETRY_TIME_LIMIT: Duration = Duration::from_secs(5);
/// How long a request waits for messages. They are all there already.
const DELAY: Duration = Duration::from_millis(1);
const THREADS: usize = 2;

pub(super) struct Session {
    runtime: Mutex<Option<OwnRuntime>>,
    handle: Handle,
    base: BasePublisher,
}

impl Session {
    pub(super) async fn open(config: &PubSubConfig) -> Result<Self, String> {
        let runtime = OwnRuntime::start(THREADS)
            .map_err(|error| format!("no threads for the Pub/Sub client: {error}"))?;
        let handle = runtime.handle.clone();
        let policy = RetryableErrors.with_time_limit(RETRY_TIME_LIMIT);
        let build = config.publisher().with_retry_policy(policy).build();
        let built = handle.spawn(build).await;
        let base = built
            .map_err(|error| text::chain(&error))?
            .map_err(|error| text::chain(&error))?;
        Ok(Self {
            runtime: Mutex::new(Some(runtime)),
            handle,
            base,
        })
    }

    /// A client for one topic and one call. It keeps a task for every key it ever saw and remembers every
    /// key that failed, so none is kept for longer.
    pub(super) fn client(&self, topic: &str) -> Publisher {
        let _inside = self.handle.enter();
        self.base
            .publisher(topic)
            .set_message_count_threshold(REQUEST_MESSAGES_MAX as u32)
            .set_byte_threshold(REQUEST_BYTES_MAX as u32)
            .set_delay_threshold(DELAY)
            .build()
    }

    pub(super) fn is_open(&self) -> bool {
        self.runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// Ends the connection and everything under way, at once. Whoever waits gets an error.
    pub(super) fn close(&self) {
        let runtime = self
            .runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if runtime.is_some() {
            tracing::debug!("pubsub: closing the client");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
