//! A program that runs, and what it has logged.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider_testkit::eventually_within;
use serde_json::Value;

/// A JVM on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Killed when dropped.
pub(crate) struct Process {
    pub(crate) name: String,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    pub(crate) fn start(name: impl Into<String>, mut command: Command) -> Self {
        // A group of its own, which Ctrl-C is for as a whole.
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, sink) = (child.stderr.take().unwrap(), lines.clone());
        // Ends with the process, whose end of the pipe closes.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        let name = name.into();
        Self { name, child, lines }
    }

    /// The log so far, line by line.
    pub(crate) fn text(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The log so far; every line must be JSON.
    pub(crate) fn log(&self) -> Vec<Value> {
        let parse = |line: &String| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{} logs {line}: {error}", self.name))
        };
        self.text().iter().map(parse).collect()
    }

    /// Waits for a line with this message.
    pub(crate) async fn logged(&self, message: &str) -> Value {
        eventually_within(PATIENCE, message, async || {
            let log = self.log();
            let found = log.into_iter().find(|line| line["message"] == message);
            found.ok_or_else(|| self.text())
        })
        .await
    }

    /// Where it listens: as a service says it, or as the relay does.
    pub(crate) async fn address(&self) -> String {
        eventually_within(PATIENCE, "it listens", async || {
            let log = self.log();
            let port = log.iter().find(|line| line["message"] == "listening");
            let port = port.and_then(|line| line["port"].as_u64());
            let admin = log.iter().find_map(|line| line["address"].as_str());
            let port = port.map(|port| format!("127.0.0.1:{port}"));
            let address = port.or_else(|| admin.map(Into::into));
            let url = address.map(|address| format!("http://{address}"));
            url.ok_or_else(|| self.text())
        })
        .await
    }

    /// SIGTERM, upon which it must end with 0. Gives the whole log.
    pub(crate) async fn stop(mut self) -> Vec<Value> {
        let ended = self.child.try_wait().unwrap();
        assert_eq!(
            ended,
            None,
            "{} ended by itself: {:#?}",
            self.name,
            self.text()
        );
        let pid = self.child.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(told.unwrap().success());
        let status = self.end().await;
        assert!(
            status.success(),
            "{}: {status}: {:#?}",
            self.name,
            self.text()
        );
        self.log()
    }

    /// Waits for a line with this text in it: four JVMs may have to start first.
    pub(crate) async fn said(&mut self, text: &str) {
        eventually_within(4 * PATIENCE, text, async || {
            let ended = self.child.try_wait().unwrap();
            assert_eq!(ended, None, "{}: {:#?}", self.name, self.lines);
            let lines = self.text();
            match lines.iter().any(|line| line.contains(text)) {
                true => Ok(()),
                false => Err(lines),
            }
        })
        .await;
    }

    /// Ctrl-C, which the whole group gets. It must end with 0, and leave no process behind.
    pub(crate) async fn interrupt(mut self) -> Vec<String> {
        let group = self.child.id().to_string();
        let told = Command::new("kill")
            .args(["-INT", "--", &format!("-{group}")])
            .status();
        assert!(told.unwrap().success());
        let status = self.end().await;
        assert!(status.success(), "{status}: {:#?}", self.text());
        let left = Command::new("pgrep").args(["-a", "-g", &group]).output();
        let left = String::from_utf8(left.unwrap().stdout).unwrap();
        assert_eq!(left, "", "processes are left");
        self.text()
    }

    async fn end(&mut self) -> ExitStatus {
        let (name, child, lines) = (&self.name, &mut self.child, &self.lines);
        eventually_within(PATIENCE, "the process ends", async || {
            let ended = child.try_wait().unwrap();
            ended.ok_or_else(|| (name, lines.lock().unwrap().clone()))
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Has ended already, or is ended here.
        if matches!(self.child.try_wait(), Ok(None)) {
            let group = format!("-{}", self.child.id());
            let killed = Command::new("kill").args(["-KILL", "--", &group]).status();
            killed.unwrap();
            self.child.wait().unwrap();
        }
        if std::thread::panicking() {
            eprintln!("{} logged:\n{}", self.name, self.text().join("\n"));
        }
    }
}

/// Stops all of them at once, and gives all that they have logged.
pub(crate) async fn stop_all(processes: impl IntoIterator<Item = Process>) -> Vec<Value> {
    let stopping = processes.into_iter().map(Process::stop);
    futures::future::join_all(stopping).await.concat()
}
