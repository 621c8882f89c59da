//! The client, in a runtime of its own: what it does in the background ends with that and not before.

use std::time::Duration;

use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_pubsub::client::{Subscriber, SubscriptionAdmin};
use google_cloud_pubsub::subscriber::ShutdownToken;
use postrider_core::SubscribeError;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::config::PubSubSubscriptionConfig;
use super::lookup::{Subject, look_up};
use super::pull::Puller;
use super::slices::Slices;
use super::ticket::Leased;
use crate::pubsub::runtime::OwnRuntime;
use crate::queue::{Queue, Trouble};

/// How long the client may take at the end to tell the service what was settled.
const FLUSH_MAX: Duration = Duration::from_secs(3);

pub(super) struct Session {
    runtime: OwnRuntime,
    config: PubSubSubscriptionConfig,
    client: Subscriber,
    admin: SubscriptionAdmin,
    pulling: Option<Pulling>,
}

struct Pulling {
    stop: watch::Sender<bool>,
    puller: JoinHandle<Vec<ShutdownToken>>,
}

impl Session {
    /// Makes the clients, which connects nobody yet.
    pub(super) async fn open(config: &PubSubSubscriptionConfig) -> Result<Self, SubscribeError> {
        let runtime = OwnRuntime::start(1).map_err(SubscribeError::unavailable)?;
        let connection = config.connection();
        let build = async move {
            let client = connection.subscriber().build().await?;
            let admin = connection.subscription_admin();
            let admin = admin.with_retry_policy(NeverRetry).build().await?;
            Ok::<_, google_cloud_gax::client_builder::Error>((client, admin))
        };
        let built = runtime.handle.spawn(build).await;
        let (client, admin) = built
            .map_err(SubscribeError::unavailable)?
            .map_err(SubscribeError::unavailable)?;
        Ok(Self {
            runtime,
            config: config.clone(),
            client,
            admin,
            pulling: None,
        })
    }

    /// Has no effect when it was called before.
    pub(super) fn begin_to_pull(&mut self, queue: &Queue<Leased>) {
        self.pulling.get_or_insert_with(|| {
            let runtime = &self.runtime.handle;
            let slices = Slices::new(self.config.lease_max());
            let (stop, stopped) = watch::channel(false);
            let puller = Puller::new(
                self.config.clone(),
                queue.clone(),
                self.client.clone(),
                self.admin.clone(),
                runtime.clone(),
                slices,
            );
            let puller = runtime.spawn(puller.run(stopped));
            drop(runtime.spawn(let_leases_end(queue.clone(), slices)));
            let queue = queue.clone();
            drop(runtime.spawn(async move { queue.give_back_due().await }));
            Pulling { stop, puller }
        });
    }

    /// Asks whether the service is there and has the subscription.
    pub(super) fn ask(&self) -> JoinHandle<Result<Subject, Trouble>> {
        let (admin, config) = (self.admin.clone(), self.config.clone());
        let ask = async move { look_up(&admin, &config).await };
        self.runtime.handle.spawn(ask)
    }

    /// Closes the stream. The leases on what it brought are kept.
    pub(super) async fn stop_pulling(self) -> Stopped {
        let mut streams = Vec::new();
        if let Some(pulling) = self.pulling {
            pulling.stop.send_replace(true);
            // None if it panicked, which the runtime's end makes good.
            streams = pulling.puller.await.unwrap_or_default();
        }
        Stopped {
            streams,
            runtime: self.runtime,
        }
    }
}

/// A client that only settles what it has.
pub(super) struct Stopped {
    streams: Vec<ShutdownToken>,
    runtime: OwnRuntime,
}

impl Stopped {
    /// Ends the client when the service was told everything. Nothing may be left to settle.
    pub(super) async fn end(self) {
        let streams = self.streams;
        let flush = async {
            for stream in &streams {
                stream.shutdown().await;
            }
        };
        if timeout(FLUSH_MAX, flush).await.is_err() {
            tracing::warn!(
                "pubsub: the service was not told everything within {FLUSH_MAX:?}: some messages may come again"
            );
        }
        drop(self.runtime);
    }
}

async fn let_leases_end(queue: Queue<Leased>, slices: Slices) {
    loop {
        sleep(slices.slice()).await;
        if let Some(lot) = slices.ended() {
            queue.lapse(lot);
        }
    }
}
