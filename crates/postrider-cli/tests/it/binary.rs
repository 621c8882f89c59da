//! The real binary: run to its end, or started as a relay that is watched, asked and signalled.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use postrider_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A folder with a config, in which the binary is run.
pub(crate) struct Project {
    dir: PathBuf,
    variables: Vec<(String, String)>,
}

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Project {
    pub(crate) fn new(config: &str) -> Self {
        let name = uuid::Uuid::now_v7().simple().to_string();
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("postrider.toml"), config).unwrap();
        Self {
            dir,
            variables: Vec::new(),
        }
    }

    /// A file of the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Starts `postrider relay` and returns once its admin address is open.
    pub(crate) async fn relay(&self) -> Relay {
        let relay = self.spawn_relay();
        relay.address().await;
        relay
    }

    /// The same without waiting.
    pub(crate) fn spawn_relay(&self) -> Relay {
        self.spawn(&["relay"])
    }

    /// Starts any verb that takes a while.
    pub(crate) fn spawn(&self, args: &[&str]) -> Relay {
        let mut child = self
            .command(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, sink) = (child.stderr.take().unwrap(), lines.clone());
        // Ends with the relay, whose end of the pipe closes.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        Relay {
            child: Mutex::new(child),
            lines,
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command
            .args(args)
            .current_dir(&self.dir)
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("POSTRIDER_") {
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        assert!(
            self.stderr.contains(part),
            "`{part}` is not on stderr:\n{}",
            self.stderr
        );
        self
    }

    #[track_caller]
    pub(crate) fn prints(self, part: &str) -> Self {
        assert!(
            self.stdout.contains(part),
            "`{part}` is not on stdout:\n{}",
            self.stdout
        );
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// A running `postrider relay`. Killed when dropped.
pub(crate) struct Relay {
    child: Mutex<Child>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Relay {
    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap().id();
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The most memory that it has had so far.
    pub(crate) fn peak_kib(&self) -> u64 {
        let id = self.child.lock().unwrap().id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix("kB"));
        peak.unwrap().trim().parse().unwrap()
    }

    /// The log so far, line by line.
    pub(crate) fn text(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The log so far; every line must be JSON.
    pub(crate) fn log(&self) -> Vec<Value> {
        let parse = |line: &String| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        self.text().iter().map(parse).collect()
    }

    /// Waits for a line with this message.
    pub(crate) async fn logged(&self, message: &str) -> Value {
        eventually(message, async || {
            let found = self
                .log()
                .into_iter()
                .find(|line| line["message"] == message);
            found.ok_or_else(|| self.text())
        })
        .await
    }

    pub(crate) async fn address(&self) -> String {
        let line = self.logged("admin address is open").await;
        line["address"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        let url = format!("http://{}{path}", self.address().await);
        reqwest::get(url).await.unwrap()
    }

    pub(crate) async fn readyz(&self) -> (u16, Value) {
        let response = self.get("/readyz").await;
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Waits until `/readyz` answers with this status, and gives its body.
    pub(crate) async fn becomes(&self, status: u16) -> Value {
        eventually("readiness", async || match self.readyz().await {
            (found, body) if found == status => Ok(body),
            other => Err((other, self.text())),
        })
        .await
    }

    pub(crate) async fn exit(&self) -> ExitStatus {
        eventually("the relay ends", async || {
            let ended = self.child.lock().unwrap().try_wait().unwrap();
            ended.ok_or_else(|| self.text())
        })
        .await
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        // Has ended already, or is ended here.
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
