//! The binary in one of its modes: watched, asked and signalled.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use example_talkie::chat::TOPIC;
use postrider_testkit::eventually;
use postrider_testkit::services::services;
use rustix::process::{Pid, Signal, kill_process};

use crate::world::World;

/// A running `talkie`. Killed when dropped.
pub(crate) struct Talkie {
    child: Mutex<Child>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Talkie {
    /// Starts a mode, and returns once its address is open.
    pub(crate) async fn start(world: &World, settings: &SettingsOnDisk, mode: &[&str]) -> Self {
        let talkie = Self::spawn(world, settings, TOPIC, mode);
        talkie.address().await;
        talkie
    }

    /// Starts a mode on a topic of one's own, without waiting.
    pub(crate) fn spawn(
        world: &World,
        settings: &SettingsOnDisk,
        topic: &str,
        mode: &[&str],
    ) -> Self {
        let mut child = command(world, settings, topic)
            .args(mode)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, sink) = (child.stderr.take().unwrap(), lines.clone());
        // Ends with the process, whose end of the pipe closes.
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        Self {
            child: Mutex::new(child),
            lines,
        }
    }

    /// Waits for a line with this text.
    pub(crate) async fn logged(&self, text: &str) -> String {
        eventually(text, async || {
            let lines = self.lines.lock().unwrap().clone();
            let found = lines.iter().find(|line| line.contains(text)).cloned();
            found.ok_or(lines)
        })
        .await
    }

    pub(crate) async fn address(&self) -> String {
        let line = self.logged("talkie listens").await;
        line.rsplit_once("address=").unwrap().1.to_owned()
    }

    /// Posts a message, and gives the answer's status.
    pub(crate) async fn post(&self, body: &impl serde::Serialize) -> (u16, serde_json::Value) {
        let url = format!("http://{}/messages", self.address().await);
        let request = reqwest::Client::new().post(url).json(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.address().await);
        let response = reqwest::get(url).await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.lock().unwrap().id();
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), signal).unwrap();
    }

    /// As a power cut would.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ctrl-C, and the exit code that follows.
    pub(crate) async fn interrupt(self) -> Option<i32> {
        self.signal(Signal::INT);
        let ended = eventually("it ends", async || {
            let ended = self.child.lock().unwrap().try_wait().unwrap();
            ended.ok_or_else(|| self.lines.lock().unwrap().clone())
        })
        .await;
        ended.code()
    }
}

impl Drop for Talkie {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

fn command(world: &World, settings: &SettingsOnDisk, topic: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talkie"));
    command
        .env("DATABASE_URL", &world.database.url)
        .env("KAFKA", &services().kafka)
        .env("TALKIE_LISTEN", "127.0.0.1:0")
        .env("TALKIE_SETTINGS", &settings.0)
        .env("TALKIE_TOPIC", topic)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// Runs a command of an operator to its end, and gives what it prints.
pub(crate) fn operate(world: &World, settings: &SettingsOnDisk, words: &[&str]) -> String {
    let ran = command(world, settings, TOPIC)
        .args(words)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// A settings file. Goes with this value.
pub(crate) struct SettingsOnDisk(PathBuf);

impl SettingsOnDisk {
    pub(crate) fn new(text: &str) -> Self {
        let name = format!("{}.toml", uuid::Uuid::now_v7().simple());
        let file = Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name));
        file.write(text);
        file
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }
}

impl Drop for SettingsOnDisk {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}
