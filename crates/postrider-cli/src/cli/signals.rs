//! SIGTERM and SIGINT, for verbs that run until they are told to stop.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be received");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn stop_on_first_and_exit_on_second(mut self, stop: CancellationToken) {
        let signal = self.next().await;
        tracing::info!(signal, "stopping; a second signal stops at once");
        stop.cancel();
        let signal = self.next().await;
        tracing::warn!(
            signal,
            "stopped at once; what was in flight will be sent again"
        );
        std::process::exit(128 + signal);
    }

    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
        }
    }
}
