//! Puts the parts together and runs them: what the wiring of a service of your own would look like.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use postrider::core::{Actor, ManagedStore, Publisher, Router, Topic};
use postrider::replay::{ReplayOptions, ReplayState};
use postrider::{Cleanup, Metrics, Relay, Replay};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::broker::Broker;
use super::database::{Database, Found};
use super::orders::Orders;
use super::window::Window;
use super::{consumers, http, samples};
use crate::admin::{self, Admin, Managed};
use crate::config::{Config, Outbox};
use crate::wiring;

/// Who sends again what the broker has forgotten, in the audit table.
const DEMO: &str = "demo";

pub(super) struct Stage<'a, D> {
    database: D,
    broker: Broker,
    config: &'a Config,
    outbox: &'a Outbox,
    topic: Topic,
    dead_letters: Topic,
    metrics: Metrics,
}

impl<'a, D: Database> Stage<'a, D> {
    pub(super) fn new(database: D, broker: Broker, config: &'a Config, topic: &str) -> Self {
        Self {
            database,
            broker,
            config,
            outbox: &config.outboxes[0],
            topic: topic.into(),
            dead_letters: format!("{topic}.dlt").into(),
            metrics: Metrics::new(),
        }
    }

    /// Creates tables and topics that are missing. Says what was there, and which topics were not.
    pub(super) async fn prepare(&self) -> anyhow::Result<(Found, Vec<String>)> {
        let found = self.database.prepare(&self.outbox.layout).await?;
        let topics = [self.topic.clone(), self.dead_letters.clone()];
        let created = self.broker.prepare(&topics).await?;
        Ok((found, created.iter().map(Topic::to_string).collect()))
    }

    /// Opens the admin address, says so by `welcome`, and runs everything until `stop`. When one part fails, all end.
    pub(super) async fn run(
        self,
        listener: TcpListener,
        rate: u32,
        stop: CancellationToken,
        welcome: impl FnOnce() -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let store = self.database.store(&self.outbox.layout);
        let wake = Arc::new(Notify::new());
        let orders = Orders::new(self.database.clone(), wake.clone());
        let window = Window::new(&[self.topic.clone(), self.dead_letters.clone()]);
        let relay = self.relay(store.clone(), wake)?;

        let admin = self.admin(&relay, store.clone(), &stop);
        let admin = admin.with_demo(http::routes(orders.clone(), window.clone()));
        let close = CancellationToken::new();
        let server = tokio::spawn(admin::serve(listener, admin, close.clone()));
        welcome()?;

        let mut parts = Parts::new(&stop);
        let billing = consumers::billing(&self.database, &self.broker, &self.topic, &self.metrics)?;
        parts.spawn("billing", billing.run(stop.clone()));
        let shipping =
            consumers::shipping(&self.database, &self.broker, &self.topic, &self.metrics)?;
        parts.spawn("shipping", shipping.run(stop.clone()));
        self.open_window(window, &mut parts)?;
        self.clean_inbox(&mut parts);
        let remembered = self.remind_broker(store.clone(), &stop).await;
        if remembered.is_ok() {
            parts.spawn("the relay", relay.run(stop.clone()));
            let samples = samples::run(orders, store, rate, stop.clone());
            parts.spawn("the order service", async move {
                samples.await;
                anyhow::Ok(())
            });
        } else {
            stop.cancel();
        }
        let ended = parts.ended().await;
        // The admin address answers until the last part has stopped.
        close.cancel();
        server.await.context("the admin server panicked")?;
        remembered.and(ended)
    }

    fn relay(&self, store: Arc<dyn ManagedStore>, wake: Arc<Notify>) -> anyhow::Result<Relay> {
        Ok(
            Relay::builder(store, self.broker.publisher()?, self.router())
                .name(&self.outbox.name)
                .broker(self.broker.system())
                .config(wiring::relay_config(self.outbox))
                .metrics(&self.metrics)
                .wake(wake)
                .build(),
        )
    }

    /// Which topic an event goes to, and which schema it must fit.
    fn router(&self) -> Router {
        let Outbox {
            layout,
            routes,
            source,
            ..
        } = self.outbox;
        Router::new(layout, routes.clone(), source.clone())
    }

    fn admin(
        &self,
        relay: &Relay,
        store: Arc<dyn ManagedStore>,
        stop: &CancellationToken,
    ) -> Admin {
        let broker = self.broker.clone();
        let managed = Managed::new(admin::Parts {
            name: &self.outbox.name,
            layout: &self.outbox.layout,
            broker: &self.outbox.broker,
            relay,
            store,
            router: self.router(),
            payload_bytes_max: (self.config.brokers.get(&self.outbox.broker))
                .map(wiring::payload_bytes_max),
            publisher: Box::new(move || broker.publisher().map_err(|error| format!("{error:#}"))),
        });
        let no_tokens = BTreeMap::new();
        Admin::new([managed], self.metrics.clone(), &no_tokens, stop.clone())
    }

    fn open_window(&self, window: Window, parts: &mut Parts) -> anyhow::Result<()> {
        let topics = [self.topic.clone(), self.dead_letters.clone()];
        let subscription = self.broker.subscribe("window", &topics)?;
        let window = window.run(subscription, parts.stop.clone());
        parts.spawn("the window on the topics", async move {
            window.await;
            anyhow::Ok(())
        });
        Ok(())
    }

    /// Entries outlive the published records by far, so that whatever comes again is known.
    fn clean_inbox(&self, parts: &mut Parts) {
        let (inbox, stop) = (self.database.inbox_upkeep(), parts.stop.clone());
        parts.spawn("cleaning the inbox", async move {
            Cleanup::default().run("inbox", &inbox, stop).await;
            anyhow::Ok(())
        });
    }

    /// A broker in the process starts empty, also where consumers had not applied what the last one held. So the published
    /// records are sent again before the relay goes on; the inbox knows those that were applied.
    async fn remind_broker(
        &self,
        store: Arc<dyn ManagedStore>,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let Broker::Memory(broker) = &self.broker else {
            return Ok(());
        };
        let publisher: Arc<dyn Publisher> = Arc::new(broker.clone());
        let replay = Replay::new(store, publisher, self.router(), ReplayOptions::default());
        if replay.count().await? == 0 {
            return Ok(());
        }
        let progress = replay.run(&Actor(DEMO.into()), stop.clone()).await;
        match progress.state {
            ReplayState::Failed => {
                anyhow::bail!("published records were not sent again: {progress}")
            }
            _ => Ok(()),
        }
    }
}

/// What runs, by name.
struct Parts {
    running: JoinSet<anyhow::Result<()>>,
    stop: CancellationToken,
}

impl Parts {
    fn new(stop: &CancellationToken) -> Self {
        Self {
            running: JoinSet::new(),
            stop: stop.clone(),
        }
    }

    fn spawn<E>(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Into<anyhow::Error> + 'static,
    {
        self.running.spawn(async move {
            let ended = part.await.map_err(Into::into);
            ended.with_context(|| format!("{name} stopped"))
        });
    }

    /// When one fails the others are stopped too, and the first failure is given.
    async fn ended(mut self) -> anyhow::Result<()> {
        let mut first_failure = Ok(());
        while let Some(ended) = self.running.join_next().await {
            let ended = ended.context("a part of the demo panicked").flatten();
            if ended.is_err() {
                self.stop.cancel();
                first_failure = first_failure.and(ended);
            }
        }
        first_failure
    }
}
