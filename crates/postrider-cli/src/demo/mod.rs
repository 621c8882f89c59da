//! `postrider demo`: an order service, a relay, two consumers and the dashboard in one process, to be looked at, tried out
//! and read. Everything but the admin address is made of the library's public API, as a service of your own would be.
//!
//! Begin with `orders` (emitting) and `consumers` (applying once). Which database and which broker it runs on is decided
//! here and nowhere else.

mod broker;
mod consumers;
mod database;
mod folder;
mod http;
mod orders;
mod samples;
mod settings;
mod stage;
mod welcome;
mod window;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context as _;
use postrider::brokers::memory::MemoryBroker;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::cli::UsageError;
use crate::config::{BrokerOptions, Config, Environment};
use crate::output;
use broker::Broker;
use database::{Database, Postgres, Sqlite};
use folder::Folder;
use settings::Settings;
use stage::Stage;
use welcome::{Welcome, farewell};

/// What can be asked of a demo.
pub(crate) struct Options {
    pub(crate) port: u16,
    /// Orders a second.
    pub(crate) rate: u32,
    pub(crate) dir: Option<PathBuf>,
    /// A server in place of the SQLite file.
    pub(crate) postgres: Option<String>,
    /// `host:port` of a cluster, in place of the broker in this process.
    pub(crate) kafka: Option<String>,
    pub(crate) topic: Option<String>,
}

/// A start of the demo, before it knows its database.
struct Start {
    listener: TcpListener,
    folder: Folder,
    settings: Settings,
    file: PathBuf,
    config: Config,
    rate: u32,
    stop: CancellationToken,
}

/// Runs until it is told to stop.
pub(crate) async fn run(options: Options, stop: CancellationToken) -> anyhow::Result<()> {
    // First of all, so that nothing is left behind where the port is taken.
    let listener = listen(options.port).await?;
    let folder = Folder::open(options.dir.as_deref())?;
    let settings = settings(&options, &folder, listener.local_addr()?)?;
    let file = folder.write_config(&settings.toml())?;
    // The relay does what the file says, so that what other verbs read there is true.
    let config = Config::load(&file, &Environment::default())?;
    let start = Start {
        listener,
        folder,
        settings,
        file,
        config,
        rate: options.rate,
        stop,
    };
    let outbox = &start.config.outboxes[0];
    match options.postgres {
        None => {
            let database = Sqlite::open(&start.settings.database, &outbox.layout)?;
            start.run(database).await
        }
        Some(_) => {
            let database = Postgres::open(&start.settings.database, &outbox.layout)?;
            start.run(database).await
        }
    }
}

impl Start {
    async fn run<D: Database>(self, database: D) -> anyhow::Result<()> {
        let broker = broker(&self.config)?;
        let stage = Stage::new(database, broker, &self.config, &self.settings.topic);
        let (found, created) = stage.prepare().await?;
        let welcome = Welcome {
            settings: &self.settings,
            folder: &self.folder,
            config: &self.file,
            rate: self.rate,
            found,
            created,
        };
        let welcome = welcome.text();
        let ended = stage
            .run(self.listener, self.rate, self.stop, || {
                output::text(&welcome)
            })
            .await;
        let farewell = farewell(&self.folder);
        self.folder.close()?;
        ended?;
        Ok(output::text(&farewell)?)
    }
}

async fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let bound = TcpListener::bind(address).await;
    if let Err(error) = &bound
        && error.kind() == ErrorKind::AddrInUse
    {
        let other = port.checked_add(1).unwrap_or(0);
        anyhow::bail!(
            "port {port} is taken, by another demo or a relay perhaps; choose another: --port {other}"
        );
    }
    bound.with_context(|| format!("{address} cannot be opened; choose another port by --port"))
}

fn settings(
    options: &Options,
    folder: &Folder,
    listen: SocketAddr,
) -> Result<Settings, anyhow::Error> {
    let database = match &options.postgres {
        None => folder.database()?,
        Some(url) => Postgres::in_schema(url)
            .map_err(|error| UsageError(format!("--postgres is no URL: {error}")))?,
    };
    let default = match options.kafka {
        None => "orders",
        // A cluster has other topics too.
        Some(_) => "postrider-demo.orders",
    };
    Ok(Settings {
        listen,
        database,
        kafka: options.kafka.clone(),
        topic: options.topic.clone().unwrap_or_else(|| default.into()),
    })
}

/// The broker that the config names.
fn broker(config: &Config) -> anyhow::Result<Broker> {
    match config.brokers.values().next().map(|broker| &broker.options) {
        Some(BrokerOptions::Memory(config)) => {
            Ok(Broker::Memory(MemoryBroker::new(config.clone())))
        }
        Some(BrokerOptions::Kafka(config)) => Ok(Broker::Kafka(config.clone())),
        _ => anyhow::bail!("the demo runs on Kafka or on a broker in its process"),
    }
}
