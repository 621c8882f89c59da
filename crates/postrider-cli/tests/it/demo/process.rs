//! `postrider demo` as a process, and a person who reads what it prints and does what it says.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use postrider_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A folder for the files of demos, which must be as empty in the end as a demo says.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        let name = format!("demo-{}", uuid::Uuid::now_v7().simple());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command
            .arg("demo")
            .args(args)
            .env("TMPDIR", &self.0)
            .stdin(Stdio::null());
        command
    }

    /// Runs a demo that is expected to end by itself.
    pub(crate) fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let Output { status, stderr, .. } = self.command(args).output().unwrap();
        (status.code(), String::from_utf8(stderr).unwrap())
    }

    /// Starts a demo on a free port and returns when it has said everything.
    pub(crate) async fn start(&self, args: &[&str]) -> Demo {
        let args = [&["--port", "0"], args].concat();
        let mut child = self
            .command(&args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let demo = Demo {
            stdout: lines(child.stdout.take().unwrap()),
            stderr: lines(child.stderr.take().unwrap()),
            child: Mutex::new(child),
        };
        demo.says("Stop it with Ctrl-C.").await;
        demo
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Ends with the process, whose end of the pipe closes.
fn lines(from: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let sink = lines.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            sink.lock().unwrap().push(line);
        }
    });
    lines
}

/// A running demo. Killed when dropped.
pub(crate) struct Demo {
    child: Mutex<Child>,
    stdout: Lines,
    stderr: Lines,
}

impl Demo {
    pub(crate) fn text(&self) -> String {
        self.stdout.lock().unwrap().join("\n")
    }

    /// What the terminal would show beside what the demo says.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.stderr.lock().unwrap().clone()
    }

    pub(crate) async fn says(&self, part: &str) {
        eventually(part, async || match self.text() {
            text if text.contains(part) => Ok(()),
            text => Err((text, self.complaints())),
        })
        .await;
    }

    /// `http://127.0.0.1:<port>`.
    pub(crate) fn address(&self) -> String {
        let text = self.text();
        let (_, rest) = text.split_once("Postrider demo: ").unwrap();
        rest.lines().next().unwrap().trim_end_matches('/').into()
    }

    /// The printed commands that contain this.
    pub(crate) fn printed(&self, part: &str) -> Vec<String> {
        let text = self.text();
        let commands = text.lines().map(str::trim);
        let commands =
            commands.filter(|line| line.starts_with("curl ") || line.contains(" --config "));
        commands
            .filter(|line| line.contains(part))
            .map(Into::into)
            .collect()
    }

    /// Runs the only printed command that contains this.
    pub(crate) fn does(&self, part: &str) -> String {
        let commands = self.printed(part);
        let [command] = commands.as_slice() else {
            panic!("{part}: {commands:?}");
        };
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new("sh").args(["-c", command]).output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr),
        );
        assert!(status.success(), "{command}: {status} {stdout} {stderr}");
        stdout.into_owned()
    }

    pub(crate) fn answer(&self, part: &str) -> Value {
        let text = self.does(part);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{part}: {error}: {text}"))
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = reqwest::get(format!("{}{path}", self.address())).await;
        let response = response.unwrap();
        assert!(response.status().is_success(), "{path}: {response:?}");
        response.json().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.address());
        let response = reqwest::Client::new().post(url).json(body).send().await;
        let response = response.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap().id();
        let pid = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Ctrl-C; it must end well.
    pub(crate) async fn stop(self) -> String {
        self.ends_by(Signal::INT).await
    }

    pub(crate) async fn ends_by(self, signal: Signal) -> String {
        self.signal(signal);
        assert_eq!(self.exit().await, Some(0), "{:?}", self.complaints());
        self.says("Stopped.").await;
        self.text()
    }

    pub(crate) async fn kill(self) {
        self.signal(Signal::KILL);
        assert_eq!(self.exit().await, None);
    }

    async fn exit(&self) -> Option<i32> {
        let ended = eventually("the demo ends", async || {
            let ended = self.child.lock().unwrap().try_wait().unwrap();
            ended.ok_or_else(|| (self.text(), self.complaints()))
        })
        .await;
        ended.code()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        // Has ended already, or is ended here.
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// As an argument.
pub(crate) fn argument(path: &Path) -> &str {
    path.to_str().unwrap()
}
