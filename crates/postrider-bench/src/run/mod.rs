//! One run: ours and others' relays on the same servers and the same work, in turns, so that noise hits all alike.

mod arrivals;
mod event;
mod lab;
mod load;
mod phase;
mod plan;
mod progress;
mod quiet;
mod reader;
mod relay;
pub(crate) mod results;
mod subject;
mod warm;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::ArgAction;
use futures::FutureExt as _;
use postrider::core::Timestamp;
use tokio::signal::unix::{SignalKind, signal};

use lab::Lab;
use phase::{Bounds, Phase, Step, Trial};
use plan::{Task, Who};
use progress::Progress;
use quiet::Quiet;
use results::{Figures, Measurement, Results};
use subject::{Environment, Subject};

/// An option that comes again replaces what was there: the Makefile has defaults of its own.
#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// Only these subjects; without, ours.
    #[arg(long, value_delimiter = ',', action = ArgAction::Set)]
    subjects: Option<Vec<String>>,
    /// Peers too.
    #[arg(long, conflicts_with = "subjects")]
    peers: bool,
    /// What is measured.
    #[arg(long, value_delimiter = ',', action = ArgAction::Set, value_enum, default_values = ["drain", "steady", "held", "held-writer", "kill", "outage", "idle", "stuck", "emit"])]
    phases: Vec<Phase>,
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Rounds of held, kill, outage, idle and stuck, which take minutes by themselves.
    #[arg(long, default_value_t = 1)]
    long_rounds: u32,
    /// Sizes of the backlog that is drained.
    #[arg(long, value_delimiter = ',', action = ArgAction::Set, default_values_t = [200_000, 1_000_000])]
    records: Vec<u64>,
    /// Records per second of the steady load.
    #[arg(long, value_delimiter = ',', action = ArgAction::Set, default_values_t = [500, 2000])]
    rate: Vec<u64>,
    /// How long the steady load is counted; the warm-up comes before.
    #[arg(long, default_value_t = 10)]
    secs: u64,
    /// Steady load before it is counted; three times that for what says that it warms up.
    #[arg(long, default_value_t = 5)]
    warm_up_secs: u64,
    /// How long a transaction is held open, at 2,000 records per second.
    #[arg(long, default_value_t = 120)]
    held_secs: u64,
    /// The same load without it, before.
    #[arg(long, default_value_t = 20)]
    held_clean_secs: u64,
    /// How long the relay is killed every 5 s, at 1,000 records per second.
    #[arg(long, default_value_t = 30)]
    kill_secs: u64,
    /// How long the broker is down, at 500 records per second.
    #[arg(long, default_value_t = 30)]
    outage_secs: u64,
    #[arg(long, default_value_t = 30)]
    idle_secs: u64,
    /// Records that wait, are dead or stand behind a dead one.
    #[arg(long, value_delimiter = ',', action = ArgAction::Set, default_values_t = [0, 10_000, 100_000])]
    stuck: Vec<u64>,
    /// How long a relay idles beside them.
    #[arg(long, default_value_t = 30)]
    stuck_secs: u64,
    /// Rows of the emit phase with one row per commit; with 100 per statement, ten times as many.
    #[arg(long, default_value_t = 20_000)]
    emit_rows: u64,
    /// No measurement is begun after so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// A measurement that takes longer has failed.
    #[arg(long, default_value_t = 420)]
    limit_secs: u64,
    /// How long to wait for an idle machine before each measurement.
    #[arg(long, default_value_t = 20)]
    quiet_secs: u64,
    /// Where servers, programs and results are.
    #[arg(long, default_value_os_t = root().join("target/bench"))]
    dir: PathBuf,
}

/// Of the repository.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// What every verb of a subject's `run` knows.
fn environment(dir: &Path) -> Environment {
    Environment::from([
        ("BENCH_ROOT", root().display().to_string()),
        ("BENCH_DIR", dir.display().to_string()),
    ])
}

/// Ends early, with all that it started, on the first signal.
pub(crate) async fn bench(args: &Args) -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
    );
    tokio::select! {
        ended = run(args) => ended,
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("terminated"),
    }
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let start = Instant::now();
    std::fs::create_dir_all(args.dir.join("results"))?;
    let dir = args.dir.canonicalize()?;
    let names = args.subjects.as_deref();
    let subjects = subject::load_all(&root().join("bench/subjects"), names, args.peers)?;
    let (subjects, failed) = build(subjects, &environment(&dir)).await;
    let tasks = plan::plan(args, &subjects);
    eprintln!("starting Postgres and Kafka; {} measurements", tasks.len());
    let lab = Lab::start(&dir).await?;
    let mut results = about(args, &lab, &subjects).await?;
    results.measurements = failed;
    let digits = results.started.chars().filter(char::is_ascii_digit);
    let stamp: String = digits.take(14).collect();
    let file = dir.join("results").join(format!("{stamp}.json"));
    let bounds = Bounds {
        quiet_patience: Duration::from_secs(args.quiet_secs),
        trial_patience: Duration::from_secs(args.limit_secs),
        warm_up_secs: args.warm_up_secs,
    };
    let progress = Progress::new(tasks.iter().map(Task::names).collect());
    warm::warm_up(&lab, &tasks, &progress).await?;
    for (number, task) in tasks.iter().enumerate() {
        if args
            .minutes
            .is_some_and(|most| start.elapsed() > Duration::from_secs(60 * most))
        {
            eprintln!(
                "{} measurements are left out: the time is over",
                tasks.len() - number
            );
            break;
        }
        let topic = format!("bench-{number}");
        let measured = measure(&lab, task, &progress, &bounds, topic).await;
        results.measurements.push(measured);
        results.save(&file)?;
    }
    lab.drop_database().await?;
    let count = results.measurements.len();
    let failed = results
        .measurements
        .iter()
        .filter(|one| one.failed.is_some());
    eprintln!("{} of {count} measurements failed", failed.count());
    println!("{}", file.display());
    Ok(())
}

/// Those that cannot be built are left out, and said to have failed.
async fn build(
    subjects: Vec<Subject>,
    environment: &Environment,
) -> (Vec<Subject>, Vec<Measurement>) {
    let (mut built, mut failed) = (Vec::new(), Vec::new());
    for mut subject in subjects {
        let name = subject.about.name.clone();
        eprintln!("building {name}");
        match subject.build(environment).await {
            Ok(()) => built.push(subject),
            Err(error) => {
                eprintln!("{error:#}");
                let mut measurement = Measurement::new(0, "build".into(), name);
                measurement.failed = Some("cannot be built".into());
                measurement.log = Some(format!("{error:#}"));
                failed.push(measurement);
            }
        }
    }
    (built, failed)
}

/// A failure is a result too, and does not lose the others.
async fn measure(
    lab: &Lab,
    task: &Task<'_>,
    progress: &Progress,
    bounds: &Bounds,
    topic: String,
) -> Measurement {
    let (step, subject) = task.names();
    progress.begin(task.round, &step, &subject);
    let start = Instant::now();
    // Everything in it has a limit of its own; this is for a server that hangs.
    let patience = bounds.trial_patience * 2 + Duration::from_secs(300);
    let attempt = AssertUnwindSafe(attempt(lab, task, progress, bounds, topic)).catch_unwind();
    let outcome = match tokio::time::timeout(patience, attempt).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(anyhow::anyhow!("the harness panicked")),
        Err(_) => Err(anyhow::anyhow!("hung for {patience:?}")),
    };
    let mut measurement = Measurement::new(task.round, step.clone(), subject.clone());
    measurement.took_secs = start.elapsed().as_secs_f64().round();
    match outcome {
        Ok((quiet, figures)) => {
            progress.end(&step, &subject, &summary(&figures));
            (measurement.quiet, measurement.figures) = (quiet, figures);
        }
        Err(error) => {
            let log = relay::log_tail(&lab.dir.join("relay.log"));
            progress.end(&step, &subject, &format!("FAILED: {error:#}\n{log}"));
            measurement.failed = Some(format!("{error:#}"));
            measurement.log = Some(log);
        }
    }
    measurement
}

async fn attempt(
    lab: &Lab,
    task: &Task<'_>,
    progress: &Progress,
    bounds: &Bounds,
    topic: String,
) -> anyhow::Result<(Quiet, Figures)> {
    match (&task.who, task.step) {
        (Who::Limit(limit), Step::Drain { records }) => {
            limit.measure(lab, bounds, &topic, records).await
        }
        (Who::Limit(_), _) => anyhow::bail!("limits are those of a drain"),
        (Who::Subject(subject), step) => {
            let mut trial = Trial::prepare(lab, subject, progress, bounds, topic).await?;
            let figures = step.measure(&mut trial).await?;
            let quiet = trial.quiet;
            trial.close().await?;
            Ok((quiet, figures))
        }
    }
}

/// The few figures that one wants to see go by.
fn summary(figures: &Figures) -> String {
    const SHOWN: [(&str, &str); 13] = [
        ("per_sec", "/s"),
        ("second_half_per_sec", "/s second half"),
        ("latency_p50_ms", " ms p50"),
        ("latency_p99_ms", " ms p99"),
        ("clean_latency_p99_ms", " ms p99 before"),
        ("claim_ms", " ms a claim"),
        ("idle_cores", " cores idle"),
        ("relay_cpu_secs", " s relay CPU"),
        ("relay_cpu_secs_per_minute", " s relay CPU per minute"),
        ("peak_mb", " MB"),
        ("lost", " lost"),
        ("inverted", " inverted"),
        ("duplicates", " twice"),
    ];
    let shown = SHOWN.iter().filter_map(|(name, unit)| {
        let value = figures.get(name)?;
        let digits = usize::from(value < 100.0 && value.fract() != 0.0) * 2;
        Some(format!("{value:.digits$}{unit}"))
    });
    shown.collect::<Vec<_>>().join(", ")
}

async fn about(args: &Args, lab: &Lab, subjects: &[Subject]) -> anyhow::Result<Results> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(root())
            .output();
        output.map_or(String::new(), |output| {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
    };
    Ok(Results {
        started: Timestamp::now().to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: git(&["rev-parse", "HEAD"]),
        changed: !git(&["status", "--porcelain", "--untracked-files=no"]).is_empty(),
        machine: quiet::machine(),
        servers: lab.settings().await?,
        rounds: args.rounds,
        payload_bytes: event::PAYLOAD_BYTES,
        subjects: subjects.iter().map(Subject::kept).collect(),
        measurements: Vec::new(),
    })
}
