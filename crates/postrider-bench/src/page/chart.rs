//! Charts as SVG: plain shapes and text, readable on light and dark pages.

use std::fmt::Write as _;

use super::book::{Book, PRODUCE_ONLY, READ_ONLY, number};
use super::tables::thousands;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 210.0;
const RIGHT: f64 = 130.0;
const ROW: f64 = 30.0;
const TOP: f64 = 64.0;

const STYLE: &str = "\
text { font: 13px system-ui, sans-serif; fill: #1f2328; } .title { font-size: 16px; font-weight: 600; } \
.note { fill: #59636e; font-size: 12px; } .ours { fill: #0969da; } .peer { fill: #8c959f; } .limit { fill: #d0d7de; } \
.tail { opacity: 0.45; } .axis { stroke: #d0d7de; } \
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .note { fill: #9198a1; } .ours { fill: #4493f8; } \
.peer { fill: #6e7681; } .limit { fill: #3d444d; } .axis { stroke: #3d444d; } }";

/// One for every drain and every steady load: file name and text.
pub(super) fn all(book: &Book) -> Vec<(String, String)> {
    let drains = book.steps_of("drain").into_iter();
    let drains = drains.map(|step| (format!("{step}.svg"), drain(book, step)));
    let loads = book.steps_of("steady").into_iter();
    let loads = loads.map(|step| (format!("{step}.svg"), latency(book, step)));
    drains.chain(loads).collect()
}

struct Bar {
    title: String,
    class: &'static str,
    /// From the left, each with the share of the width that it ends at.
    parts: Vec<(f64, &'static str)>,
    label: String,
}

fn class(book: &Book, subject: &str) -> &'static str {
    match subject {
        PRODUCE_ONLY => "limit",
        subject if book.is_ours(subject) => "ours",
        _ => "peer",
    }
}

fn drain(book: &Book, step: &str) -> String {
    let subjects = book.subjects(step).into_iter();
    let mut rates: Vec<(&str, f64)> = subjects
        .filter(|subject| *subject != READ_ONLY)
        .filter_map(|subject| Some((subject, book.rate(step, subject)?)))
        .collect();
    rates.sort_by(|one, other| other.1.total_cmp(&one.1));
    let most = rates.first().map_or(1.0, |first| first.1);
    let bars = rates.iter().map(|(subject, rate)| Bar {
        title: book.title(subject).to_owned(),
        class: class(book, subject),
        parts: vec![(rate / most, "")],
        label: format!("{}/s", thousands(*rate)),
    });
    let title = format!(
        "Drain of {} records: records per second",
        thousands(number(step) as f64)
    );
    let note = "median of all rounds; what warms up by its second half; blue: ours, grey: peers, light: the limit";
    svg(&title, note, &bars.collect::<Vec<_>>(), &[])
}

/// On a logarithmic scale: they differ by orders of magnitude.
fn latency(book: &Book, step: &str) -> String {
    const LOW: f64 = 0.5;
    let mut found: Vec<(&str, f64, f64)> = book
        .subjects(step)
        .into_iter()
        .filter_map(|subject| {
            let median = |figure| book.median(step, subject, figure);
            Some((
                subject,
                median("latency_p50_ms")?,
                median("latency_p99_ms")?,
            ))
        })
        .collect();
    found.sort_by(|one, other| one.2.total_cmp(&other.2));
    let highest = found.last().map_or(10.0, |last| last.2.max(10.0));
    let share = |ms: f64| ((ms.max(LOW) / LOW).ln() / (highest / LOW).ln()).clamp(0.0, 1.0);
    let bars = found.iter().map(|(subject, p50, p99)| Bar {
        title: book.title(subject).to_owned(),
        class: class(book, subject),
        parts: vec![(share(*p50), ""), (share(*p99), " tail")],
        label: format!("{} / {} ms", thousands(*p50), thousands(*p99)),
    });
    let ticks: Vec<(f64, String)> = [1.0, 10.0, 100.0, 1000.0, 10_000.0]
        .into_iter()
        .filter(|ms| *ms <= highest)
        .map(|ms| (share(ms), format!("{} ms", thousands(ms))))
        .collect();
    let title = format!(
        "Commit to consumer at {}/s: p50 and p99",
        thousands(number(step) as f64)
    );
    let note = "solid: p50, faint: p99; logarithmic scale; median of all rounds";
    svg(&title, note, &bars.collect::<Vec<_>>(), &ticks)
}

fn svg(title: &str, note: &str, bars: &[Bar], ticks: &[(f64, String)]) -> String {
    let bottom = if ticks.is_empty() { 12.0 } else { 30.0 };
    let rows_end = TOP + ROW * bars.len() as f64;
    let height = rows_end + bottom;
    let span = WIDTH - LEFT - RIGHT;
    let mut text = String::new();
    let mut line = |line: String| {
        // Writing to a string cannot fail.
        writeln!(text, "{line}").unwrap_or_default();
    };
    line(format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">"#
    ));
    line(format!("<title>{}</title>", escaped(title)));
    line(format!("<style>{STYLE}</style>"));
    line(format!(
        r#"<text class="title" x="12" y="24">{}</text>"#,
        escaped(title)
    ));
    line(format!(
        r#"<text class="note" x="12" y="44">{}</text>"#,
        escaped(note)
    ));
    for (share, label) in ticks {
        let (x, end) = (LEFT + span * share, rows_end + 4.0);
        line(format!(
            r#"<line class="axis" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{end}"/>"#
        ));
        let y = rows_end + 20.0;
        line(format!(
            r#"<text class="note" x="{x:.1}" y="{y}" text-anchor="middle">{label}</text>"#
        ));
    }
    for (at, bar) in bars.iter().enumerate() {
        let top = TOP + ROW * at as f64;
        let y = top + 19.0;
        let title = escaped(&bar.title);
        line(format!(
            r#"<text x="{:.1}" y="{y}" text-anchor="end">{title}</text>"#,
            LEFT - 10.0
        ));
        let mut from = 0.0;
        for (to, more) in &bar.parts {
            let (x, width) = (LEFT + span * from, (span * (to - from)).max(1.0));
            let (class, top) = (bar.class, top + 5.0);
            line(format!(
                r#"<rect class="{class}{more}" x="{x:.1}" y="{top}" width="{width:.1}" height="20"/>"#
            ));
            from = *to;
        }
        let x = LEFT + span * from + 8.0;
        line(format!(
            r#"<text x="{x:.1}" y="{y}">{}</text>"#,
            escaped(&bar.label)
        ));
    }
    line("</svg>".into());
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
