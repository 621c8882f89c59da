//! What can be asked of the binary: one file per verb.

mod caller;
mod check;
mod cleanup;
mod completions;
mod dead;
mod demo;
mod healthcheck;
mod init;
mod layouts;
mod relay;
mod replay;
mod signals;
mod status;
mod stream;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{CONFIG_FILE, Config, ConfigError, Environment, Outbox};
use crate::{output, telemetry};

/// Moves events from outbox tables to brokers, at least once and in order per key.
#[derive(Parser)]
#[command(name = "postrider", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// See all of it at work: an order service, a relay, two consumers and the dashboard, with nothing to install
    Demo(demo::Args),
    /// Carry events to the brokers until SIGTERM or SIGINT
    Relay(relay::Args),
    /// Create what an outbox needs in its database, or print the statements
    Init(init::Args),
    /// Print the effective config and look for trouble in config, databases and brokers
    Check(check::Args),
    /// Count what waits and what is dead, from the tables; no relay is needed
    Status(status::Args),
    /// Ask the relay on this machine how it is; exit code 1 when it is not well
    Healthcheck(healthcheck::Args),
    /// Look at dead records, resend or discard them
    Dead(dead::Args),
    /// Send published records that are still stored again
    Replay(replay::Args),
    /// Compare an outbox with what its broker holds
    Verify(verify::Args),
    /// Delete published records that are old enough
    Cleanup(cleanup::Args),
    /// Look at the stream of an append-only outbox, or start it anew after a restore
    Stream(stream::Args),
    /// List the layouts that come with Postrider, or show one
    Layouts(layouts::Args),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Print the man page, or write a page for each verb
    Man(completions::ManArgs),
}

impl Cli {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        match self.verb {
            Verb::Relay(_) => {}
            Verb::Demo(_) => telemetry::start_quietly(demo::LOG),
            _ => telemetry::start_quietly(telemetry::QUIET),
        }
        match self.verb {
            Verb::Demo(args) => demo::run(args).await,
            Verb::Relay(args) => relay::run(args).await,
            Verb::Init(args) => init::run(args).await,
            Verb::Check(args) => check::run(args).await,
            Verb::Status(args) => status::run(args).await,
            Verb::Healthcheck(args) => healthcheck::run(args).await,
            Verb::Dead(args) => dead::run(args).await,
            Verb::Replay(args) => replay::run(args).await,
            Verb::Verify(args) => verify::run(args).await,
            Verb::Cleanup(args) => cleanup::run(args).await,
            Verb::Stream(args) => stream::run(args).await,
            Verb::Layouts(args) => layouts::run(args),
            Verb::Completions(args) => completions::completions(&args),
            Verb::Man(args) => completions::man(&args),
        }
    }
}

#[derive(Args)]
struct ConfigArgs {
    /// The config file
    #[arg(long, short, value_name = "FILE", env = "POSTRIDER_CONFIG", default_value = CONFIG_FILE)]
    config: PathBuf,
}

impl ConfigArgs {
    fn load(&self) -> Result<Config, ConfigError> {
        Config::load(&self.config, &Environment::of_process())
    }

    /// For a command that is suggested.
    fn option(&self) -> String {
        if self.config == Path::new(CONFIG_FILE) {
            return String::new();
        }
        format!(
            " --config {}",
            output::quoted(&self.config.to_string_lossy())
        )
    }
}

/// The outbox of that name, or all of them where none is named.
fn chosen<'a>(config: &'a Config, name: Option<&str>) -> Result<Vec<&'a Outbox>, UsageError> {
    let chosen: Vec<&Outbox> = config
        .outboxes
        .iter()
        .filter(|outbox| name.is_none_or(|name| outbox.name == name))
        .collect();
    match name {
        Some(name) if chosen.is_empty() => {
            let known: Vec<&str> = config.outboxes.iter().map(|outbox| &*outbox.name).collect();
            let known = known.join(", ");
            Err(UsageError(format!(
                "there is no outbox `{name}`; the config has {known}"
            )))
        }
        _ => Ok(chosen),
    }
}

/// The outbox of that name, or the only one.
fn one<'a>(config: &'a Config, name: Option<&str>) -> Result<&'a Outbox, UsageError> {
    match chosen(config, name)?.as_slice() {
        [outbox] => Ok(outbox),
        several => {
            let names: Vec<&str> = several.iter().map(|outbox| &*outbox.name).collect();
            let text = format!("name one outbox by --outbox: {}", names.join(", "));
            Err(UsageError(text))
        }
    }
}

/// The arguments cannot be followed. Exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);
