//! The binary in one of its modes: watched, asked and signalled.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use example_talkie::chat::TOPIC;
use postrider_testkit::eventually;
use postrider_testkit::services::services;
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use crate::world::World;

const PROGRAM: &str = env!("CARGO_BIN_EXE_talkie");

/// A running `talkie`. Killed when dropped, with whatever it has started.
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
        let mut command = Command::new(PROGRAM);
        command.args(mode);
        Self::run(world, settings, topic, command)
    }

    /// The README's command, on a database and a topic of the test's own and without building.
    pub(crate) fn readme(world: &World, settings: &SettingsOnDisk, topic: &str) -> Self {
        // A shell cannot trap Ctrl-C where whoever started the tests ignores it, as a shell's
        // background jobs do.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=INT")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("run"))
            .arg("app")
            .env("TALKIE_PROGRAMS", Path::new(PROGRAM).parent().unwrap());
        Self::run(world, settings, topic, command)
    }

    fn run(world: &World, settings: &SettingsOnDisk, topic: &str, mut command: Command) -> Self {
        let mut child = describe(&mut command, world, settings, topic)
            .process_group(0)
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
        kill_process(pid(&self.child.lock().unwrap()), signal).unwrap();
    }

    /// As a power cut would.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ctrl-C, which a terminal sends to the whole group, and the exit code that follows. No
    /// process may be left.
    pub(crate) async fn interrupt(self) -> Option<i32> {
        let group = pid(&self.child.lock().unwrap());
        kill_process_group(group, Signal::INT).unwrap();
        let ended = eventually("it ends", async || {
            let ended = self.child.lock().unwrap().try_wait().unwrap();
            ended.ok_or_else(|| self.lines.lock().unwrap().clone())
        })
        .await;
        test_kill_process_group(group).expect_err("a process is left");
        ended.code()
    }
}

impl Drop for Talkie {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        if child.try_wait().unwrap().is_none() {
            kill_process_group(pid(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
        }
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed()).unwrap()
}

fn describe<'a>(
    command: &'a mut Command,
    world: &World,
    settings: &SettingsOnDisk,
    topic: &str,
) -> &'a mut Command {
    command
        .env("DATABASE_URL", &world.database.url)
        .env("KAFKA", &services().kafka)
        .env("TALKIE_LISTEN", "127.0.0.1:0")
        .env("TALKIE_SETTINGS", &settings.0)
        .env("TALKIE_TOPIC", topic)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
}

/// Runs a command of an operator to its end, and gives what it prints.
pub(crate) fn operate(world: &World, settings: &SettingsOnDisk, words: &[&str]) -> String {
    let mut command = Command::new(PROGRAM);
    command.args(words);
    let ran = describe(&mut command, world, settings, TOPIC)
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
