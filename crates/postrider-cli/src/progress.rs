//! How far a long command is: a bar on a terminal, a line every few seconds elsewhere, nothing beside JSON. All of it on
//! stderr.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};

use crate::output;

/// Between two lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Progress {
    shown: Shown,
    stage: String,
    begun: Instant,
    /// What was done when the stage began, for the rate.
    done_before: u64,
}

enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Progress {
    /// `quiet` is for JSON.
    pub(crate) fn new(quiet: bool) -> Self {
        let shown = match quiet {
            true => Shown::Nothing,
            false if std::io::stderr().is_terminal() => Shown::Bar(bar()),
            false => Shown::Lines {
                last: Instant::now(),
            },
        };
        Self {
            shown,
            stage: String::new(),
            begun: Instant::now(),
            done_before: 0,
        }
    }

    /// Tells how it stands; `total` 0 is not known. `waiting` says why nothing moves.
    pub(crate) fn tell(&mut self, stage: &str, done: u64, total: u64, waiting: Option<&str>) {
        if self.stage != stage {
            self.stage = stage.into();
            self.begun = Instant::now();
            self.done_before = done;
            if let Shown::Bar(bar) = &self.shown {
                bar.reset();
                bar.set_prefix(self.stage.clone());
            }
        }
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_length(total.max(done));
                bar.set_position(done);
                bar.set_message(waiting.map(one_line).unwrap_or_default());
            }
            Shown::Lines { last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                let rate = rate(done.saturating_sub(self.done_before), self.begun.elapsed());
                output::note(&line(stage, done, total, rate, waiting));
            }
            Shown::Lines { .. } | Shown::Nothing => {}
        }
    }

    /// Says something without disturbing the bar.
    pub(crate) fn note(&self, text: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| output::note(text)),
            Shown::Lines { .. } | Shown::Nothing => output::note(text),
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    const SHAPE: &str = "{prefix} {wide_bar} {human_pos}/{human_len} {per_sec:.0} {eta} left {msg}";
    // The shape is a constant, and a test draws it.
    let style =
        ProgressStyle::with_template(SHAPE).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn rate(done: u64, took: Duration) -> u64 {
    (done as f64 / took.as_secs_f64().max(0.001)) as u64
}

fn line(stage: &str, done: u64, total: u64, rate: u64, waiting: Option<&str>) -> String {
    let (done_text, rate_text) = (HumanCount(done), HumanCount(rate));
    let mut line = match total {
        0 => format!("{stage}: {done_text}, {rate_text} a second"),
        _ => format!(
            "{stage}: {done_text} of {}, {rate_text} a second",
            HumanCount(total)
        ),
    };
    if let Some(left) = total.saturating_sub(done).checked_div(rate)
        && total > 0
    {
        line.push_str(&format!(
            ", {} left",
            HumanDuration(Duration::from_secs(left))
        ));
    }
    if let Some(waiting) = waiting {
        line.push_str(&format!("; waits: {}", one_line(waiting)));
    }
    line
}

fn one_line(text: &str) -> String {
    output::cell(text, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_shape_can_be_drawn() {
        assert!(ProgressStyle::with_template("{prefix} {wide_bar}").is_ok());
        let bar = bar();
        bar.set_length(10);
        bar.set_position(5);
        bar.finish_and_clear();
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        assert_eq!(
            line("sending", 1_500, 10_000, 500, None),
            "sending: 1,500 of 10,000, 500 a second, 17 seconds left"
        );
        assert_eq!(
            line("looking", 7, 0, 0, Some("broker\nunavailable")),
            "looking: 7, 0 a second; waits: broker unavailable"
        );
    }
}
