//! `process-orders`: the whole set-up of the plan in one process. Orders are typed in: `abc-123 lamp 3` is the message
//! `abc-123`, which orders three lamps.

use async_trait::async_trait;
use bytes::Bytes;
use clap::{Parser, ValueEnum};
use example_gopipe::broker::Broker;
use example_gopipe::orders::{self, COMMANDS, EVENTS, PlaceOrder, place_order};
use example_gopipe::{
    CleanupConfig, InboxConfig, OutboxConfig, OutboxPublisherConfig, init_inbox, init_outbox,
    init_publisher, pipe, router, start_cleanup,
};
use postrider::brokers::memory::MemoryBroker;
use postrider::consumer::{Consumer, Context, Middleware, Next, raw};
use postrider::core::layout::TableName;
use postrider::core::{Event, Handled, HandlerError};
use postrider::stores::postgres::{self, PgPool, Tx};
use postrider::{Metrics, Relay};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    #[arg(long, default_value = "memory")]
    broker: Kind,
    /// Addresses of Kafka brokers
    #[arg(long, env = "KAFKA", default_value = "127.0.0.1:9092")]
    kafka: String,
    /// Where commands come from
    #[arg(long, default_value = COMMANDS)]
    commands: String,
    /// Where events go
    #[arg(long, default_value = EVENTS)]
    events: String,
    #[arg(long, default_value = "processed_messages", value_parser = table)]
    inbox_table: TableName,
    #[arg(long, default_value = "outbox", value_parser = table)]
    outbox_table: TableName,
    /// How rows reach the broker
    #[arg(long, default_value = "relay")]
    publish: Publish,
    /// Create the tables and end
    #[arg(long)]
    init: bool,
}

fn table(name: &str) -> Result<TableName, String> {
    name.to_owned().try_into()
}

#[derive(Clone, Copy, ValueEnum)]
enum Publish {
    /// In batches
    Relay,
    /// As a stream of messages, each of which is acknowledged
    Source,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Memory,
    Kafka,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| "warn".into()))
        .with_writer(std::io::stderr)
        .init();
    let cli = Cli::parse();
    let shutdown = CancellationToken::new();
    let told = shutdown.clone();
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        told.cancel();
    });
    process_orders(cli, shutdown).await
}

/// The plan's end-to-end set-up.
async fn process_orders(cli: Cli, shutdown: CancellationToken) -> anyhow::Result<()> {
    let pool = postgres::connect(&cli.database_url, 16)?;
    let broker = match cli.broker {
        Kind::Memory => Broker::Memory(MemoryBroker::default()),
        Kind::Kafka => Broker::kafka(&cli.kafka)?,
    };

    // Schemas, once, at startup.
    let mut inbox = InboxConfig::new("order-service");
    inbox.table = cli.inbox_table.clone();
    let outbox = OutboxConfig::new(&cli.events)?.table(cli.outbox_table.clone());
    init_inbox(&pool, &inbox).await?;
    init_outbox(&pool, &outbox).await?;
    init_publisher(&pool, &outbox).await?;
    orders::init(&pool).await?;
    if cli.init {
        return Ok(());
    }
    broker.create_topics(&[&cli.commands, &cli.events]).await?;

    // The router with the full stack of middlewares.
    let commands = broker.subscribe("order-service", &cli.commands)?;
    let service = Consumer::builder("order-service", commands).with(Narrate);
    let service = router(service, &pool, &inbox, &outbox).handle(place_order);

    // Somebody who reads the events. It has entries of its own in the same inbox.
    let mut mailer = inbox.clone();
    mailer.subscriber = "mailer".into();
    let events = broker.subscribe("mailer", &cli.events)?;
    let reader = router(Consumer::builder("mailer", events), &pool, &mailer, &outbox);
    let reader = reader.handle(raw(print));

    // Clean-up, a task per table.
    let clean = |config| start_cleanup(pool.clone(), config, shutdown.clone());
    let inbox_cleanup = clean(CleanupConfig::inbox(&inbox));
    let outbox_cleanup = clean(CleanupConfig::outbox(&outbox));

    println!("ready: type a message id, an item and a quantity, for example: abc-123 lamp 3");
    let publisher = publish(cli.publish, &pool, &outbox, &broker, shutdown.clone());
    let (ended, _, _, _) = tokio::join!(
        run_all(service, reader, publisher, &shutdown),
        inbox_cleanup,
        outbox_cleanup,
        take_orders(&broker, &cli.commands, &shutdown),
    );
    ended
}

/// The outbox publisher, in either of its forms.
async fn publish(
    how: Publish,
    pool: &PgPool,
    outbox: &OutboxConfig,
    broker: &Broker,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (config, metrics) = (OutboxPublisherConfig::default(), Metrics::new());
    match how {
        Publish::Relay => {
            let relay: Relay = config.publisher(pool.clone(), outbox, broker.publisher(), &metrics);
            Ok(relay.run(shutdown).await?)
        }
        Publish::Source => {
            let (source, messages) = config.source(pool.clone(), outbox, &metrics);
            let (ended, ()) =
                tokio::join!(source.run(shutdown), pipe(messages, broker.publisher()));
            Ok(ended?)
        }
    }
}

/// Until all have stopped; if one ends, so do the others.
async fn run_all(
    service: Consumer,
    reader: Consumer,
    publisher: impl Future<Output = anyhow::Result<()>>,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let stopping = || shutdown.clone().drop_guard();
    let service = async {
        let _stop = stopping();
        service.run(shutdown.clone()).await
    };
    let reader = async {
        let _stop = stopping();
        reader.run(shutdown.clone()).await
    };
    let publisher = async {
        let _stop = stopping();
        publisher.await
    };
    let (service, reader, publisher) = tokio::join!(service, reader, publisher);
    service?;
    reader?;
    publisher
}

/// Sends what is typed, until `shutdown`; the end of the input ends nothing.
async fn take_orders(broker: &Broker, topic: &str, shutdown: &CancellationToken) {
    let (sender, mut lines) = mpsc::channel(1);
    // Reading a terminal blocks, and nothing can be done about it: this thread ends with the process.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(Some(line)) = shutdown.run_until_cancelled(lines.recv()).await {
        let sent = match parse(&line) {
            Some((id, command)) => broker.send(topic, id, &command).await,
            None => Err(anyhow::anyhow!("not an order: {line}")),
        };
        if let Err(error) = sent {
            println!("{error:#}");
        }
    }
    shutdown.cancelled().await;
}

fn parse(line: &str) -> Option<(&str, PlaceOrder)> {
    let mut words = line.split_whitespace();
    let (id, item, quantity) = (words.next()?, words.next()?.to_owned(), words.next()?);
    let quantity = quantity.parse().ok()?;
    Some((id, PlaceOrder { item, quantity }))
}

/// A middleware of one's own: says how each message ended.
struct Narrate;

#[async_trait]
impl Middleware for Narrate {
    async fn handle(&self, ctx: &mut Context, next: Next<'_, ()>) -> Result<Handled, HandlerError> {
        let result = next.run(ctx).await;
        let id = ctx.event_id().map_or("-", |id| id.as_str());
        match &result {
            Ok(Handled::Duplicate) => println!("{id}: handled before, skipped and acknowledged"),
            Ok(_) => println!("{id}: handled and acknowledged"),
            Err(error) => println!("{id}: given back: {error}"),
        }
        result
    }
}

async fn print(_: &mut Context<Tx>, event: Event<Bytes>) -> Result<(), HandlerError> {
    let text = String::from_utf8_lossy(&event.payload);
    println!("{} {}: {text}", event.event_type, event.id);
    Ok(())
}
