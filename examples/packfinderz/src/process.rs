//! What every program needs of its process: the environment, log lines, and to be told to stop.

use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

const LOG: &str = "PACKFINDERZ_LOG";
/// A line per published event too: that is how a duplicate is seen.
const DEFAULT_LOG: &str = "info,postrider::event=debug";

/// Runs a program to its end, which is good after SIGTERM, as Heroku and Docker send it, and after SIGINT.
pub async fn run(program: impl AsyncFnOnce(CancellationToken) -> anyhow::Result<()>) -> ExitCode {
    if let Err(error) = log() {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    let ended = async { program(shutdown()?).await };
    match ended.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(reason = format!("{error:#}"), "cannot run");
            ExitCode::FAILURE
        }
    }
}

/// The value of a variable of this process.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// JSON lines on stderr, as many as `PACKFINDERZ_LOG` says. No payload is ever in them.
fn log() -> anyhow::Result<()> {
    let directives = variable(LOG).filter(|value| !value.is_empty());
    let directives = directives.as_deref().unwrap_or(DEFAULT_LOG);
    let filter = EnvFilter::try_new(directives).with_context(|| format!("{LOG}={directives}"))?;
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}

/// Cancelled by the first signal.
fn shutdown() -> anyhow::Result<CancellationToken> {
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let shutdown = CancellationToken::new();
    let told = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::info!("told to stop");
        told.cancel();
    });
    Ok(shutdown)
}
