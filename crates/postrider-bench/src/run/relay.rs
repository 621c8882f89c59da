//! The process under test: a process group of its own, which ends with us in whatever way we end.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::subject::{Environment, Subject, last_lines};
use crate::usage;

/// Runs the relay as a job with a process group of its own and waits at its own stdin, which closes when we end.
const GUARD: &str = r#"
set -m
log=$1; shift
"$@" </dev/null >>"$log" 2>&1 &
echo $!
read -r _
kill -KILL -- -$!
wait
"#;

pub(crate) struct Relay {
    program: PathBuf,
    environment: Environment,
    log: PathBuf,
    running: Option<Running>,
    /// Of those that were killed.
    spent_cpu_secs: f64,
    peak_mb: f64,
}

struct Running {
    group: i32,
    guard: Child,
    leash: Option<ChildStdin>,
}

impl Relay {
    pub(crate) fn start(
        subject: &Subject,
        environment: &Environment,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let mut relay = Self {
            program: subject.start_program(),
            environment: environment.clone(),
            log: log.to_owned(),
            running: None,
            spent_cpu_secs: 0.0,
            peak_mb: 0.0,
        };
        relay.spawn()?;
        Ok(relay)
    }

    fn spawn(&mut self) -> anyhow::Result<()> {
        let mut guard = Command::new("bash")
            .args(["-c", GUARD, "guard"])
            .arg(&self.log)
            .arg(&self.program)
            .arg("start")
            .envs(&self.environment)
            // Ctrl-C is for us, and would end the guard before the relay.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        let stdout = guard.stdout.take().context("is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        self.running = Some(Running {
            group: line.trim().parse().context("the guard prints a pid")?,
            leash: guard.stdin.take(),
            guard,
        });
        Ok(())
    }

    /// SIGKILL of the whole group, and a new one at once.
    pub(crate) fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        self.kill();
        self.spawn()
    }

    pub(crate) fn kill(&mut self) {
        self.note_peak();
        self.spent_cpu_secs = self.cpu_secs();
        if let Some(running) = self.running.take() {
            running.end();
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.pids().is_empty()
    }

    /// Of the group, those killed included.
    pub(crate) fn cpu_secs(&self) -> f64 {
        self.spent_cpu_secs + usage::cpu_secs(&self.pids())
    }

    /// The most that the group has held: the sum of its processes' own peaks.
    pub(crate) fn peak_mb(&mut self) -> f64 {
        self.note_peak();
        self.peak_mb
    }

    fn note_peak(&mut self) {
        let pids = self.pids().into_iter();
        let now = pids.map(|pid| usage::peak_mb(&pid.to_string())).sum();
        self.peak_mb = self.peak_mb.max(now);
    }

    fn pids(&self) -> Vec<i32> {
        let running = self.running.as_ref();
        running.map_or_else(Vec::new, |running| usage::group(running.group))
    }
}

pub(crate) fn log_tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(&text), 20)
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Running {
    fn end(mut self) {
        drop(self.leash.take());
        if let Err(error) = self.guard.wait() {
            eprintln!("the relay's guard: {error}");
        }
        let start = Instant::now();
        while !usage::group(self.group).is_empty() && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
