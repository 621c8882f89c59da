//! The process under test: a process group of its own, which ends with us in whatever way we end.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::subject::{Environment, last_lines};
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
    /// `program start`, in this environment.
    pub(crate) fn start(
        program: PathBuf,
        environment: &Environment,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let mut relay = Self {
            program,
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A relay of two processes that eats a little CPU.
    fn start(name: &str) -> (Relay, PathBuf) {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("run");
        let text = "#!/bin/bash\nsleep 600 &\necho started\nexec sleep 600\n";
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let log = folder.join("log");
        let relay = Relay::start(program, &Environment::new(), &log).unwrap();
        (relay, folder)
    }

    #[tokio::test]
    async fn the_whole_group_ends_and_a_new_one_is_started() {
        let (mut relay, folder) = start("bench-relay-restart");
        let two = async || match relay.pids().len() {
            2 => Ok(()),
            other => Err(format!("{other} processes")),
        };
        postrider_testkit::eventually("both run", two).await;
        let before = relay.pids();
        relay.kill_and_restart().unwrap();
        assert!(relay.is_alive());
        assert!(before.iter().all(|pid| !relay.pids().contains(pid)));
        assert!(relay.peak_mb() > 0.0);
        let group = relay.running.as_ref().unwrap().group;
        drop(relay);
        assert_eq!(usage::group(group), Vec::<i32>::new());
        assert!(log_tail(&folder.join("log")).contains("started"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// As when we are killed: nobody is left to ask for it.
    #[tokio::test]
    async fn it_ends_when_the_leash_is_let_go() {
        let (mut relay, folder) = start("bench-relay-leash");
        let running = relay.running.as_mut().unwrap();
        let group = running.group;
        drop(running.leash.take());
        let gone = async || match usage::group(group).len() {
            0 => Ok(()),
            other => Err(format!("{other} processes")),
        };
        postrider_testkit::eventually("all are gone", gone).await;
        std::fs::remove_dir_all(folder).unwrap();
    }
}
