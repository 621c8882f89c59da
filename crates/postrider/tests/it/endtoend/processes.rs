//! The examples as real processes, to be killed and started again.

use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use postrider_testkit::eventually_within;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::examples;

const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Environment variables of a process.
pub(crate) type Settings = Vec<(&'static str, String)>;

/// One of the library's examples at work.
pub(crate) struct Process {
    example: &'static str,
    settings: Settings,
    child: Child,
}

impl Process {
    pub(crate) fn start(example: &'static str, settings: Settings) -> Self {
        let child = Command::new(examples::binary(example))
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            example,
            settings,
            child,
        }
    }

    fn assert_runs(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert_eq!(ended, None, "a {} ended by itself", self.example);
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.assert_runs();
        self.child.kill().await.unwrap();
    }

    /// SIGKILL, and the same again.
    async fn kill_and_restart(&mut self) {
        self.assert_runs();
        self.child.kill().await.unwrap();
        *self = Self::start(self.example, std::mem::take(&mut self.settings));
    }

    /// SIGTERM, upon which it must end with 0.
    pub(crate) async fn stop(mut self) {
        self.signal("TERM").await;
        let status = self.end().await;
        assert!(status.success(), "{} ended with {status}", self.example);
    }

    /// SIGSTOP, and SIGCONT after a while.
    pub(crate) async fn freeze(&mut self, time: Duration) {
        self.signal("STOP").await;
        tokio::time::sleep(time).await;
        self.signal("CONT").await;
    }

    async fn signal(&mut self, name: &str) {
        self.assert_runs();
        let pid = self.child.id().expect("runs").to_string();
        let told = Command::new("kill").args(["-s", name, &pid]).status().await;
        assert!(told.unwrap().success());
    }

    /// Waits for its own end.
    pub(crate) async fn end(&mut self) -> ExitStatus {
        let ended = timeout(END_TIMEOUT, self.child.wait()).await;
        ended
            .unwrap_or_else(|_| panic!("the {} does not end", self.example))
            .unwrap()
    }
}

/// Kills one after the other for `time` and starts it again; how often.
pub(crate) async fn kill_again_and_again(
    processes: &mut [Process],
    every: Duration,
    time: Duration,
) -> usize {
    let until = Instant::now() + time;
    let mut tick = tokio::time::interval(every);
    // The first tick comes at once, and nothing runs yet.
    tick.tick().await;
    let mut kills = 0;
    while Instant::now() < until {
        tick.tick().await;
        let victim = fastrand::usize(..processes.len());
        processes[victim].kill_and_restart().await;
        kills += 1;
    }
    kills
}

pub(crate) async fn stop_all(processes: Vec<Process>) {
    futures::future::join_all(processes.into_iter().map(Process::stop)).await;
}

/// Waits until two numbers are the same, for as long as a torture's aftermath may take.
pub(crate) async fn until_even<T: PartialEq + std::fmt::Debug>(
    what: &str,
    mut both: impl AsyncFnMut() -> (T, T),
) {
    eventually_within(Duration::from_secs(90), what, async || match both().await {
        (a, b) if a == b => Ok(()),
        (a, b) => Err(format!("{a:?} of {b:?}")),
    })
    .await;
}
