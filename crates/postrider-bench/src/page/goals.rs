//! The goals, as data, beside what was measured.

use super::book::{Book, DEBEZIUM, PRODUCE_ONLY, WATERMILL};
use super::tables::{Table, thousands};

struct Goal {
    what: &'static str,
    bound: Bound,
    /// `None` when the runs do not say.
    measured: fn(&Book) -> Option<f64>,
}

enum Bound {
    AtLeast(f64, &'static str),
    AtMost(f64, &'static str),
}

use Bound::{AtLeast, AtMost};

const STREAM: &str = "postrider-stream";
const HOLD: &str = "postrider-hold";
const LEASE: &str = "postrider-lease";
const STEADY: &str = "steady-2000";

const GOALS: [Goal; 28] = [
    Goal {
        what: "stream drain, of produce-only",
        bound: AtLeast(65.0, " %"),
        measured: |book| percent(book, STREAM),
    },
    Goal {
        what: "stream drain, times Debezium tuned",
        bound: AtLeast(7.0, " ×"),
        measured: |book| book.times(STREAM, DEBEZIUM),
    },
    Goal {
        what: "stream drain, times Watermill tuned",
        bound: AtLeast(90.0, " ×"),
        measured: |book| book.times(STREAM, WATERMILL),
    },
    Goal {
        what: "hold drain, of produce-only",
        bound: AtLeast(15.0, " %"),
        measured: |book| percent(book, HOLD),
    },
    Goal {
        what: "hold drain, times Debezium tuned",
        bound: AtLeast(1.5, " ×"),
        measured: |book| book.times(HOLD, DEBEZIUM),
    },
    Goal {
        what: "hold drain, times Watermill tuned",
        bound: AtLeast(20.0, " ×"),
        measured: |book| book.times(HOLD, WATERMILL),
    },
    Goal {
        what: "stream, p50 at 2,000/s",
        bound: AtMost(3.0, " ms"),
        measured: |book| book.median(STEADY, STREAM, "latency_p50_ms"),
    },
    Goal {
        what: "stream, p99 at 2,000/s",
        bound: AtMost(10.0, " ms"),
        measured: |book| book.median(STEADY, STREAM, "latency_p99_ms"),
    },
    Goal {
        what: "stream, p99 at 2,000/s, of Debezium tuned",
        bound: AtMost(33.3, " %"),
        measured: |book| {
            let debezium = book.median(STEADY, DEBEZIUM, "latency_p99_ms")?;
            Some(100.0 * book.median(STEADY, STREAM, "latency_p99_ms")? / debezium)
        },
    },
    Goal {
        what: "hold, p50 at 2,000/s",
        bound: AtMost(4.0, " ms"),
        measured: |book| book.median(STEADY, HOLD, "latency_p50_ms"),
    },
    Goal {
        what: "hold, p99 at 2,000/s",
        bound: AtMost(20.0, " ms"),
        measured: |book| book.median(STEADY, HOLD, "latency_p99_ms"),
    },
    Goal {
        what: "memory, any drain of ours",
        bound: AtMost(40.0, " MB"),
        measured: memory,
    },
    Goal {
        what: "stream drain, relay CPU per record, of Debezium tuned without its start",
        bound: AtMost(10.0, " %"),
        measured: |book| {
            let step = book.drain_of(&[STREAM, DEBEZIUM])?;
            Some(100.0 * book.relay_cpu(step, STREAM)? / book.relay_cpu(step, DEBEZIUM)?)
        },
    },
    Goal {
        what: "stream, rate with a held transaction, of clean",
        bound: AtLeast(80.0, " %"),
        measured: |book| held_rate(book, "per_sec"),
    },
    Goal {
        what: "stream, p99 with a held transaction, of clean",
        bound: AtMost(120.0, " %"),
        measured: |book| book.held("held", STREAM, "p99").map(|times| 100.0 * times),
    },
    Goal {
        what: "hold, p99 with a held transaction, times without",
        bound: AtMost(1.5, " ×"),
        measured: |book| book.held("held", HOLD, "p99"),
    },
    Goal {
        what: "lease, p99 with a held transaction, times without",
        bound: AtMost(1.5, " ×"),
        measured: |book| book.held("held", LEASE, "p99"),
    },
    Goal {
        what: "hold, p99 with a held transaction that wrote to the outbox, times without",
        bound: AtMost(1.5, " ×"),
        measured: |book| book.held("held-writer", HOLD, "p99"),
    },
    Goal {
        what: "lease, p99 with a held transaction that wrote to the outbox, times without",
        bound: AtMost(1.5, " ×"),
        measured: |book| book.held("held-writer", LEASE, "p99"),
    },
    Goal {
        what: "claim of 1,000 behind 10,000 stuck, times without, slowest layout",
        bound: AtMost(2.0, " ×"),
        measured: |book| {
            let times = |subject: &str| {
                let clean = book.median("stuck-0", subject, "claim_ms")?;
                Some(book.median("stuck-10000", subject, "claim_ms")? / clean)
            };
            let subjects = book.subjects("stuck-10000").into_iter();
            subjects.filter_map(times).max_by(f64::total_cmp)
        },
    },
    Goal {
        what: "claim of 1,000 behind 100,000 stuck, slowest layout",
        bound: AtMost(150.0, " ms"),
        measured: |book| slowest(book, "stuck-100000", "claim_ms"),
    },
    Goal {
        what: "idle, relay and Postgres, none stuck, dearest layout",
        bound: AtMost(0.02, " core"),
        measured: |book| slowest(book, "stuck-0", "idle_cores"),
    },
    Goal {
        what: "idle, relay and Postgres, 10,000 stuck, dearest layout",
        bound: AtMost(0.05, " core"),
        measured: |book| slowest(book, "stuck-10000", "idle_cores"),
    },
    Goal {
        what: "idle, relay and Postgres, 100,000 stuck, dearest layout",
        bound: AtMost(0.05, " core"),
        measured: |book| slowest(book, "stuck-100000", "idle_cores"),
    },
    Goal {
        what: "dead rows in the native outbox, all phases",
        bound: AtMost(0.0, ""),
        measured: dead,
    },
    Goal {
        what: "stream, 1,000,000: last tenth of the first",
        bound: AtLeast(90.0, " %"),
        measured: |book| tenths(book, STREAM),
    },
    Goal {
        what: "hold, 1,000,000: last tenth of the first",
        bound: AtLeast(90.0, " %"),
        measured: |book| tenths(book, HOLD),
    },
    Goal {
        what: "lost or inverted, ours, all phases",
        bound: AtMost(0.0, ""),
        measured: wrong,
    },
];

fn percent(book: &Book, subject: &str) -> Option<f64> {
    book.times(subject, PRODUCE_ONLY).map(|times| 100.0 * times)
}

fn memory(book: &Book) -> Option<f64> {
    let of_step = |step| {
        let ours = book
            .subjects(step)
            .into_iter()
            .filter(|one| book.is_ours(one));
        ours.filter_map(|one| book.median(step, one, "peak_mb"))
            .max_by(f64::total_cmp)
    };
    book.steps_of("drain")
        .into_iter()
        .filter_map(of_step)
        .max_by(f64::total_cmp)
}

/// The largest median of a step's subjects.
fn slowest(book: &Book, step: &str, figure: &str) -> Option<f64> {
    let subjects = book.subjects(step).into_iter();
    let medians = subjects.filter_map(|subject| book.median(step, subject, figure));
    medians.max_by(f64::total_cmp)
}

fn held_rate(book: &Book, figure: &str) -> Option<f64> {
    let clean = book.median(STEADY, STREAM, figure)?;
    Some(100.0 * book.median("held", STREAM, figure)? / clean)
}

/// In the segments of the outbox; the one row of a stream's progress is not among them.
fn dead(book: &Book) -> Option<f64> {
    let streams = book
        .measurements()
        .filter(|one| one.subject == STREAM && one.failed.is_none());
    let counts = streams
        .filter(|one| one.figures.get("died_tuples").is_some())
        .map(|one| {
            let of_segments = one.figures.iter().filter(|(name, _)| is_segment(name));
            of_segments.fold(0.0, |sum, (_, died)| sum + died)
        });
    counts.max_by(f64::total_cmp)
}

fn is_segment(figure: &str) -> bool {
    figure
        .strip_prefix("died_tuples postrider_outbox_")
        .is_some_and(|segment| segment.bytes().all(|byte| byte.is_ascii_digit()))
}

fn tenths(book: &Book, subject: &str) -> Option<f64> {
    let figures = ("last_tenth_per_sec", "first_tenth_per_sec");
    let share = book.median_per("drain-1000000", subject, figures.0, figures.1);
    share.map(|share| 100.0 * share)
}

fn wrong(book: &Book) -> Option<f64> {
    let ours = book.measurements().filter(|one| book.is_ours(&one.subject));
    let counts =
        ours.filter_map(|one| Some(one.figures.get("lost")? + one.figures.get("inverted")?));
    counts.reduce(|sum, count| sum + count)
}

pub(super) fn table(book: &Book) -> String {
    let mut table = Table::new(&["goal", "wanted", "measured", ""]);
    for goal in &GOALS {
        let measured = (goal.measured)(book);
        let (wanted, unit, is_met) = match goal.bound {
            AtLeast(bound, unit) => (
                format!("≥ {bound}{unit}"),
                unit,
                measured.map(|it| it >= bound),
            ),
            AtMost(bound, unit) => (
                format!("≤ {bound}{unit}"),
                unit,
                measured.map(|it| it <= bound),
            ),
        };
        let measured = measured.map_or("–".into(), |it| format!("{}{unit}", thousands(it)));
        let verdict = match is_met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "not measured",
        };
        table.row([goal.what.into(), wanted, measured, verdict.into()]);
    }
    format!("\n### Goals\n{}", table.text())
}
