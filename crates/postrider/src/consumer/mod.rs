//! The consumer: takes deliveries from a subscription and passes each through a chain of middlewares to a handler.

mod builder;
mod chain;
mod config;
mod context;
mod dynamic;
mod handler;
pub mod middleware;
mod worker;

use std::sync::Arc;

use postrider_core::Subscription;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use builder::{Builder, Link};
pub use chain::{Handler, Middleware, Next};
pub use config::Config;
pub use context::Context;
pub use dynamic::{ChainError, Part};
pub use handler::{HandlerFn, Handlers, IntoHandler, Outputs, Raw, WithState, raw, with_state};

use crate::health::Health;
use builder::Parts;
use chain::Chain;
use context::Origin;

/// A consumer, ready to run.
pub struct Consumer {
    parts: Parts,
    chain: Chain<()>,
    health: Health,
}

/// What a consumer's workers have in common.
struct Shared {
    subscription: Arc<dyn Subscription>,
    chain: Chain<()>,
    config: Config,
    batch: usize,
    origin: Origin,
    health: Health,
}

impl Consumer {
    /// The name is the inbox's subscriber, and what logs and metrics call the consumer. It must stay the same
    /// over restarts.
    pub fn builder(name: impl Into<Arc<str>>, subscription: Arc<dyn Subscription>) -> Builder {
        Builder::new(name.into(), subscription)
    }

    fn new(parts: Parts, chain: Chain<()>) -> Self {
        Self {
            parts,
            chain,
            health: Health::of_consumer(),
        }
    }

    /// Whether the broker, and whatever the handler needs, answer; stays valid while the consumer runs.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Runs until `shutdown` is cancelled. Then it takes nothing more, finishes what it has within `stop_timeout`,
    /// gives back the rest, and leaves.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), ConsumerError> {
        let Self {
            parts,
            chain,
            health,
        } = self;
        let name = parts.name.clone();
        let shared = Arc::new(Shared {
            subscription: parts.subscription,
            chain,
            config: parts.config,
            batch: parts.batch,
            origin: Origin {
                consumer: name.clone(),
                opening: parts.config.opening,
                shutdown: shutdown.clone(),
                metrics: parts.metrics.of_consumer(&name),
            },
            health,
        });
        let mut tasks = JoinSet::new();
        for _ in 0..shared.config.workers.max(1) {
            tasks.spawn(worker::run(shared.clone()));
        }
        tracing::info!(
            consumer = &*name,
            workers = shared.config.workers,
            "consumer runs"
        );
        let ended = finish(tasks, &shared).await;
        tracing::info!(consumer = &*name, "consumer stopped");
        ended
    }
}

/// Waits for the workers' end, which comes after `shutdown` only, and leaves the broker in good order. A panic stops
/// the consumer: one that half works is not noticed.
async fn finish(mut tasks: JoinSet<()>, shared: &Shared) -> Result<(), ConsumerError> {
    let name = &shared.origin.consumer;
    let all_ended = async {
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|_| ConsumerError::Panicked {
                consumer: name.to_string(),
            })?;
        }
        match shared.origin.shutdown.is_cancelled() {
            true => Ok(()),
            false => Err(ConsumerError::Closed {
                consumer: name.to_string(),
            }),
        }
    };
    let give_up = async {
        shared.origin.shutdown.cancelled().await;
        tokio::time::sleep(shared.config.stop_timeout).await;
    };
    let ended = tokio::select! {
        ended = all_ended => ended,
        () = worker::watch_lag(shared) => Ok(()),
        () = give_up => {
            tracing::warn!(
                consumer = &**name, stop_timeout = ?shared.config.stop_timeout,
                "stopped with deliveries in hand; they are given back"
            );
            Ok(())
        }
    };
    tasks.shutdown().await;
    // Nothing is in hand any more, so this need not wait for anything but the broker.
    shared.subscription.close(shared.config.stop_timeout).await;
    ended
}

/// Why a consumer ended other than by being told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    #[error("the subscription of consumer {consumer} was closed by somebody else")]
    Closed { consumer: String },
    #[error("a task of consumer {consumer} panicked; this is a bug, and the log says where")]
    Panicked { consumer: String },
}
