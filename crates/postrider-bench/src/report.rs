//! The figures of a run: every round in JSON on stdout, medians and ratios as a table on stderr.

use std::collections::BTreeMap;

use serde_json::json;

use crate::stats;

/// One measurement. What was not measured is absent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) per_sec: f64,
    /// Rate of the last tenth over that of the second: the first warms up.
    pub(crate) steadiness: Option<f64>,
    /// Of the process that is measured.
    pub(crate) own_cpu_secs: Option<f64>,
    pub(crate) postgres_cpu_secs: Option<f64>,
    pub(crate) peak_mb: Option<f64>,
}

/// What a bench is about.
pub(crate) struct Subject {
    pub(crate) bench: &'static str,
    pub(crate) records: u32,
    pub(crate) bytes: u32,
    /// What all rates are a share of.
    pub(crate) limit: &'static str,
    /// Pairs whose ratio is printed, with what it means.
    pub(crate) pairs: &'static [(&'static str, &'static str, &'static str)],
}

pub(crate) struct Report {
    subject: Subject,
    rounds: BTreeMap<&'static str, Vec<Figures>>,
}

impl Report {
    pub(crate) fn new(subject: Subject) -> Self {
        Self {
            subject,
            rounds: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, name: &'static str, figures: Figures) {
        eprintln!("  {name:<20} {:>9.0}/s", figures.per_sec);
        self.rounds.entry(name).or_default().push(figures);
    }

    pub(crate) fn print(&self) -> anyhow::Result<()> {
        let Subject {
            records,
            bytes,
            limit,
            ..
        } = self.subject;
        let most = self.median(limit, |f| Some(f.per_sec)).unwrap_or(f64::NAN);
        eprintln!("\n{records} records of {bytes} bytes, medians");
        eprintln!(
            "| | records/s | of {limit} | last/second tenth | own CPU s | Postgres CPU s | peak MB |"
        );
        eprintln!("|---|---|---|---|---|---|---|");
        for name in self.rounds.keys() {
            let rate = self.median(name, |f| Some(f.per_sec)).unwrap_or(f64::NAN);
            let cell = |figure: fn(&Figures) -> Option<f64>, digits: usize| {
                self.median(name, figure)
                    .map_or("–".into(), |value| format!("{value:.digits$}"))
            };
            eprintln!(
                "| {name} | {rate:.0} | {:.1} % | {} | {} | {} | {} |",
                100.0 * rate / most,
                cell(|f| f.steadiness, 2),
                cell(|f| f.own_cpu_secs, 2),
                cell(|f| f.postgres_cpu_secs, 2),
                cell(|f| f.peak_mb, 0),
            );
        }
        let rate = |name: &str| self.median(name, |f| Some(f.per_sec));
        for (name, than, meaning) in self.subject.pairs {
            if let (Some(rate), Some(than)) = (rate(name), rate(than)) {
                eprintln!("{name}: {:.1} × {meaning}", rate / than);
            }
        }
        println!("{}", serde_json::to_string_pretty(&self.json())?);
        Ok(())
    }

    fn json(&self) -> serde_json::Value {
        let rounds: BTreeMap<_, Vec<_>> = self
            .rounds
            .iter()
            .map(|(name, rounds)| {
                let rows = rounds.iter().map(|f| {
                    json!({
                        "records_per_sec": f.per_sec, "steadiness": f.steadiness,
                        "own_cpu_secs": f.own_cpu_secs, "postgres_cpu_secs": f.postgres_cpu_secs,
                        "peak_mb": f.peak_mb,
                    })
                });
                (name, rows.collect())
            })
            .collect();
        json!({
            "bench": self.subject.bench, "records": self.subject.records,
            "payload_bytes": self.subject.bytes,
            "version": env!("CARGO_PKG_VERSION"),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "rounds": rounds,
        })
    }

    fn median(&self, name: &str, figure: fn(&Figures) -> Option<f64>) -> Option<f64> {
        stats::median(self.rounds.get(name)?.iter().filter_map(figure).collect())
    }
}
