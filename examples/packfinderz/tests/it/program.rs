//! One of the programs, started with nothing but its environment, then watched, asked and signalled.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use postrider_testkit::eventually;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use serde_json::Value;

/// Killed when dropped, with whatever it has started.
pub(crate) struct Program {
    child: Mutex<Child>,
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl Program {
    /// Starts a command in an environment of these variables alone.
    pub(crate) fn start(mut command: Command, variables: &[(String, String)]) -> Self {
        command.env_clear().envs(variables.iter().cloned());
        Self::spawn(command)
    }

    /// Starts a command that has its environment.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, sink) = (child.stderr.take().unwrap(), lines.clone());
        // Ends when nobody has the other end of the pipe any more.
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        Self {
            child: Mutex::new(child),
            lines,
            reader,
        }
    }

    pub(crate) fn text(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// The log so far. Lines that are not JSON are not the log's.
    pub(crate) fn log(&self) -> Vec<Value> {
        let parse = |line: &String| serde_json::from_str(line).ok();
        self.text().iter().filter_map(parse).collect()
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

    pub(crate) async fn url(&self, path: &str) -> String {
        let line = self.logged("listening").await;
        format!("http://{}{path}", line["address"].as_str().unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let response = reqwest::get(self.url(path).await).await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request = reqwest::Client::new().post(self.url(path).await).json(body);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (
            status,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        )
    }

    /// Waits until `/readyz` answers with this status, and gives its body.
    pub(crate) async fn becomes(&self, status: u16) -> Value {
        eventually("readiness", async || match self.get("/readyz").await {
            (found, body) if found == status => Ok(body),
            other => Err((other, self.text())),
        })
        .await
    }

    /// One figure of `/metrics`; 0 where there is none yet.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let response = reqwest::get(self.url("/metrics").await).await.unwrap();
        let text = response.text().await.unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name}{{")));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .unwrap_or(0)
    }

    pub(crate) async fn until_metric(&self, name: &str, wanted: u64) {
        eventually(name, async || match self.metric(name).await {
            found if found >= wanted => Ok(()),
            found => Err((found, self.text())),
        })
        .await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(&self.child.lock().unwrap()), signal).unwrap();
    }

    /// Waits for a line that begins like this, and gives the rest of it.
    pub(crate) async fn said(&self, beginning: &str) -> String {
        eventually(beginning, async || {
            let lines = self.text();
            let rest = lines.iter().find_map(|line| line.strip_prefix(beginning));
            rest.map(str::to_owned).ok_or(lines)
        })
        .await
    }

    /// Ctrl-C, which a terminal sends to the whole group, and the exit code that follows. No
    /// process may be left.
    pub(crate) async fn interrupt(self) -> Option<i32> {
        let group = pid(&self.child.lock().unwrap());
        kill_process_group(group, Signal::INT).unwrap();
        let code = self.ended().await.code();
        test_kill_process_group(group).expect_err("a process is left");
        code
    }

    /// Waits for its end, and that of whatever it has started: its log is whole then.
    pub(crate) async fn ended(&self) -> ExitStatus {
        eventually("the program ends", async || {
            let ended = self.child.lock().unwrap().try_wait().unwrap();
            ended
                .filter(|_| self.reader.is_finished())
                .ok_or_else(|| self.text())
        })
        .await
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            kill_process_group(pid(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}
