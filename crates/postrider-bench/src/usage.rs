//! CPU time and memory of processes, from /proc, and processes that are measured by themselves.

use std::fs;
use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::Command;

use crate::report::Figures;

/// Kernel ticks per second, which Linux fixes for user space.
const TICKS: f64 = 100.0;

/// CPU seconds that this process has used.
pub(crate) fn own_cpu_secs() -> f64 {
    stat("self").map_or(0.0, |process| process.own)
}

/// CPU seconds of all Postgres server processes, those that ended included.
pub(crate) fn postgres_cpu_secs() -> f64 {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0.0;
    };
    entries
        .flatten()
        .filter_map(|entry| stat(entry.file_name().to_str()?))
        .filter(|process| process.name == "postgres")
        .map(|process| process.own + process.reaped)
        .sum()
}

/// CPU seconds of these processes, and of what they started and saw end.
pub(crate) fn cpu_secs(pids: &[i32]) -> f64 {
    let processes = pids.iter().filter_map(|pid| stat(&pid.to_string()));
    processes.map(|process| process.own + process.reaped).sum()
}

/// The living processes of a process group.
pub(crate) fn group(id: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        stat(&pid.to_string()).is_some_and(|process| process.group == id && !process.is_zombie)
    })
    .collect()
}

/// The most memory that this process has held, in MB.
pub(crate) fn own_peak_mb() -> f64 {
    peak_mb("self")
}

/// The most memory that a process has held, in MB.
pub(crate) fn peak_mb(pid: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse::<f64>().ok())
        .unwrap_or(0.0)
        / 1024.0
}

/// Runs this program again with other arguments, so that its CPU time and memory are its own, and reads the figures
/// that it prints as one line of JSON.
pub(crate) async fn measure_child<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
) -> anyhow::Result<Figures> {
    let postgres = postgres_cpu_secs();
    let output = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .await?;
    let status = output.status;
    anyhow::ensure!(status.success(), "the measured process ended with {status}");
    let line: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let figure = |name: &str| line[name].as_f64().with_context(|| format!("no {name}"));
    Ok(Figures {
        per_sec: figure("per_sec")?,
        steadiness: line["steadiness"].as_f64(),
        own_cpu_secs: Some(figure("cpu_secs")?),
        postgres_cpu_secs: Some(postgres_cpu_secs() - postgres),
        peak_mb: Some(figure("peak_mb")?),
    })
}

struct Process {
    name: String,
    group: i32,
    is_zombie: bool,
    own: f64,
    reaped: f64,
}

fn stat(pid: &str) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|n| n.parse::<f64>().ok())
            .unwrap_or(0.0)
            / TICKS
    };
    Some(Process {
        name: head.split_once('(')?.1.to_owned(),
        group: fields.get(2)?.parse().ok()?,
        is_zombie: fields.first() == Some(&"Z"),
        own: ticks(11) + ticks(12),
        reaped: ticks(13) + ticks(14),
    })
}
