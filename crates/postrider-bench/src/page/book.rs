//! All measurements of the stored runs, by step and subject.

use crate::run::results::{Kept, Measurement, Results};
use crate::stats;

pub(crate) struct Book {
    pub(crate) runs: Vec<Results>,
}

/// What counts as *the* rate of a drain, and what others are compared with.
pub(crate) const PRODUCE_ONLY: &str = "produce-only";
pub(crate) const READ_ONLY: &str = "read-only";
pub(crate) const DEBEZIUM: &str = "debezium-tuned";
pub(crate) const WATERMILL: &str = "watermill-tuned";

impl Book {
    pub(crate) fn new(runs: Vec<Results>) -> Self {
        Self { runs }
    }

    pub(crate) fn measurements(&self) -> impl Iterator<Item = &Measurement> {
        self.runs.iter().flat_map(|run| &run.measurements)
    }

    /// Steps in the order they were measured.
    pub(crate) fn steps(&self) -> Vec<&str> {
        unique(self.measurements().map(|one| one.step.as_str()))
    }

    /// Those of a phase, the largest last.
    pub(crate) fn steps_of(&self, phase: &str) -> Vec<&str> {
        let prefix = format!("{phase}-");
        let is_numbered = |step: &str| {
            let number = step.strip_prefix(&prefix);
            number.is_some_and(|number| number.parse::<u64>().is_ok())
        };
        let is_of = |step: &&str| *step == phase || is_numbered(step);
        let mut steps: Vec<&str> = self.steps().into_iter().filter(is_of).collect();
        steps.sort_by_key(|step| number(step));
        steps
    }

    /// Subjects of a step in the order they were measured.
    pub(crate) fn subjects(&self, step: &str) -> Vec<&str> {
        let of_step = self.measurements().filter(|one| one.step == step);
        unique(of_step.map(|one| one.subject.as_str()))
    }

    /// Each once, by name, as the last run that had it says.
    pub(crate) fn all_subjects(&self) -> Vec<&Kept> {
        let subjects = self.runs.iter().flat_map(|run| &run.subjects);
        let names = unique(subjects.map(|one| one.name.as_str()));
        names
            .into_iter()
            .filter_map(|name| self.subject(name))
            .collect()
    }

    fn subject(&self, name: &str) -> Option<&Kept> {
        let mut subjects = self.runs.iter().rev().flat_map(|run| &run.subjects);
        subjects.find(|one| one.name == name)
    }

    pub(crate) fn title<'a>(&'a self, subject: &'a str) -> &'a str {
        self.subject(subject).map_or(subject, |one| &one.title)
    }

    pub(crate) fn is_ours(&self, subject: &str) -> bool {
        self.subject(subject).is_some_and(|one| !one.peer)
    }

    fn warms_up(&self, subject: &str) -> bool {
        self.subject(subject).is_some_and(|one| one.warms_up)
    }

    pub(crate) fn values(&self, step: &str, subject: &str, figure: &str) -> Vec<f64> {
        self.of(step, subject)
            .filter_map(|one| one.figures.get(figure))
            .collect()
    }

    fn of(&self, step: &str, subject: &str) -> impl Iterator<Item = &Measurement> {
        self.measurements()
            .filter(move |one| one.step == step && one.subject == subject)
    }

    pub(crate) fn median(&self, step: &str, subject: &str, figure: &str) -> Option<f64> {
        stats::median(self.values(step, subject, figure))
    }

    pub(crate) fn worst(&self, step: &str, subject: &str, figure: &str) -> Option<f64> {
        stats::spread(&self.values(step, subject, figure)).map(|(_, high)| high)
    }

    /// The median of a figure divided by that of the same round.
    pub(crate) fn median_per(
        &self,
        step: &str,
        subject: &str,
        figure: &str,
        per: &str,
    ) -> Option<f64> {
        let each = self.of(step, subject).filter_map(|one| {
            let per = one.figures.get(per).filter(|per| *per > 0.0)?;
            Some(one.figures.get(figure)? / per)
        });
        stats::median(each.collect())
    }

    /// A latency with a held transaction, by that of the same trial before it was held. Runs that had no such time are
    /// compared with the steady load.
    pub(crate) fn held(&self, step: &str, subject: &str, rank: &str) -> Option<f64> {
        let figure = format!("latency_{rank}_ms");
        let of_trial = self.median_per(step, subject, &figure, &format!("clean_{figure}"));
        of_trial.or_else(|| {
            let clean = self.median("steady-2000", subject, &figure)?;
            Some(self.median(step, subject, &figure)? / clean)
        })
    }

    /// The figure that counts as the rate of a drain: what warms up is judged by its second half.
    pub(crate) fn rate_figure(&self, subject: &str) -> &'static str {
        if self.warms_up(subject) {
            "second_half_per_sec"
        } else {
            "per_sec"
        }
    }

    pub(crate) fn rate(&self, step: &str, subject: &str) -> Option<f64> {
        self.median(step, subject, self.rate_figure(subject))
    }

    /// The largest drain that all of these took part in.
    pub(crate) fn drain_of(&self, subjects: &[&str]) -> Option<&str> {
        let steps = self.steps_of("drain");
        let all = |step: &&&str| subjects.iter().all(|one| self.rate(step, one).is_some());
        steps.iter().rev().find(all).copied()
    }

    /// How many times the rate of another in the largest drain that both took part in.
    pub(crate) fn times(&self, subject: &str, other: &str) -> Option<f64> {
        let step = self.drain_of(&[subject, other])?;
        Some(self.rate(step, subject)? / self.rate(step, other)?)
    }

    /// CPU seconds of the relay for 100,000 records; of what warms up without its start.
    pub(crate) fn relay_cpu(&self, step: &str, subject: &str) -> Option<f64> {
        if self.warms_up(subject) {
            let half = self.median_per(step, subject, "second_half_relay_cpu_secs", "records");
            return half.map(|half| half * 2.0 * 100_000.0);
        }
        let all = self.median_per(step, subject, "relay_cpu_secs", "records");
        all.map(|all| all * 100_000.0)
    }
}

/// The number at the end of a step's name.
pub(crate) fn number(step: &str) -> u64 {
    step.rsplit('-')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
