//! Rows filled with whatever their columns' types allow, one to fifty good ones: every good row is sent exactly once and
//! settled, every other one is sent, dead or reported.
//!
//! The values are drawn at random. A run that fails prints the command that shows it again;
//! `POSTRIDER_HOSTILE_CASE="column=name,column=name"` leaves these hostile values of all, and `POSTRIDER_HOSTILE_ROWS` sets
//! how many rows there are.

mod database;
mod numbers;
mod rows;
mod values;
mod watch;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use postrider::Relay;
use postrider::brokers::kafka::{KafkaConfig, KafkaPublisher};
use postrider::brokers::memory::{MemoryBroker, MemoryConfig};
use postrider::core::{
    Backoff, Layout, OnDead, Ordering, OutboxStore as _, Publisher, RetryPolicy, Router, Routes,
    Topic,
};
use postrider::relay::Config;
use postrider_testkit::eventually_within;
use postrider_testkit::kafka::Kafka;
use tokio_util::sync::CancellationToken;

use database::{Base, Row};
use rows::{GOOD, Hostile, Maker};
use watch::{Ends, Watched};

/// Rows of a run, about.
const ROWS: usize = 2_000;
/// Good rows to one hostile one.
const GOOD_TO_ONE: usize = 50;
/// How long all that may take. Nothing in a run waits for long by itself.
const PATIENCE: Duration = Duration::from_secs(60);
/// No row is sent more often than this, whatever the database says of it.
const SENT_MAX: u32 = 5;

macro_rules! runs {
    ($($name:ident: $preset:literal, $ordering:ident, $database:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let run = Run::new(stringify!($name), $preset, Ordering::$ordering);
            let base = Base::$database(&run.layout).await;
            run.on(&base).await;
        }
    )*};
}

runs! {
    packfinderz_in_postgres: "packfinderz", None, postgres;
    packfinderz_by_key_in_postgres: "packfinderz", Key, postgres;
    packfinderz_in_sqlite: "packfinderz", None, sqlite;
    packfinderz_by_key_in_sqlite: "packfinderz", Key, sqlite;
    talkie_in_postgres: "talkie", None, postgres;
    talkie_by_key_in_postgres: "talkie", Key, postgres;
    talkie_in_sqlite: "talkie", None, sqlite;
    talkie_by_key_in_sqlite: "talkie", Key, sqlite;
    polyshop_in_postgres: "polyshop", Key, postgres;
    polyshop_in_sqlite: "polyshop", Key, sqlite;
    gopipe_in_postgres: "gopipe", None, postgres;
    gopipe_in_sqlite: "gopipe", None, sqlite;
    debezium_in_postgres: "debezium", Key, postgres;
    debezium_in_sqlite: "debezium", Key, sqlite;
    native_in_postgres: "native", Key, postgres;
}

/// Tables of others have columns that may be NULL where ours may not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_in_which_everything_may_be_null() {
    for preset in ["packfinderz", "talkie", "polyshop", "gopipe", "debezium"] {
        let layout = Layout::preset(preset).unwrap();
        let name = "tables_in_which_everything_may_be_null";
        let mut run = Run::new(name, preset, layout.ordering);
        run.rows /= 5;
        let base = Base::postgres(&run.layout).await;
        base.allow_null(&run.layout).await;
        run.on(&base).await;
    }
}

/// Kafka refuses other things than the memory broker does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polyshop_to_kafka() {
    let mut run = Run::new("polyshop_to_kafka", "polyshop", Ordering::Key);
    run.rows /= 10;
    let base = Base::postgres(&run.layout).await;
    let kafka = Kafka::shared();
    let topic = kafka.fresh_topic(3).await;
    let publisher = KafkaPublisher::new(KafkaConfig::new(kafka.bootstrap())).unwrap();
    let plan = run.fill(&base, &topic).await;
    run.relay(&base, &plan, Arc::new(publisher)).await;
    let records = kafka.records(&topic).await;
    let bodies = records.into_iter().filter_map(|record| record.value);
    run.assert_sent_once(&plan, bodies);
}

/// One layout, one database and one seed.
struct Run {
    /// The test's name.
    name: &'static str,
    layout: Layout,
    seed: u64,
    rows: usize,
    only: Option<String>,
    patience: Duration,
}

/// What stands in the table.
struct Filled {
    good: usize,
    hostile: Vec<Hostile>,
}

impl Run {
    fn new(name: &'static str, preset: &str, ordering: Ordering) -> Self {
        let set = |name: &str| std::env::var(format!("POSTRIDER_HOSTILE_{name}")).ok();
        let number = |name: &str| set(name).map(|text| text.parse().expect("is a number"));
        let mut layout = Layout::preset(preset).unwrap();
        layout.ordering = ordering;
        let run = Self {
            name,
            layout,
            seed: number("SEED").unwrap_or_else(|| fastrand::u64(..)),
            rows: number("ROWS").map_or(ROWS, |rows| rows as usize),
            only: set("CASE"),
            patience: PATIENCE,
        };
        println!("{}: seed {}", run.layout.name, run.seed);
        run
    }

    async fn on(&self, base: &Base) {
        let topic = rows::topic(&self.layout);
        let filled = self.fill(base, topic).await;
        let mut random = Rng::with_seed(self.seed);
        let broker = MemoryBroker::new(MemoryConfig {
            // Half of the runs send what has ten megabytes, the others do not.
            message_bytes_max: if random.bool() { 30_000_000 } else { 1_000_000 },
            ..MemoryConfig::default()
        });
        self.relay(base, &filled, Arc::new(broker.clone())).await;
        let messages = broker.messages(&Topic::from(topic));
        let bodies = messages.into_iter().filter_map(|message| message.payload);
        self.assert_sent_once(&filled, bodies);
    }

    /// Puts good rows in, and a hostile one after every fifty.
    async fn fill(&self, base: &Base, topic: &str) -> Filled {
        let columns = base.columns(&self.layout).await;
        let mut maker = Maker {
            layout: &self.layout,
            columns: &columns,
            topic,
            random: Rng::with_seed(self.seed),
            large: 2,
            only: self.only.clone(),
            turn: 0,
        };
        let pending = rows::pending(&self.layout, base.now());
        let mut filled = Filled {
            good: 0,
            hostile: Vec::new(),
        };
        while filled.good < self.rows {
            let mut hostile = maker.hostile(filled.hostile.len());
            let mut good = good_rows(&mut maker, filled.good);
            // Where times are coarse and ids random, nobody knows which of the two comes first.
            let is_after = matches!(base, Base::Postgres(_));
            if is_after && maker.may_share(&hostile) && maker.random.u8(0..3) == 0 {
                let key = maker.key_column().expect("has a key").to_owned();
                let last = good.last_mut().expect("has rows");
                last.insert(key.clone(), hostile.row[&key].clone());
            }
            base.insert(&self.layout, &columns, &good).await;
            filled.good += good.len();
            let stored = base
                .try_insert(&self.layout, &columns, &hostile.row, &pending)
                .await;
            match stored {
                Ok(stored) => hostile.stored = Some(stored),
                Err(error) => self.assert_may_refuse(&hostile, &error),
            }
            filled.hostile.push(hostile);
        }
        if self.only.is_none() {
            self.assert_all_are_filled(&maker, &filled);
        }
        filled
    }

    /// A whole run has a hostile value in every column that takes any. Numbers have each of theirs,
    /// and the database took it.
    fn assert_all_are_filled(&self, maker: &Maker<'_>, filled: &Filled) {
        let has = |start: &str, must_be_stored: bool| {
            let rows = filled.hostile.iter();
            let mut rows = rows.filter(|row| row.stored.is_some() || !must_be_stored);
            rows.any(|row| row.what.iter().any(|what| what.starts_with(start)))
        };
        for column in maker.open_columns() {
            let is_there = self.rows < ROWS || has(&format!("{}=", column.name), false);
            assert!(is_there, "{}: no {}", self.shown_again(), column.name);
        }
        for (column, name) in maker.numbers() {
            let value = format!("{}={name}", column.name);
            assert!(has(&value, true), "{}: no {value}", self.shown_again());
        }
    }

    /// A table may have rules of its own, but our indexes must not keep an application from writing what it likes.
    fn assert_may_refuse(&self, hostile: &Hostile, error: &str) {
        let of_talkie = hostile
            .what
            .iter()
            .any(|what| what.starts_with("topic=") || what.starts_with("idempotency_key="));
        assert!(
            !error.contains("index row") || self.layout.name == "talkie" && of_talkie,
            "{}: an index refuses {:?}: {error}",
            self.shown_again(),
            hostile.what
        );
    }

    /// Runs a relay until nothing is left to do.
    async fn relay(&self, base: &Base, filled: &Filled, publisher: Arc<dyn Publisher>) {
        let store = Arc::new(Watched::new(base.store(&self.layout)));
        let uncounted = store.backlog().await.err();
        let router = Router::new(&self.layout, Routes::new(), None);
        let relay = Relay::builder(store.clone(), publisher, router)
            .config(self.config())
            .build();
        let health = relay.health();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(relay.run(shutdown.clone()));
        let start = Instant::now();
        eventually_within(self.patience * 2, "all is done", async || {
            match self.open_ends(base, filled, &store).await {
                open if open.is_empty()
                    || start.elapsed() > self.patience
                    || task.is_finished() =>
                {
                    Ok(())
                }
                _ => Err(()),
            }
        })
        .await;
        // Whoever is sent again and again is seen by now.
        let empty = store.notes().empty;
        eventually_within(
            self.patience * 2,
            "the relay looks again",
            async || match store.notes().empty >= empty + 10
                || start.elapsed() > self.patience
                || task.is_finished()
            {
                true => Ok(()),
                false => Err(()),
            },
        )
        .await;
        let mut open = self.open_ends(base, filled, &store).await;
        // Before anything was published, and in the end.
        for error in [uncounted, store.backlog().await.err()]
            .into_iter()
            .flatten()
        {
            open.push(format!("the backlog cannot be counted: {error}"));
        }
        shutdown.cancel();
        match tokio::time::timeout(PATIENCE, task).await {
            Ok(Ok(Ok(()))) => {}
            other => open.push(format!("the relay did not end as it should: {other:?}")),
        }
        for (id, ends) in &store.notes().ends {
            if ends.sent > SENT_MAX {
                open.push(format!("record {} was sent {} times", short(id), ends.sent));
            }
        }
        if !open.is_empty() {
            let (errors, report) = (&store.notes().errors, health.report());
            self.fail(&open, &format!("database: {errors:?}\nhealth: {report:?}"));
        }
    }

    fn config(&self) -> Config {
        let mut random = Rng::with_seed(self.seed);
        Config {
            batch: [20, 100, 1_000][random.usize(..3)],
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_millis(50),
            ordering: self.layout.ordering,
            retry: RetryPolicy {
                max_attempts: self.layout.defaults.max_attempts.unwrap_or(25),
                backoff: Backoff::new(Duration::from_millis(20), Duration::from_millis(100)),
                on_dead: OnDead::Park,
                count_outages: false,
            },
            outage_backoff: Backoff::new(Duration::from_millis(20), Duration::from_millis(200)),
            ..Config::default()
        }
    }

    /// What is not as it must be in the end.
    async fn open_ends(&self, base: &Base, filled: &Filled, store: &Watched) -> Vec<String> {
        let mut open = Vec::new();
        let left = base.count(&rows::unsettled(&self.layout)).await;
        if left > 0 {
            open.push(format!(
                "{left} of {} good rows are not settled",
                filled.good
            ));
        }
        if self.layout.name == "native" {
            let sent = store
                .notes()
                .ends
                .values()
                .filter(|ends| ends.sent > 0)
                .count();
            if sent < filled.good {
                open.push(format!("{sent} of {} good rows were sent", filled.good));
            }
        }
        let is_reported = !store.findings().is_empty();
        let notes = store.notes();
        for hostile in &filled.hostile {
            let Some(stored) = hostile.stored.as_ref().filter(|stored| stored.pending) else {
                continue;
            };
            let ends = stored.id.as_ref().and_then(|id| notes.ends.get(id));
            let has_ended = match (ends, &stored.id) {
                (Some(ends), _) => ends.sent > 0 || ends.dead || ends.refused,
                (None, None) => is_reported,
                (None, Some(_)) => false,
            };
            if !has_ended && !self.is_parked(hostile, filled) {
                open.push(told(hostile, ends));
            }
        }
        open
    }

    /// Whether another hostile row has the same key: then one may wait behind the other.
    fn is_parked(&self, hostile: &Hostile, filled: &Filled) -> bool {
        let Some(key) = self.layout.columns.key.as_ref() else {
            return false;
        };
        let key_of = |row: &Row| row.get(key.as_str()).cloned();
        let same = |other: &&Hostile| key_of(&other.row) == key_of(&hostile.row);
        self.layout.ordering == Ordering::Key && filled.hostile.iter().filter(same).count() > 1
    }

    fn assert_sent_once<B: AsRef<[u8]>>(&self, filled: &Filled, bodies: impl Iterator<Item = B>) {
        let mut sent: HashMap<usize, u32> = HashMap::new();
        for body in bodies {
            if let Some(number) = number_of(body.as_ref()) {
                *sent.entry(number).or_default() += 1;
            }
        }
        let not_once = (0..filled.good).filter_map(|number| match sent.get(&number) {
            Some(1) => None,
            times => Some(format!("good row {number} was sent {times:?} times")),
        });
        let not_once: Vec<String> = not_once.collect();
        if !not_once.is_empty() {
            self.fail(&not_once, "");
        }
    }

    fn fail(&self, open: &[String], more: &str) -> ! {
        const SHOWN_MAX: usize = 15;
        let mut text = format!("{}\n{more}\n", self.shown_again());
        for line in open.iter().take(SHOWN_MAX) {
            writeln!(text, "- {line}").expect("is text");
        }
        panic!("{text}{} in all", open.len());
    }

    /// The command that shows a failure again.
    fn shown_again(&self) -> String {
        let only = match &self.only {
            Some(only) => format!("POSTRIDER_HOSTILE_CASE='{only}' "),
            None => String::new(),
        };
        format!(
            "{}: POSTRIDER_HOSTILE_SEED={} {only}cargo test -p postrider --all-features --test it hostile_rows::{}",
            self.layout.name, self.seed, self.name
        )
    }
}

/// Fifty rows of ten keys.
fn good_rows(maker: &mut Maker<'_>, from: usize) -> Vec<Row> {
    let mut key = String::new();
    let mut rows = Vec::new();
    for number in from..from + GOOD_TO_ONE {
        if number % 5 == 0 {
            key = maker.key();
        }
        rows.push(maker.good(&key, &format!("{GOOD}{number}.")));
    }
    rows
}

/// The number of the good row that a body was made of.
fn number_of(body: &[u8]) -> Option<usize> {
    // An envelope around a good row is short.
    let text = std::str::from_utf8(body.get(..body.len().min(1_000))?).ok()?;
    let (_, rest) = text.split_once(GOOD)?;
    rest.split_once('.')?.0.parse().ok()
}

fn told(hostile: &Hostile, ends: Option<&Ends>) -> String {
    match ends {
        Some(ends) => format!("{:?} came to no end: {ends:?}", hostile.what),
        None => format!("{:?} was never claimed", hostile.what),
    }
}

fn short(id: &str) -> String {
    id.chars().take(40).collect()
}
