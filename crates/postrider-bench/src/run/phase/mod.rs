//! What is measured: one file per phase.

mod drain;
mod emit;
mod held;
mod idle;
mod kill;
pub(crate) mod limit;
mod live;
mod outage;
mod steady;
mod stuck;
mod trial;

use serde::Deserialize;

pub(crate) use held::Hold;
pub(crate) use trial::{Bounds, Trial};

use super::results::Figures;

/// In the order of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    Drain,
    Steady,
    Held,
    HeldWriter,
    Kill,
    Outage,
    Idle,
    Stuck,
    Emit,
}

/// A phase with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Drain { records: u64 },
    Steady { rate: u64, secs: u64 },
    Held { rate: u64, hold: Hold },
    Kill { rate: u64, secs: u64 },
    Outage { rate: u64, secs: u64 },
    Idle { secs: u64 },
    Stuck { records: u64, secs: u64 },
    Emit { per_statement: u64, rows: u64 },
}

impl Step {
    pub(crate) fn phase(self) -> Phase {
        match self {
            Self::Drain { .. } => Phase::Drain,
            Self::Steady { .. } => Phase::Steady,
            Self::Held { hold, .. } if hold.writes => Phase::HeldWriter,
            Self::Held { .. } => Phase::Held,
            Self::Kill { .. } => Phase::Kill,
            Self::Outage { .. } => Phase::Outage,
            Self::Idle { .. } => Phase::Idle,
            Self::Stuck { .. } => Phase::Stuck,
            Self::Emit { .. } => Phase::Emit,
        }
    }

    /// What results call it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Drain { records } => format!("drain-{records}"),
            Self::Steady { rate, .. } => format!("steady-{rate}"),
            Self::Held { hold, .. } if hold.writes => "held-writer".into(),
            Self::Held { .. } => "held".into(),
            Self::Kill { .. } => "kill".into(),
            Self::Outage { .. } => "outage".into(),
            Self::Idle { .. } => "idle".into(),
            Self::Stuck { records, .. } => format!("stuck-{records}"),
            Self::Emit { per_statement, .. } => format!("emit-{per_statement}"),
        }
    }

    /// Whether it takes minutes by itself, so that a few rounds must do.
    pub(crate) fn is_long(self) -> bool {
        matches!(
            self.phase(),
            Phase::Held
                | Phase::HeldWriter
                | Phase::Kill
                | Phase::Outage
                | Phase::Idle
                | Phase::Stuck
        )
    }

    /// Whether events are written while the relay runs.
    pub(crate) fn has_writers(self) -> bool {
        matches!(
            self.phase(),
            Phase::Steady | Phase::Held | Phase::HeldWriter | Phase::Kill | Phase::Outage
        )
    }

    /// Whether anything is sent to the broker.
    pub(crate) fn sends(self) -> bool {
        !matches!(self.phase(), Phase::Stuck | Phase::Emit)
    }

    pub(crate) async fn measure(self, trial: &mut Trial<'_>) -> anyhow::Result<Figures> {
        match self {
            Self::Drain { records } => drain::measure(trial, records).await,
            Self::Steady { rate, secs } => steady::measure(trial, rate, secs).await,
            Self::Held { rate, hold } => held::measure(trial, rate, hold).await,
            Self::Kill { rate, secs } => kill::measure(trial, rate, secs).await,
            Self::Outage { rate, secs } => outage::measure(trial, rate, secs).await,
            Self::Idle { secs } => idle::measure(trial, secs).await,
            Self::Stuck { records, secs } => stuck::measure(trial, records, secs).await,
            Self::Emit {
                per_statement,
                rows,
            } => emit::measure(trial, per_statement, rows).await,
        }
    }
}
