//! Asks database and broker how they are when nothing moves. Cycles report what they meet themselves.

use std::sync::Arc;
use std::time::Duration;

use postrider_core::text::chain;
use tokio_util::sync::CancellationToken;

use super::Shared;

/// No probe waits longer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pings both until the relay stops.
pub(super) async fn probe(shared: Arc<Shared>, shutdown: CancellationToken) {
    loop {
        let both = async { tokio::join!(probe_database(&shared), probe_broker(&shared)) };
        tokio::select! {
            _ = both => {}
            () = shutdown.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(shared.config.probe_every) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn probe_database(shared: &Shared) {
    shared.metrics.findings(shared.store.findings().len());
    match tokio::time::timeout(PROBE_TIMEOUT, shared.store.ping()).await {
        Ok(Ok(())) => shared.health.database_up(),
        Ok(Err(error)) => shared.health.database_down(&chain(&error)),
        Err(_) => shared.health.database_down("no answer within 5 s"),
    }
}

/// An answered ping says nothing about publishing, so it does not close an open breaker: the next
/// try does.
async fn probe_broker(shared: &Shared) {
    match shared.ping_broker().await {
        Ok(()) if shared.breaker.is_open() => {}
        Ok(()) => shared.health.broker_up(),
        Err(reason) => shared.health.broker_down(&reason),
    }
}

impl Shared {
    /// Whether the broker answers, within bounds, or why not.
    pub(super) async fn ping_broker(&self) -> Result<(), String> {
        match tokio::time::timeout(PROBE_TIMEOUT, self.publisher.ping()).await {
            Ok(answer) => answer.map_err(|error| chain(&error)),
            Err(_) => Err("no answer within 5 s".into()),
        }
    }
}
