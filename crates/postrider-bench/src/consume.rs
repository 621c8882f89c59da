//! An inbox consumer on Kafka whose handler writes one row, beside a bare loop that inserts the same rows in
//! transactions of the same size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use postrider::brokers::kafka::{
    KafkaConfig, KafkaPublisher, KafkaSubscription, KafkaSubscriptionConfig,
};
use postrider::consumer::middleware::{Ack, Inbox, Transaction};
use postrider::consumer::{Config, Consumer, Context, raw, with_state};
use postrider::core::{Event, HandlerError, Header, Message, MessageKey, Publisher as _, Topic};
use postrider::stores::postgres::{
    self, InboxLayout, PgConnection, PgInbox, PgPool, PgTransactions, Tx,
};
use tokio_util::sync::CancellationToken;

use crate::report::{Figures, Report, Subject};
use crate::{usage, workload};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Events in the topic.
    #[arg(long, default_value_t = 40_000)]
    events: u32,
    /// Bytes of a payload, about.
    #[arg(long, default_value_t = 500)]
    bytes: u32,
    /// Rounds; the median of each figure is compared.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Deliveries that share a transaction in the batch modes.
    #[arg(long, default_value_t = 100)]
    batch: usize,
    /// Workers of the consumer, connections of the bare loop. More of them share the cost of a commit.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    #[arg(long, env = "POSTRIDER_TEST_POSTGRES_URL")]
    postgres: String,
    #[arg(long, env = "POSTRIDER_TEST_KAFKA")]
    kafka: String,
}

#[derive(clap::Args, Clone)]
pub(crate) struct Child {
    #[arg(long)]
    postgres: String,
    #[arg(long)]
    kafka: String,
    #[arg(long)]
    topic: String,
    #[arg(long)]
    schema: String,
    #[arg(long)]
    events: u32,
    #[arg(long)]
    bytes: u32,
    #[arg(long)]
    batch: usize,
    #[arg(long)]
    workers: usize,
    /// Insert without a broker.
    #[arg(long)]
    bare: bool,
}

pub(crate) async fn bench(args: &Args) -> anyhow::Result<()> {
    let mut report = Report::new(Subject {
        bench: "consume",
        records: args.events,
        bytes: args.bytes,
        limit: "bare, batch",
        pairs: &[
            (
                "consumer, batch",
                "consumer, single",
                "the same consumer one by one",
            ),
            (
                "consumer, batch",
                "bare, batch",
                "the bare loop with the same batches",
            ),
            (
                "consumer, single",
                "bare, single",
                "the bare loop one by one",
            ),
        ],
    });
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        let topic = fill(args).await?;
        // One by one is slow; a part is enough for its rate.
        let part = args.events / 5;
        for (name, bare, batch, events) in [
            ("bare, single", true, 1, part),
            ("consumer, single", false, 1, part),
            ("bare, batch", true, args.batch, args.events),
            ("consumer, batch", false, args.batch, args.events),
        ] {
            let schema = format!("bench_{}", workload::suffix());
            let child = Child {
                postgres: args.postgres.clone(),
                kafka: args.kafka.clone(),
                topic: topic.clone(),
                schema,
                events,
                bytes: args.bytes,
                batch,
                workers: args.workers,
                bare,
            };
            report.add(name, measure(&child).await?);
        }
    }
    report.print()
}

/// A topic with all the events.
async fn fill(args: &Args) -> anyhow::Result<String> {
    let name = format!("bench_consume_{}", workload::suffix());
    workload::create_topic(&args.kafka, &name).await?;
    let publisher = KafkaPublisher::new(KafkaConfig::new(&args.kafka))?;
    let topic = Topic::from(name.as_str());
    let messages: Vec<Message> = (0..args.events)
        .map(|n| Message {
            topic: topic.clone(),
            key: Some(MessageKey::from(format!("key-{}", n % 10_000))),
            ordered: true,
            payload: Some(payload(n, args.bytes).into_bytes().into()),
            headers: vec![Header::new("event_id", format!("event-{n}"))],
        })
        .collect();
    for chunk in messages.chunks(5_000) {
        for sent in publisher.publish(chunk, Duration::from_secs(60)).await {
            sent?;
        }
    }
    Ok(name)
}

fn payload(n: u32, bytes: u32) -> String {
    let filler = "x".repeat(bytes.saturating_sub(30) as usize);
    format!(r#"{{"n":{n},"note":"{filler}"}}"#)
}

/// Runs a child on tables of its own.
async fn measure(child: &Child) -> anyhow::Result<Figures> {
    let pool = postgres::connect(&child.postgres, 2)?;
    let schema = &child.schema;
    workload::execute(&pool, &format!("CREATE SCHEMA {schema}")).await?;
    let effects = format!(
        "CREATE TABLE {schema}.effects (n bigserial PRIMARY KEY, event text, payload text)"
    );
    workload::execute(&pool, &effects).await?;
    postgres::inbox::init(&pool, &inbox(schema)?).await?;
    workload::execute(&pool, "CHECKPOINT").await?;
    let (batch, workers) = (child.batch.to_string(), child.workers.to_string());
    let (events, bytes) = (child.events.to_string(), child.bytes.to_string());
    let mut arguments = vec![
        "apply",
        "--postgres",
        &child.postgres,
        "--kafka",
        &child.kafka,
    ];
    arguments.extend(["--topic", &child.topic, "--schema", schema]);
    arguments.extend(["--events", &events, "--bytes", &bytes]);
    arguments.extend(["--batch", &batch, "--workers", &workers]);
    arguments.extend(child.bare.then_some("--bare"));
    let figures = usage::measure_child(arguments).await?;
    let count = format!("SELECT count(*) FROM {schema}.effects");
    let applied: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(count))
        .fetch_one(&pool)
        .await?;
    anyhow::ensure!(
        applied >= i64::from(child.events),
        "applied {applied} of {}",
        child.events
    );
    workload::execute(&pool, &format!("DROP SCHEMA {schema} CASCADE")).await?;
    Ok(figures)
}

fn inbox(schema: &str) -> anyhow::Result<InboxLayout> {
    let mut layout = InboxLayout::gopipe();
    layout.table = format!("{schema}.processed_messages")
        .try_into()
        .map_err(anyhow::Error::msg)?;
    Ok(layout)
}

/// The process of its own: applies the events and prints one line of JSON.
pub(crate) async fn apply(child: Child) -> anyhow::Result<()> {
    let pool = postgres::connect(&child.postgres, u32::try_from(child.workers)? + 2)?;
    let per_sec = if child.bare {
        insert_all(&child, &pool).await?
    } else {
        consume_all(&child, pool).await?
    };
    let line = serde_json::json!({
        "per_sec": per_sec, "cpu_secs": usage::own_cpu_secs(), "peak_mb": usage::own_peak_mb(),
    });
    println!("{line}");
    Ok(())
}

/// What a handler here needs.
#[derive(Clone)]
struct State {
    insert: Arc<str>,
    applied: Arc<AtomicU32>,
}

async fn write_row(
    state: State,
    ctx: &mut Context<Tx>,
    event: Event<Bytes>,
) -> Result<(), HandlerError> {
    insert(ctx.tx(), &state.insert, event.id.as_str(), &event.payload).await?;
    ctx.on_commit(move || {
        state.applied.fetch_add(1, Ordering::Relaxed);
    });
    Ok(())
}

async fn insert(
    connection: &mut PgConnection,
    insert: &str,
    event: &str,
    payload: &[u8],
) -> Result<(), sqlx::Error> {
    sqlx::query(sqlx::AssertSqlSafe(insert))
        .bind(event)
        .bind(String::from_utf8_lossy(payload))
        .execute(connection)
        .await?;
    Ok(())
}

/// Counted from the first effect on, so that joining the group is not in it.
async fn consume_all(child: &Child, pool: PgPool) -> anyhow::Result<f64> {
    let config = KafkaSubscriptionConfig::new(&child.kafka, &child.schema, [&*child.topic]);
    let subscription = Arc::new(KafkaSubscription::new(config)?);
    let state = State {
        insert: effect(&child.schema).into(),
        applied: Arc::default(),
    };
    let applied = state.applied.clone();
    let consumer = Consumer::builder("bench", subscription)
        .config(Config {
            workers: child.workers,
            ..Config::default()
        })
        .with(Ack::default())
        .with(Transaction::new(PgTransactions::new(pool)).batch(child.batch))
        .with(Inbox::new(PgInbox::new(inbox(&child.schema)?)))
        .handle(raw(with_state(state, write_row)));
    let shutdown = CancellationToken::new();
    let watch = async {
        let mut begun = None;
        loop {
            let done = applied.load(Ordering::Relaxed);
            if done > 0 {
                let (since, before) = *begun.get_or_insert((Instant::now(), done));
                if done >= child.events {
                    shutdown.cancel();
                    return f64::from(done - before) / Instant::elapsed(&since).as_secs_f64();
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let (ended, per_sec) = tokio::join!(consumer.run(shutdown.clone()), watch);
    ended?;
    Ok(per_sec)
}

/// The same rows with the same statements and as many connections, and nothing else.
async fn insert_all(child: &Child, pool: &PgPool) -> anyhow::Result<f64> {
    let (effect, admit) = (effect(&child.schema), admit(&child.schema));
    let next = AtomicU32::new(0);
    let start = Instant::now();
    let work = (0..child.workers).map(|_| async {
        let size = u32::try_from(child.batch)?;
        loop {
            let first = next.fetch_add(size, Ordering::Relaxed);
            if first >= child.events {
                return anyhow::Ok(());
            }
            let mut tx = pool.begin().await?;
            for n in first..(first + size).min(child.events) {
                let event = format!("event-{n}");
                let entry = sqlx::query(sqlx::AssertSqlSafe(&*admit)).bind(&event);
                entry.execute(&mut *tx).await?;
                insert(&mut tx, &effect, &event, payload(n, child.bytes).as_bytes()).await?;
            }
            tx.commit().await?;
        }
    });
    futures::future::try_join_all(work).await?;
    Ok(f64::from(child.events) / start.elapsed().as_secs_f64())
}

fn effect(schema: &str) -> String {
    format!("INSERT INTO {schema}.effects (event, payload) VALUES ($1, $2)")
}

fn admit(schema: &str) -> String {
    format!(
        "INSERT INTO {schema}.processed_messages (subscriber, message_id) VALUES ('bench', $1) \
         ON CONFLICT DO NOTHING"
    )
}
