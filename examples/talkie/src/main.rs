//! One binary, two modes: the application with its outbox module, or the module alone. Beside them the commands of an
//! operator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use example_talkie::chat::{self, Chat};
use example_talkie::{OutboxModule, OutboxSettings, SettingsFile, dead, http, operational, reader};
use postrider::Metrics;
use postrider::brokers::kafka::{
    KafkaConfig, KafkaPublisher, KafkaSubscription, KafkaSubscriptionConfig,
};
use postrider::stores::postgres::{self, PgPool};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long a stop waits for requests that are under way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args)]
struct Settings {
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, global = true)]
    database_url: Option<String>,
    /// Addresses of Kafka brokers
    #[arg(long, env = "KAFKA", global = true)]
    kafka: Option<String>,
    /// Where to listen
    #[arg(
        long,
        env = "TALKIE_LISTEN",
        global = true,
        default_value = "127.0.0.1:8086"
    )]
    listen: SocketAddr,
    /// The outbox's settings, read again on SIGHUP
    #[arg(long, env = "TALKIE_SETTINGS", value_name = "FILE", global = true)]
    settings: Option<PathBuf>,
    /// Where messages go
    #[arg(long, env = "TALKIE_TOPIC", global = true, default_value = chat::TOPIC)]
    topic: String,
}

#[derive(Subcommand)]
enum Command {
    /// The application, with the outbox module in it
    App {
        /// Leave publishing to `talkie publisher`
        #[arg(long)]
        no_publisher: bool,
    },
    /// The outbox module alone
    Publisher,
    /// Somebody who reads the chat from Kafka, and is shown each message once
    Reader,
    /// Dead letters
    #[command(subcommand)]
    Dead(dead::Command),
    /// Run the two operational queries
    Queries,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| "info,sqlx=warn".into()))
        .with_writer(std::io::stderr)
        .init();
    let Cli { settings, command } = Cli::parse();
    let pool = settings.pool()?;
    match command {
        Command::App { no_publisher } => {
            Chat::init(&pool).await?;
            OutboxModule::init(&pool).await?;
            run(&settings, pool, true, !no_publisher).await
        }
        Command::Publisher => run(&settings, pool, false, true).await,
        Command::Reader => {
            reader::init(&pool).await?;
            let stop = CancellationToken::new();
            let mut signals = Signals::listen()?;
            let reader = reader::reader(pool, settings.subscription()?);
            let told = async {
                signals.told_to_stop().await;
                stop.cancel();
            };
            let (ended, ()) = tokio::join!(reader.run(stop.clone()), told);
            Ok(ended?)
        }
        Command::Dead(command) => {
            let store = OutboxModule::store(pool, &settings.file().read().await?)?;
            dead::run(&command, &store, &mut std::io::stdout()).await
        }
        Command::Queries => operational::print(&pool, &mut std::io::stdout()).await,
    }
}

impl Settings {
    fn pool(&self) -> anyhow::Result<PgPool> {
        let url = self.database_url.as_ref().context("set DATABASE_URL")?;
        Ok(postgres::connect(url, 8)?)
    }

    fn publisher(&self, outbox: &OutboxSettings) -> anyhow::Result<Arc<KafkaPublisher>> {
        let mut config = KafkaConfig::new(self.kafka.as_ref().context("set KAFKA")?);
        config.message_bytes_max = outbox.message_bytes_max;
        config.linger_ms = outbox.linger_ms;
        Ok(Arc::new(KafkaPublisher::new(config)?))
    }

    /// A group of one topic, so that readers of another have nothing to do with it.
    fn subscription(&self) -> anyhow::Result<Arc<KafkaSubscription>> {
        let config = KafkaConfig::new(self.kafka.as_ref().context("set KAFKA")?);
        let group = format!("{}.{}", reader::NAME, self.topic);
        let config = KafkaSubscriptionConfig::at(&config, &group, [self.topic.as_str()]);
        Ok(Arc::new(KafkaSubscription::new(config)?))
    }

    fn file(&self) -> SettingsFile {
        SettingsFile(self.settings.clone())
    }
}

/// Both modes: what differs is whether there is a chat to talk to, and whether the outbox module is here.
async fn run(settings: &Settings, pool: PgPool, app: bool, publish: bool) -> anyhow::Result<()> {
    let (mut signals, shutdown) = (Signals::listen()?, CancellationToken::new());
    let (file, metrics) = (settings.file(), Metrics::new());
    let outbox = file.read().await?;
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("{} cannot be opened", settings.listen))?;
    let mut module = match publish {
        true => Some(OutboxModule::start(
            pool.clone(),
            settings.publisher(&outbox)?,
            &outbox,
            &metrics,
        )?),
        false => None,
    };
    let mut router = http::operations(metrics.clone(), module.as_ref().map(OutboxModule::health));
    if app {
        router = router.merge(http::chat(Chat::new(pool, &settings.topic, &metrics)?));
    }
    tracing::info!(address = %listener.local_addr()?, "talkie listens");
    let server = tokio::spawn(http::serve(listener, router, shutdown.clone()));

    let ended = signals.follow(&file, module.as_mut()).await;
    shutdown.cancel();
    match tokio::time::timeout(CLOSE_TIMEOUT, server).await {
        Ok(served) => served??,
        Err(_) => tracing::warn!("connections were cut off"),
    }
    match (ended, module) {
        (Ok(()), Some(module)) => module.stop().await,
        (ended, _) => ended,
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn told_to_stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Until it is time to stop. SIGHUP reads the settings again; a file that makes no sense changes nothing.
    async fn follow(
        &mut self,
        file: &SettingsFile,
        mut module: Option<&mut OutboxModule>,
    ) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return Ok(()),
                _ = self.terminate.recv() => return Ok(()),
                _ = self.hangup.recv() => {}
                ended = ended(&mut module) => return ended,
            }
            match (file.read().await, &module) {
                (Ok(settings), Some(module)) => module.adjust(&settings),
                (Err(error), _) => tracing::error!("{error:#}; nothing is changed"),
                (Ok(_), None) => {}
            }
        }
    }
}

async fn ended(module: &mut Option<&mut OutboxModule>) -> anyhow::Result<()> {
    match module {
        Some(module) => module.ended().await,
        None => std::future::pending().await,
    }
}
