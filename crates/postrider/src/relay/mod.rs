//! The relay: carries records of one outbox to one broker until it is told to stop.

mod breaker;
mod cleaner;
mod config;
mod crew;
mod cycle;
mod journal;
mod monitor;
mod pace;
mod part_waits;
mod probe;
mod spans;
pub(crate) mod steps;
mod tempo;
mod tend;
mod worker;

use std::sync::Arc;

use postrider_core::{OutboxStore, Publisher, Router, StoreError};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use crate::cleanup::Cleanup;
pub use config::Config;
pub use journal::FailedAttempt;
pub use monitor::{BreakerState, Monitor};
pub(crate) use pace::Appetite;
pub use tempo::{Dial, Tempo};
pub(crate) use tend::tend;

use crate::Metrics;
use crate::health::Health;
use crate::metrics::OutboxMetrics;
use breaker::Breaker;
use crew::Crew;
use journal::Journal;
use part_waits::PartWaits;

/// A relay, ready to run.
pub struct Relay {
    shared: Arc<Shared>,
}

/// What a relay's tasks have in common.
struct Shared {
    name: String,
    broker: Option<&'static str>,
    store: Arc<dyn OutboxStore>,
    publisher: Arc<dyn Publisher>,
    router: Router,
    config: Config,
    dial: Dial,
    metrics: OutboxMetrics,
    health: Health,
    breaker: Arc<Breaker>,
    crew: Crew,
    /// Whoever has it may send a record that is larger than its share of the bytes.
    large: Mutex<()>,
    part_waits: PartWaits,
    journal: Journal,
    /// Shortens the wait for new records; polling is the truth.
    wake: Arc<Notify>,
}

/// Puts a relay together. Everything but the store, the publisher and the router has a default.
pub struct Builder {
    name: String,
    broker: Option<&'static str>,
    store: Arc<dyn OutboxStore>,
    publisher: Arc<dyn Publisher>,
    router: Router,
    config: Config,
    metrics: Metrics,
    wake: Arc<Notify>,
}

impl Relay {
    pub fn builder(
        store: Arc<dyn OutboxStore>,
        publisher: Arc<dyn Publisher>,
        router: Router,
    ) -> Builder {
        Builder {
            name: "outbox".into(),
            broker: None,
            store,
            publisher,
            router,
            config: Config::default(),
            metrics: Metrics::new(),
            wake: Arc::default(),
        }
    }

    /// Whether the database and the broker answer; stays valid while the relay runs.
    pub fn health(&self) -> Health {
        self.shared.health.clone()
    }

    /// What the relay has done so far; stays valid while the relay runs, and after it.
    pub fn monitor(&self) -> Monitor {
        Monitor {
            metrics: self.shared.metrics.clone(),
            breaker: self.shared.breaker.clone(),
            journal: self.shared.journal.clone(),
        }
    }

    /// Changes how much is claimed at a time and how often is asked; stays valid while the relay runs.
    pub fn dial(&self) -> Dial {
        self.shared.dial.clone()
    }

    /// Runs until `shutdown` is cancelled. Then it claims nothing more, lets what is in flight
    /// finish within `stop_timeout`, releases the rest and returns.
    ///
    /// An unreachable database or broker at the start is no error: the relay waits for it. A table that does not
    /// fit the layout is.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), RelayError> {
        match self.shared.store.open().await {
            Ok(()) => {}
            Err(StoreError::Unavailable { reason, .. }) => {
                self.shared.health.database_down(&reason)
            }
            Err(error) => {
                return Err(RelayError::Start {
                    outbox: self.shared.name.clone(),
                    error,
                });
            }
        }
        let tasks = self.start(&shutdown);
        tracing::info!(
            outbox = self.shared.name,
            claims = self.shared.config.claims,
            "relay runs"
        );
        let end = watch(tasks, &shutdown, &self.shared).await;
        tracing::info!(outbox = self.shared.name, "relay stopped");
        end
    }

    fn start(&self, shutdown: &CancellationToken) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for index in 0..self.shared.config.claims {
            tasks.spawn(worker::run(self.shared.clone(), index, shutdown.clone()));
        }
        tasks.spawn(probe::probe(self.shared.clone(), shutdown.clone()));
        let (shared, stop) = (self.shared.clone(), shutdown.clone());
        tasks.spawn(async move {
            tend(&shared.name, &*shared.store, &shared.config, &stop).await;
        });
        tasks.spawn(cleaner::sample_backlog(
            self.shared.clone(),
            shutdown.clone(),
        ));
        if let Some(cleanup) = self.shared.config.cleanup {
            tasks.spawn(cleaner::clean(
                self.shared.clone(),
                cleanup,
                shutdown.clone(),
            ));
        }
        tasks
    }
}

/// Waits for the end of all tasks. They end by themselves only after `shutdown`; a panic in one of
/// them stops the relay, because a relay that half works is not noticed.
async fn watch(
    mut tasks: JoinSet<()>,
    shutdown: &CancellationToken,
    shared: &Shared,
) -> Result<(), RelayError> {
    let all_ended = async {
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|_| RelayError::Panicked {
                outbox: shared.name.clone(),
            })?;
        }
        Ok(())
    };
    let give_up = async {
        shutdown.cancelled().await;
        tokio::time::sleep(shared.config.stop_timeout).await;
    };
    tokio::select! {
        ended = all_ended => ended,
        () = give_up => {
            tracing::warn!(
                outbox = shared.name, stop_timeout = ?shared.config.stop_timeout,
                "stopped with records in flight; they are released and will be sent again"
            );
            Ok(())
        }
    }
}

impl Builder {
    /// What logs and metrics call this outbox.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What spans call the broker: `kafka`, `gcp_pubsub`, as OpenTelemetry names messaging systems.
    #[must_use]
    pub fn broker(mut self, system: &'static str) -> Self {
        self.broker = Some(system);
        self
    }

    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// A hint that there may be new records: from LISTEN, or from the service in the same process.
    #[must_use]
    pub fn wake(mut self, wake: Arc<Notify>) -> Self {
        self.wake = wake;
        self
    }

    pub fn build(self) -> Relay {
        let metrics = self.metrics.of(&self.name);
        let health = Health::new();
        self.metrics.watch(&self.name, &health);
        let shared = Shared {
            breaker: Arc::new(Breaker::new(self.config.outage_backoff, metrics.clone())),
            crew: Crew::new(self.config.claims),
            large: Mutex::default(),
            part_waits: PartWaits::default(),
            journal: Journal::default(),
            name: self.name,
            broker: self.broker,
            store: self.store,
            publisher: self.publisher,
            router: self.router,
            dial: Dial::new(&self.config),
            config: self.config,
            metrics,
            health,
            wake: self.wake,
        };
        Relay {
            shared: Arc::new(shared),
        }
    }
}

/// Why a relay ended other than by being told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    #[error("outbox {outbox} cannot be relayed")]
    Start {
        outbox: String,
        #[source]
        error: StoreError,
    },
    #[error("a task of outbox {outbox} panicked; this is a bug, and the log says where")]
    Panicked { outbox: String },
}
