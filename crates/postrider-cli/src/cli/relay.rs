//! `postrider relay`: every outbox of the config, in one process, until a signal.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use postrider::core::{Finding, Level, StoreError};
use postrider::{Metrics, Relay};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ConfigArgs;
use super::signals::Signals;
use crate::admin::{self, Admin, Managed};
use crate::config::{Config, Outbox};
use crate::telemetry;
use crate::wiring::{self, Publishers, Store};

/// Between two looks at a table whose database did not answer.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = args.config.load()?;
    let exporting = telemetry::start(&config.log, &config.telemetry)?;
    let stop = CancellationToken::new();
    tokio::spawn(Signals::listen()?.stop_on_first_and_exit_on_second(stop.clone()));

    let metrics = Metrics::new();
    let publishers = wiring::publishers(&config)?;
    let outboxes = outboxes(&config, &publishers, &metrics)?;
    let managed = managed(&config, &publishers, &outboxes);
    let admin = Admin::new(managed, metrics, &config.admin.tokens, stop.clone());
    drop(publishers);
    // The admin address answers until the last relay has stopped.
    let close = CancellationToken::new();
    let server = tokio::spawn(serve_admin(&config, admin, close.clone()).await?);
    let ended = relay_all(outboxes, &stop).await;
    close.cancel();
    server.await.context("the admin server panicked")?;
    if let Some(exporting) = exporting {
        exporting.shutdown().await;
    }
    ended.map(|()| ExitCode::SUCCESS)
}

type Wired = (String, Store, Relay);

fn outboxes(
    config: &Config,
    publishers: &Publishers,
    metrics: &Metrics,
) -> anyhow::Result<Vec<Wired>> {
    let wire = |outbox: &Outbox| {
        let store = wiring::relay_store(outbox)?;
        let relay = wiring::relay(config, outbox, store.clone(), publishers, metrics)?;
        Ok((outbox.name.clone(), store, relay))
    };
    config.outboxes.iter().map(wire).collect()
}

/// The outboxes as the admin address shows them.
fn managed(config: &Config, publishers: &Publishers, wired: &[Wired]) -> Vec<Managed> {
    let managed = |(outbox, (_, store, relay)): (&Outbox, &Wired)| {
        Managed::new(admin::Parts {
            name: &outbox.name,
            layout: &outbox.layout,
            broker: &outbox.broker,
            relay,
            store: store.clone(),
            router: wiring::router(outbox),
            payload_bytes_max: config
                .brokers
                .get(&outbox.broker)
                .map(wiring::payload_bytes_max),
            publisher: Box::new(wiring::spare_publisher(config, outbox, publishers)),
        })
    };
    std::iter::zip(&config.outboxes, wired)
        .map(managed)
        .collect()
}

async fn serve_admin(
    config: &Config,
    admin: Admin,
    close: CancellationToken,
) -> anyhow::Result<impl Future<Output = ()> + use<>> {
    let listen = config.admin.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("admin.listen {listen} cannot be opened; is another relay running?")
    })?;
    let address = listener
        .local_addr()
        .context("the admin address is unknown")?;
    tracing::info!(%address, "admin address is open");
    Ok(admin::serve(listener, admin, close))
}

/// Runs until all have stopped. When one fails the others are stopped too: half a process is not noticed.
async fn relay_all(outboxes: Vec<Wired>, stop: &CancellationToken) -> anyhow::Result<()> {
    let mut running = JoinSet::new();
    for (name, store, relay) in outboxes {
        running.spawn(relay_one(name, store, relay, stop.clone()));
    }
    let mut first_failure = Ok(());
    while let Some(ended) = running.join_next().await {
        let ended = ended.context("a relay panicked").flatten();
        if ended.is_err() {
            stop.cancel();
            first_failure = first_failure.and(ended);
        }
    }
    first_failure
}

/// A table that does not fit its layout is refused. While the database does not answer, the relay
/// runs and waits for it, and the table is looked at as soon as it can be.
async fn relay_one(
    name: String,
    store: Store,
    relay: Relay,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let fits = match store.check().await {
        Ok(findings) => {
            judge(&name, &findings)?;
            None
        }
        Err(StoreError::Unavailable { .. }) => Some(fits_later(&name, &store, &stop)),
        Err(error) => {
            return Err(error).with_context(|| format!("outbox {name} cannot be checked"));
        }
    };
    let late = async {
        match fits {
            Some(fits) => fits.await.inspect_err(|_| stop.cancel()),
            None => Ok(()),
        }
    };
    let (ran, late) = tokio::join!(relay.run(stop.clone()), late);
    late?;
    ran.with_context(|| format!("outbox {name} stopped"))
}

async fn fits_later(name: &str, store: &Store, stop: &CancellationToken) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(CHECK_AGAIN) => {}
            () = stop.cancelled() => return Ok(()),
        }
        match store.check().await {
            Ok(findings) => return judge(name, &findings),
            Err(StoreError::Unavailable { .. }) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("outbox {name} cannot be checked"));
            }
        }
    }
}

/// Logs what was found; refuses what is an error.
fn judge(outbox: &str, findings: &[Finding]) -> anyhow::Result<()> {
    for Finding {
        level,
        subject,
        message,
        remedy,
    } in findings
    {
        match level {
            Level::Error => anyhow::bail!(
                "outbox {outbox} does not fit its layout: {subject}: {message}; {}",
                remedy.as_deref().unwrap_or("`postrider check` says more")
            ),
            Level::Warning => tracing::warn!(outbox, subject, remedy, "{message}"),
            Level::Note => tracing::debug!(outbox, subject, remedy, "{message}"),
        }
    }
    Ok(())
}
