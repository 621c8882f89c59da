//! Development only: how fast a backlog drains, beside what the same machine can do at most.
//! Everything that is compared is measured in one run, round by round, so that noise hits all alike.

mod consume;
mod drain;
mod limits;
mod page;
mod report;
mod run;
mod stats;
mod usage;
mod workload;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Benchmarks beside the physical limits of the same machine")]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Ours and others' relays side by side, in all phases; writes target/bench/results/<time>.json.
    Run(run::Args),
    /// Writes the tables and charts of docs/benchmarks.md from results of `run`.
    Report(page::Args),
    /// Drain a backlog from Postgres to Kafka, in hold, stream and lease mode.
    Drain(DrainArgs),
    /// Apply a topic's events to Postgres with an inbox, one by one and in batches.
    Consume(consume::Args),
    /// One consumer or bare loop; started by `consume` as a process of its own.
    #[command(hide = true)]
    Apply(consume::Child),
    /// One relay that drains one table; started by `drain` as a process of its own.
    #[command(hide = true)]
    Relay(drain::Child),
}

#[derive(clap::Args)]
struct DrainArgs {
    /// Records in the backlog.
    #[arg(long, default_value_t = 200_000)]
    records: u32,
    /// Bytes of a payload, about.
    #[arg(long, default_value_t = 500)]
    bytes: u32,
    /// Rounds; the median of each figure is compared.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Most records per claim of the large modes.
    #[arg(long, default_value_t = 3000)]
    batch: u32,
    /// Overlapping claims of the large modes.
    #[arg(long, default_value_t = 3)]
    claims: u32,
    #[arg(long, env = "POSTRIDER_TEST_POSTGRES_URL")]
    postgres: String,
    #[arg(long, env = "POSTRIDER_TEST_KAFKA")]
    kafka: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Args::parse().bench {
        Bench::Run(args) => run::bench(&args).await,
        Bench::Report(args) => page::report(&args),
        Bench::Drain(args) => bench_drain(&args).await,
        Bench::Consume(args) => consume::bench(&args).await,
        Bench::Apply(child) => consume::apply(child).await,
        Bench::Relay(child) => drain::relay(child).await,
    }
}

async fn bench_drain(args: &DrainArgs) -> anyhow::Result<()> {
    const SMALL: &str = "the same relay with batches of 50, one claim at a time";
    let mut report = report::Report::new(report::Subject {
        bench: "drain",
        records: args.records,
        bytes: args.bytes,
        limit: "produce only",
        pairs: &[
            ("hold", "hold, small", SMALL),
            ("hold, indexes", "hold, indexes, small", SMALL),
            ("lease", "lease, small", SMALL),
        ],
    });
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        for mode in workload::modes(args) {
            let work = workload::prepare(&args.postgres, &args.kafka, mode, args).await?;
            if mode.measures_limits {
                report.add("read only", limits::read(&work).await?);
                report.add("produce only", limits::produce(&work, &args.kafka).await?);
            }
            report.add(mode.name, drain::run(&work, mode, args).await?);
            work.drop_table().await?;
        }
    }
    report.print()
}
