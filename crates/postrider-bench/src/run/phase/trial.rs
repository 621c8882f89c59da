//! One measurement of one subject: its database, topic and relay, and the figures that every phase has.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::super::lab::{Database, Lab};
use super::super::progress::Progress;
use super::super::quiet::{self, Quiet};
use super::super::reader::Reader;
use super::super::relay::Relay;
use super::super::results::Figures;
use super::super::subject::{Environment, Subject};

pub(crate) struct Trial<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) subject: &'a Subject,
    pub(crate) progress: &'a Progress,
    pub(crate) database: Database,
    pub(crate) topic: String,
    pub(crate) log: PathBuf,
    pub(crate) quiet: Quiet,
    pub(crate) warm_up_secs: u64,
    quiet_patience: Duration,
    environment: Environment,
    deadline: Instant,
}

/// What is the same in all trials of a run.
pub(crate) struct Bounds {
    pub(crate) quiet_patience: Duration,
    pub(crate) trial_patience: Duration,
    pub(crate) warm_up_secs: u64,
}

impl<'a> Trial<'a> {
    /// A fresh database with the subject's tables, a fresh topic, an empty work folder.
    pub(crate) async fn prepare(
        lab: &'a Lab,
        subject: &'a Subject,
        progress: &'a Progress,
        bounds: &Bounds,
        topic: String,
    ) -> anyhow::Result<Self> {
        lab.revive().await?;
        let database = lab.fresh_database().await?;
        lab.create_topic(&topic).await?;
        let work = lab.dir.join("work");
        if work.exists() {
            std::fs::remove_dir_all(&work)?;
        }
        std::fs::create_dir_all(&work)?;
        let log = lab.dir.join("relay.log");
        std::fs::write(&log, "")?;
        let mut environment = super::super::environment(&lab.dir);
        environment.extend([
            ("BENCH_POSTGRES", database.url.clone()),
            ("BENCH_KAFKA", lab.kafka().to_owned()),
            ("BENCH_TOPIC", topic.clone()),
            ("BENCH_WORK", work.display().to_string()),
        ]);
        subject.reset(&environment).await?;
        Ok(Self {
            lab,
            subject,
            progress,
            database,
            topic,
            log,
            quiet: Quiet::default(),
            warm_up_secs: bounds.warm_up_secs,
            quiet_patience: bounds.quiet_patience,
            environment,
            deadline: Instant::now() + bounds.trial_patience,
        })
    }

    /// Waits for an idle machine, right before the clock starts.
    pub(crate) async fn settle_machine(&mut self) {
        self.quiet = quiet::wait(self.quiet_patience).await;
    }

    pub(crate) fn start_relay(&self) -> anyhow::Result<Relay> {
        let program = self.subject.start_program();
        Relay::start(program, &self.environment, &self.log)
    }

    pub(crate) fn check_time(&self) -> anyhow::Result<()> {
        anyhow::ensure!(Instant::now() < self.deadline, "exceeded its time limit");
        Ok(())
    }

    pub(crate) async fn close(self) -> anyhow::Result<()> {
        self.database.pool.close().await;
        self.lab.delete_topic(&self.topic).await
    }
}

/// What had been used when the clock started.
pub(crate) struct Meter {
    relay: f64,
    postgres: f64,
    kafka: f64,
    wal: f64,
}

impl Meter {
    pub(crate) async fn start(trial: &Trial<'_>, relay: Option<&Relay>) -> anyhow::Result<Self> {
        Ok(Self {
            wal: trial.database.wal_bytes().await?,
            relay: relay.map_or(0.0, Relay::cpu_secs),
            postgres: trial.lab.postgres_cpu_secs(),
            kafka: trial.lab.kafka_cpu_secs().await,
        })
    }

    /// What was used since.
    pub(crate) async fn read(
        &self,
        trial: &Trial<'_>,
        relay: &mut Relay,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        figures.set("relay_cpu_secs", relay.cpu_secs() - self.relay);
        figures.set("peak_mb", relay.peak_mb());
        self.read_servers(trial, figures).await
    }

    pub(crate) async fn read_servers(
        &self,
        trial: &Trial<'_>,
        figures: &mut Figures,
    ) -> anyhow::Result<()> {
        figures.set(
            "postgres_cpu_secs",
            trial.lab.postgres_cpu_secs() - self.postgres,
        );
        let kafka = trial.lab.kafka_cpu_secs().await - self.kafka;
        // A broker that was stopped meanwhile counts from its start.
        if kafka >= 0.0 {
            figures.set("kafka_cpu_secs", kafka);
        }
        figures.set("wal_bytes", trial.database.wal_bytes().await? - self.wal);
        Ok(())
    }
}

/// After the relay has ended.
pub(crate) async fn read_tables(trial: &Trial<'_>, figures: &mut Figures) -> anyhow::Result<()> {
    let tables = trial.database.tables().await?;
    figures.set(
        "dead_tuples",
        tables.iter().map(|table| table.dead as f64).sum(),
    );
    figures.set(
        "died_tuples",
        tables.iter().map(|table| table.died as f64).sum(),
    );
    for table in tables.iter().filter(|table| table.dead + table.died > 0) {
        figures.set(&format!("died_tuples {}", table.name), table.died as f64);
    }
    Ok(())
}

/// What became of the events `0..written`.
pub(crate) fn read_verdict(reader: &Reader, written: u64, figures: &mut Figures) {
    reader.with(|arrivals| {
        figures.set("records", written as f64);
        figures.set("lost", written.saturating_sub(arrivals.distinct) as f64);
        figures.set("inverted", arrivals.inverted as f64);
        figures.set("duplicates", arrivals.duplicates() as f64);
        figures.set("wrong_keys", arrivals.wrong_keys as f64);
        figures.set("foreign", arrivals.foreign as f64);
    });
}
