//! The tables of the page, as lists of columns.

use super::book::{Book, DEBEZIUM, PRODUCE_ONLY, WATERMILL, number};
use crate::stats;

pub(super) struct Table {
    lines: Vec<String>,
}

impl Table {
    pub(super) fn new(headers: &[&str]) -> Self {
        let rule = "|---".repeat(headers.len()) + "|";
        Self {
            lines: vec![format!("| {} |", headers.join(" | ")), rule],
        }
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        self.lines.push(format!("| {} |", cells.join(" | ")));
    }

    pub(super) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }
}

/// As few digits as say something, with commas.
pub(super) fn thousands(value: f64) -> String {
    if value.abs() < 100.0 {
        let digits = match value.abs() {
            small if small.fract() == 0.0 => 0,
            small if small < 1.0 => 2,
            _ => 1,
        };
        return format!("{value:.digits$}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

fn cell(value: Option<f64>) -> String {
    value.map_or("–".into(), thousands)
}

/// What is asked about.
struct At<'a> {
    book: &'a Book,
    step: &'a str,
    subject: &'a str,
}

impl At<'_> {
    fn median(&self, figure: &str) -> Option<f64> {
        self.book.median(self.step, self.subject, figure)
    }

    fn spread(&self, figure: &str) -> String {
        let values = self.book.values(self.step, self.subject, figure);
        let median = stats::median(values.clone());
        match (median, stats::spread(&values)) {
            (Some(median), Some((low, high))) if values.len() > 1 => {
                format!(
                    "{} ({}–{})",
                    thousands(median),
                    thousands(low),
                    thousands(high)
                )
            }
            (median, _) => cell(median),
        }
    }

    fn per_100k(&self, figure: &str) -> String {
        let each = self
            .book
            .median_per(self.step, self.subject, figure, "records");
        cell(each.map(|each| each * 100_000.0))
    }

    fn per_event(&self, figure: &str) -> String {
        cell(
            self.book
                .median_per(self.step, self.subject, figure, "records"),
        )
    }

    fn cpus(&self) -> String {
        ["relay_cpu_secs", "postgres_cpu_secs", "kafka_cpu_secs"]
            .map(|figure| self.per_100k(figure))
            .join(" / ")
    }

    /// The worst round: a single loss is one too many.
    fn verdict(&self) -> String {
        let worst = |figure| self.book.worst(self.step, self.subject, figure);
        let counts = ["lost", "inverted", "duplicates"].map(|figure| cell(worst(figure)));
        let mut text = counts.join(" / ");
        for (figure, what) in [
            ("late", "not there 5 minutes after"),
            ("wrong_keys", "with another key"),
            ("foreign", "that are no events of ours"),
        ] {
            if let Some(count) = worst(figure).filter(|count| *count > 0.0) {
                text += &format!(" ({} {what})", thousands(count));
            }
        }
        text
    }

    fn percentiles(&self, name: &str) -> String {
        ["p50", "p99", "p999"]
            .map(|rank| cell(self.median(&format!("{name}_{rank}_ms"))))
            .join(" / ")
    }

    fn times(&self, other: &str) -> String {
        let rate = |subject| self.book.rate(self.step, subject);
        let times = rate(self.subject)
            .zip(rate(other))
            .map(|(rate, other)| rate / other);
        cell(times)
    }
}

/// Of a step, by its number.
type Title = fn(u64) -> String;

type Column = (&'static str, fn(&At<'_>) -> String);

const DRAIN: &[Column] = &[
    ("records/s", |at| at.spread("per_sec")),
    ("from process start", |at| {
        cell(at.median("per_sec_from_start"))
    }),
    ("second half", |at| at.spread("second_half_per_sec")),
    ("last / first tenth", |at| {
        let figures = ("last_tenth_per_sec", "first_tenth_per_sec");
        cell(
            at.book
                .median_per(at.step, at.subject, figures.0, figures.1),
        )
    }),
    ("× produce-only", |at| at.times(PRODUCE_ONLY)),
    ("× Debezium tuned, second half", |at| at.times(DEBEZIUM)),
    ("× Watermill tuned", |at| at.times(WATERMILL)),
    ("CPU s per 100,000: relay / Postgres / Kafka", |at| {
        at.cpus()
    }),
    ("relay CPU without start", |at| {
        cell(at.book.relay_cpu(at.step, at.subject))
    }),
    ("peak MB", |at| at.spread("peak_mb")),
    ("WAL bytes per event", |at| at.per_event("wal_bytes")),
    ("dead rows per event", |at| at.per_event("died_tuples")),
    ("lost / inverted / twice", |at| at.verdict()),
];

const LIVE: &[Column] = &[
    ("written/s", |at| cell(at.median("written_per_sec"))),
    ("arrived/s", |at| cell(at.median("per_sec"))),
    ("p50 / p99 / p99.9 ms", |at| at.percentiles("latency")),
    ("p99 of each round", |at| at.spread("latency_p99_ms")),
    ("the commit itself", |at| at.percentiles("commit")),
    ("after the commit", |at| at.percentiles("after_commit")),
    ("CPU s per 100,000: relay / Postgres / Kafka", |at| {
        at.cpus()
    }),
    ("peak MB", |at| at.spread("peak_mb")),
    ("WAL bytes per event", |at| at.per_event("wal_bytes")),
    ("dead rows per event", |at| at.per_event("died_tuples")),
    ("dead rows at the end", |at| cell(at.median("dead_tuples"))),
    ("lost / inverted / twice", |at| at.verdict()),
];

const HELD: &[Column] = &[
    ("before: p50 / p99 / p99.9 ms", |at| {
        at.percentiles("clean_latency")
    }),
    ("held: p50 / p99 / p99.9 ms", |at| at.percentiles("latency")),
    ("× p50 / p99", |at| {
        ["p50", "p99"]
            .map(|rank| cell(at.book.held(at.step, at.subject, rank)))
            .join(" / ")
    }),
    ("written/s", |at| cell(at.median("written_per_sec"))),
    ("arrived/s", |at| cell(at.median("per_sec"))),
    ("p99 of each round", |at| at.spread("latency_p99_ms")),
    ("the commit itself", |at| at.percentiles("commit")),
    ("after the commit", |at| at.percentiles("after_commit")),
    ("CPU s per 100,000: relay / Postgres / Kafka", |at| {
        at.cpus()
    }),
    ("peak MB", |at| at.spread("peak_mb")),
    ("WAL bytes per event", |at| at.per_event("wal_bytes")),
    ("dead rows per event", |at| at.per_event("died_tuples")),
    ("dead rows at the end", |at| cell(at.median("dead_tuples"))),
    ("lost / inverted / twice", |at| at.verdict()),
];

const TROUBLED: &[Column] = &[
    // Until it had started again.
    ("broker away, s", |at| cell(at.median("down_secs"))),
    ("arrived/s", |at| cell(at.median("per_sec"))),
    ("p50 / p99 / p99.9 ms", |at| at.percentiles("latency")),
    ("ended by itself", |at| cell(at.median("restarts"))),
    ("CPU s per 100,000: relay / Postgres / Kafka", |at| {
        at.cpus()
    }),
    ("peak MB", |at| at.spread("peak_mb")),
    ("WAL bytes per event", |at| at.per_event("wal_bytes")),
    ("dead rows per event", |at| at.per_event("died_tuples")),
    ("lost / inverted / twice", |at| at.verdict()),
];

const IDLE: &[Column] = &[
    ("relay CPU s per minute", |at| {
        cell(at.median("relay_cpu_secs_per_minute"))
    }),
    ("Postgres CPU s per minute", |at| {
        cell(at.median("postgres_cpu_secs_per_minute"))
    }),
    ("peak MB", |at| at.spread("peak_mb")),
];

const STUCK: &[Column] = &[
    ("claim of 1,000, ms", |at| at.spread("claim_ms")),
    ("× none stuck", |at| {
        let clean = at.book.median("stuck-0", at.subject, "claim_ms");
        cell(
            at.median("claim_ms")
                .zip(clean)
                .map(|(stuck, clean)| stuck / clean),
        )
    }),
    ("records in it", |at| cell(at.median("claim_records"))),
    ("idle cores, relay and Postgres", |at| {
        at.spread("idle_cores")
    }),
    ("of the relay / of Postgres", |at| {
        ["idle_relay_cores", "idle_postgres_cores"]
            .map(|figure| cell(at.median(figure)))
            .join(" / ")
    }),
    ("stuck, as counted", |at| cell(at.median("stuck"))),
];

const EMIT: &[Column] = &[
    ("records/s", |at| at.spread("per_sec")),
    ("× the bare INSERT", |at| at.times("bare-insert")),
    ("Postgres CPU s per 100,000", |at| {
        at.per_100k("postgres_cpu_secs")
    }),
    ("WAL bytes per event", |at| at.per_event("wal_bytes")),
];

/// Phases in the order of the page: name, what a step of it is called, columns.
const PHASES: [(&str, Title, &[Column]); 9] = [
    (
        "drain",
        |n| format!("Drain of {} records", thousands(n as f64)),
        DRAIN,
    ),
    (
        "steady",
        |n| format!("Steady load of {}/s", thousands(n as f64)),
        LIVE,
    ),
    (
        "held",
        |_| "A transaction held open elsewhere, 2,000/s".into(),
        HELD,
    ),
    (
        "held-writer",
        |_| "A transaction held open that has written to the outbox, 2,000/s".into(),
        HELD,
    ),
    (
        "kill",
        |_| "SIGKILL of the relay every 5 s, 1,000/s".into(),
        TROUBLED,
    ),
    ("outage", |_| "The broker stopped, 500/s".into(), TROUBLED),
    ("idle", |_| "Nothing to do".into(), IDLE),
    (
        "stuck",
        |n| format!("{} stuck records", thousands(n as f64)),
        STUCK,
    ),
    (
        "emit",
        |n| match n {
            1 => "Writing, one event per commit".into(),
            n => format!("Writing, {n} events per statement and commit"),
        },
        EMIT,
    ),
];

pub(super) fn all(book: &Book) -> String {
    let mut text = String::new();
    for (phase, title, columns) in PHASES {
        for step in book.steps_of(phase) {
            let title = title(number(step));
            text += &format!("\n### {title}\n{}", step_table(book, step, columns));
        }
    }
    text + &failures(book)
}

fn step_table(book: &Book, step: &str, columns: &[Column]) -> String {
    let headers: Vec<&str> = std::iter::once("")
        .chain(columns.iter().map(|one| one.0))
        .collect();
    let mut table = Table::new(&headers);
    for subject in book.subjects(step) {
        let at = At {
            book,
            step,
            subject,
        };
        let title = book.title(subject).to_owned();
        let figures = columns.iter().map(|(_, value)| value(&at));
        table.row(std::iter::once(title).chain(figures));
    }
    table.text()
}

fn failures(book: &Book) -> String {
    let failed = book.measurements().filter(|one| one.failed.is_some());
    let mut table = Table::new(&["failed", "step", "round", "why"]);
    let mut any = false;
    for one in failed {
        any = true;
        let why = one.failed.as_deref().unwrap_or_default();
        let why = why.lines().next().unwrap_or_default().replace('|', "/");
        let title = book.title(&one.subject).to_owned();
        table.row([title, one.step.clone(), one.round.to_string(), why]);
    }
    if any {
        format!("\n### What failed\n{}", table.text())
    } else {
        "\nNo measurement failed.\n".into()
    }
}

/// Machine, servers, versions and settings.
pub(super) fn about(book: &Book) -> String {
    let mut table = Table::new(&[
        "run",
        "commit",
        "rounds",
        "measurements",
        "machine busy before, median / worst",
    ]);
    for run in &book.runs {
        let busy: Vec<f64> = run
            .measurements
            .iter()
            .map(|one| one.quiet.busy * 100.0)
            .collect();
        let worst = stats::spread(&busy).map(|(_, high)| high);
        let changed = if run.changed { ", changed" } else { "" };
        table.row([
            run.started.split('.').next().unwrap_or_default().to_owned(),
            format!("{:.12}{changed}", run.commit),
            run.rounds.to_string(),
            run.measurements.len().to_string(),
            format!("{} % / {} %", cell(stats::median(busy)), cell(worst)),
        ]);
    }
    let mut text = format!("\n### The runs\n{}", table.text());
    let Some(first) = book.runs.first() else {
        return text;
    };
    let machine = &first.machine;
    text += &format!(
        "\n{} cores of {}, {} GB, {}. Payloads of {} bytes.\n\n",
        machine.cores, machine.cpu, machine.memory_gb, machine.kernel, first.payload_bytes
    );
    let servers: Vec<String> = first
        .servers
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    text += &format!("Servers: {}.\n\n", servers.join(", "));
    let mut table = Table::new(&["subject", "versions", "settings"]);
    for subject in book.all_subjects() {
        let list = |pairs: &std::collections::BTreeMap<String, String>| {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            pairs.join(", ")
        };
        let title = subject.title.clone();
        table.row([title, list(&subject.versions), list(&subject.settings)]);
    }
    text + &table.text()
}
