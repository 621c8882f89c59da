//! The loop that keeps a stream open and puts what it brings into the queue.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use google_cloud_pubsub::client::{Subscriber, SubscriptionAdmin};
use google_cloud_pubsub::model::Message as Received;
use google_cloud_pubsub::subscriber::handler::Handler;
use google_cloud_pubsub::subscriber::{MessageStream, ShutdownBehavior, ShutdownToken};
use postrider_core::{Header, Message, MessageKey, Timestamp, Topic};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::config::PubSubSubscriptionConfig;
use super::lookup::{Subject, look_up, trouble};
use super::slices::Slices;
use super::ticket::Leased;
use crate::queue::{Entry, Queue, Trouble};

/// How long a stream may be silent before the service is asked whether it is still there. The client does not
/// tell: it goes on connecting for ever.
const SILENCE_MAX: Duration = Duration::from_secs(5);
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

pub(super) struct Puller {
    config: PubSubSubscriptionConfig,
    queue: Queue<Leased>,
    client: Subscriber,
    admin: SubscriptionAdmin,
    runtime: Handle,
    slices: Slices,
    /// Streams that were opened and still have leases to keep.
    streams: Vec<ShutdownToken>,
    /// What was reported and lasts.
    trouble: Option<Trouble>,
    flaw: Option<String>,
}

impl Puller {
    pub(super) fn new(
        config: PubSubSubscriptionConfig,
        queue: Queue<Leased>,
        client: Subscriber,
        admin: SubscriptionAdmin,
        runtime: Handle,
        slices: Slices,
    ) -> Self {
        Self {
            config,
            queue,
            client,
            admin,
            runtime,
            slices,
            streams: Vec::new(),
            trouble: None,
            flaw: None,
        }
    }

    /// Pulls until told to stop. Gives the streams whose leases are still kept.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) -> Vec<ShutdownToken> {
        // That whoever might say stop is gone means the same.
        let stopped = stop.wait_for(|stop| *stop).map(drop);
        tokio::select! {
            () = stopped => {}
            () = self.pull() => {}
        }
        self.streams
    }

    async fn pull(&mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let began = Instant::now();
            let Err(trouble) = self.attend().await;
            self.report(trouble);
            if began.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Finds the subscription and pulls from it until that no longer works.
    async fn attend(&mut self) -> Result<Infallible, Trouble> {
        let subject = look_up(&self.admin, &self.config).await?;
        self.recover(&subject);
        let mut stream = self.open();
        loop {
            self.queue.until_room().await;
            let (message, handler) = self.receive(&mut stream).await?;
            self.queue
                .push(self.entry(message, handler, &subject.topic));
        }
    }

    fn open(&mut self) -> MessageStream {
        let config = &self.config;
        let stream = self
            .client
            .subscribe(config.full_name())
            .set_max_outstanding_messages(config.in_flight_max)
            .set_max_outstanding_bytes(config.in_flight_bytes_max)
            .set_max_lease_extension(config.lease())
            .set_max_lease(config.lease_max())
            .set_shutdown_behavior(ShutdownBehavior::WaitForProcessing)
            .build();
        // All of them were told to end when their stream was dropped; this only looks whether they have.
        self.streams
            .retain(|stream| stream.shutdown().now_or_never().is_none());
        self.streams.push(stream.shutdown_token());
        stream
    }

    async fn receive(&self, stream: &mut MessageStream) -> Result<(Received, Handler), Trouble> {
        let mut received = pin!(stream.next());
        loop {
            tokio::select! {
                received = &mut received => {
                    let ended = || Trouble::Unavailable("the stream has ended".into());
                    return received
                        .ok_or_else(ended)?
                        .map_err(|error| trouble(&error, &self.config));
                }
                () = sleep(SILENCE_MAX) => {
                    look_up(&self.admin, &self.config).await?;
                }
            }
        }
    }

    fn entry(&self, received: Received, handler: Handler, topic: &Topic) -> Entry<Leased> {
        let attempt = handler.delivery_attempt();
        let ticket = Leased {
            handler,
            message_id: received.message_id.clone(),
            runtime: self.runtime.clone(),
        };
        Entry {
            published_at: received.publish_time.map(|time| {
                let micros = time.seconds().saturating_mul(1_000_000);
                Timestamp::from_micros(micros.saturating_add((time.nanos() / 1_000).into()))
            }),
            attempt: attempt.and_then(|count| count.try_into().ok()).unwrap_or(1),
            position: received.message_id.clone(),
            lot: self.slices.now(),
            ticket,
            message: message(received, topic),
        }
    }

    fn recover(&mut self, subject: &Subject) {
        if self.trouble.take().is_some() {
            tracing::info!(subscription = %self.config.full_name(), "pubsub: the subscription answers again");
        }
        self.queue.recover();
        if subject.flaw != self.flaw {
            if let Some(flaw) = &subject.flaw {
                tracing::warn!("pubsub: {flaw}");
            }
            self.flaw.clone_from(&subject.flaw);
        }
    }

    fn report(&mut self, trouble: Trouble) {
        if self.trouble.as_ref() != Some(&trouble) {
            let subscription = self.config.full_name();
            tracing::warn!(%subscription, ?trouble, "pubsub: nothing can be pulled, trying again");
            self.trouble = Some(trouble.clone());
        }
        self.queue.fail(trouble);
    }
}

fn message(received: Received, topic: &Topic) -> Message {
    let mut headers: Vec<_> = received
        .attributes
        .into_iter()
        .map(|(name, value)| Header::new(name, value))
        .collect();
    headers.sort_by(|a, b| a.name.cmp(&b.name));
    Message {
        topic: topic.clone(),
        key: Some(received.ordering_key)
            .filter(|key| !key.is_empty())
            .map(MessageKey::from),
        ordered: false,
        payload: Some(received.data),
        headers,
    }
}
