//! The machine: what it is, and whether it has something else to do.

use std::fs;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gb: f64,
    pub(crate) kernel: String,
}

pub(crate) fn machine() -> Machine {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let memory = field("/proc/meminfo", "MemTotal");
    let kb: f64 = memory
        .split_whitespace()
        .next()
        .and_then(|kb| kb.parse().ok())
        .unwrap_or(0.0);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        cpu: field("/proc/cpuinfo", "model name"),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gb: (kb / 1024.0 / 1024.0).round(),
        kernel: format!(
            "Linux {}",
            release.split('-').next().unwrap_or_default().trim()
        ),
    }
}

/// How busy the machine was with other things right before a measurement.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Quiet {
    /// Share of all cores that was busy.
    pub(crate) busy: f64,
    pub(crate) waited_secs: f64,
}

const BUSY_MAX: f64 = 0.08;
const LOOK: Duration = Duration::from_millis(500);

/// Waits until the machine has next to nothing to do, or for the given time.
pub(crate) async fn wait(patience: Duration) -> Quiet {
    let start = Instant::now();
    loop {
        let before = ticks();
        tokio::time::sleep(LOOK).await;
        let busy = busy_between(before, ticks());
        if busy <= BUSY_MAX || start.elapsed() >= patience {
            let waited_secs = start.elapsed().as_secs_f64();
            return Quiet { busy, waited_secs };
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    idle: f64,
    all: f64,
}

fn ticks() -> Ticks {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let numbers: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|number| number.parse().ok())
        .collect();
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0.0);
    Ticks {
        // Waiting for a disk is not work.
        idle: at(3) + at(4),
        all: numbers.iter().sum(),
    }
}

fn busy_between(before: Ticks, after: Ticks) -> f64 {
    let all = (after.all - before.all).max(1.0);
    (1.0 - (after.idle - before.idle) / all).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_the_share_that_is_not_idle() {
        let before = Ticks {
            idle: 100.0,
            all: 1000.0,
        };
        let after = Ticks {
            idle: 150.0,
            all: 1200.0,
        };
        assert!((busy_between(before, after) - 0.75).abs() < 1e-9);
        assert_eq!(busy_between(before, before), 1.0);
    }
}
