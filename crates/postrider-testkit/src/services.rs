//! Real servers: those that all tests share, and private ones that a test may kill or freeze.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Addresses of the shared servers.
#[derive(Debug)]
pub struct Services {
    pub postgres_url: String,
    pub redis_url: String,
    /// `host:port`
    pub kafka: String,
    /// `host:port`
    pub pubsub: String,
}

/// The shared servers: those that the environment names, else those that `scripts/services up` starts.
pub fn services() -> &'static Services {
    static SERVICES: OnceLock<Services> = OnceLock::new();
    SERVICES.get_or_init(|| {
        from_lookup(|name| std::env::var(name).ok())
            .unwrap_or_else(|| from_lookup(|name| exports().get(name).cloned()).expect(MISSING))
    })
}

const MISSING: &str = "scripts/services up names every server";

fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Option<Services> {
    Some(Services {
        postgres_url: lookup("POSTRIDER_TEST_POSTGRES_URL")?,
        redis_url: lookup("POSTRIDER_TEST_REDIS_URL")?,
        kafka: lookup("POSTRIDER_TEST_KAFKA")?,
        pubsub: lookup("PUBSUB_EMULATOR_HOST")?,
    })
}

fn exports() -> &'static HashMap<String, String> {
    static EXPORTS: OnceLock<HashMap<String, String>> = OnceLock::new();
    EXPORTS.get_or_init(|| {
        let output = Command::new(root().join("scripts/services"))
            .arg("up")
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .expect("scripts/services can be run");
        assert!(
            output.status.success(),
            "scripts/services up: {}",
            output.status
        );
        let text = String::from_utf8(output.stdout).expect("exports are text");
        text.lines()
            .filter_map(|line| line.strip_prefix("export ")?.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    })
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Redis,
    Kafka,
    PubSub,
    /// In front of a Postgres: see [`crate::pooler`].
    PgBouncer,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Kafka => "kafka",
            Self::PubSub => "pubsub",
            Self::PgBouncer => "pgbouncer",
        })
    }
}

/// A server of one's own. It ends, and its data goes, when this is dropped or the test process ends.
#[derive(Debug)]
pub struct PrivateServer {
    kind: Kind,
    dir: PathBuf,
    port: u16,
    environment: Vec<(&'static str, String)>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    server: Pid,
    guard: Child,
    leash: Option<ChildStdin>,
}

/// Runs the server in the background and waits at its own stdin, which closes when the test process
/// ends in whatever way: a static is never dropped, and a killed process drops nothing.
const GUARD: &str = r#"
dir=$1; shift
"$@" </dev/null >>"$dir/log" 2>&1 &
echo $!
read -r word
kill -KILL $! 2>/dev/null
wait
[ "$word" = keep ] || rm -rf "$(readlink "$dir/elsewhere")" "$dir"
"#;

/// A JVM on a busy machine.
const START_PATIENCE: Duration = Duration::from_secs(90);
/// Stopping takes as long as its threads wait for a core.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

impl PrivateServer {
    pub async fn start(kind: Kind) -> Self {
        Self::start_with(kind, Vec::new()).await
    }

    /// With variables that the server's script knows.
    pub async fn start_with(kind: Kind, environment: Vec<(&'static str, String)>) -> Self {
        let folder = root().join("target/services/private");
        Self::start_below(&folder, kind, environment).await
    }

    /// Below another folder, with variables that the server's script knows.
    pub async fn start_in(
        folder: &Path,
        kind: Kind,
        environment: &[(&'static str, &'static str)],
    ) -> Self {
        let environment = environment
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        Self::start_below(folder, kind, environment.collect()).await
    }

    async fn start_below(
        folder: &Path,
        kind: Kind,
        environment: Vec<(&'static str, String)>,
    ) -> Self {
        let port = free_port(if kind == Kind::Kafka { 2 } else { 1 });
        let name = format!("{kind}-{port}-{}", uuid::Uuid::now_v7().simple());
        let dir = folder.join(name);
        std::fs::create_dir_all(&dir).expect("target is writable");
        // The tests' Postgres runs as a user of its own, below a path that must be its own.
        let dir = dir.canonicalize().expect("was created");
        let mut server = Self {
            kind,
            dir,
            port,
            environment,
            running: None,
        };
        server.restart().await;
        server
    }

    /// `host:port`
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where its data is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Of all its processes.
    pub fn pids(&self) -> Vec<i32> {
        let server = self.running.as_ref().map(|running| running.server);
        let pids = server.into_iter().flat_map(family);
        pids.map(|pid| pid.as_raw_nonzero().get()).collect()
    }

    /// Ends the server as a power cut would. Its data stays.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.end(b"keep\n");
        }
    }

    /// Starts the server on its old data and waits until it answers.
    pub async fn restart(&mut self) {
        self.kill();
        self.running = Some(self.spawn());
        let start = Instant::now();
        while !answers(self.kind, self.port).await {
            let (kind, took) = (self.kind, start.elapsed());
            assert!(
                self.is_alive(),
                "{kind} ended while starting:\n{}",
                self.log_tail()
            );
            assert!(
                took < START_PATIENCE,
                "{kind} is silent after {took:?}:\n{}",
                self.log_tail()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Freezes the server with its connections open, as an overloaded machine or a long pause would.
    /// Returns when nothing of it runs any more: the signal alone leaves a busy server time for an answer.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let start = Instant::now();
        while !self.pids().into_iter().all(is_stopped) {
            let took = start.elapsed();
            assert!(took < STOP_PATIENCE, "{} runs after {took:?}", self.kind);
            std::thread::yield_now();
        }
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// As it was before a test that failed and left it frozen or dead.
    pub async fn recover(&mut self) {
        if self.is_alive() {
            self.resume();
        } else {
            self.restart().await;
        }
    }

    fn spawn(&self) -> Running {
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(&self.dir)
            .arg(root().join("scripts/services"))
            .args(["private", &self.kind.to_string()])
            .arg(&self.dir)
            .arg(self.port.to_string())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // Ctrl-C is for us, and would end the guard before the server.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh can be run");
        let mut line = String::new();
        BufReader::new(guard.stdout.take().expect("is piped"))
            .read_line(&mut line)
            .expect("the guard prints the server's pid");
        let pid = line
            .trim()
            .parse()
            .ok()
            .and_then(Pid::from_raw)
            .expect("a pid");
        Running {
            server: pid,
            leash: guard.stdin.take(),
            guard,
        }
    }

    pub fn is_alive(&self) -> bool {
        let pid = self.running.as_ref().map(|running| running.server);
        // The guard reaps it only after we let go of the leash, so a zombie counts as ended.
        pid.is_some_and(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            stat.is_ok_and(|stat| !stat.contains(") Z "))
        })
    }

    fn signal(&self, signal: Signal) {
        let server = self.running.as_ref().expect("server runs").server;
        for pid in family(server) {
            // A Postgres backend may end between the listing and the signal.
            if kill_process(pid, signal).is_err() {
                assert_ne!(pid, server, "{} is gone", self.kind);
            }
        }
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read(self.dir.join("log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        match self.running.take() {
            Some(running) => running.end(b""),
            None => std::fs::remove_dir_all(&self.dir).expect("is ours"),
        }
    }
}

impl Running {
    fn end(mut self, word: &[u8]) {
        if let Some(mut leash) = self.leash.take() {
            leash.write_all(word).expect("the guard reads");
        }
        self.guard.wait().expect("the guard is our child");
    }
}

/// A process and all below it: Postgres serves every connection in a process of its own.
fn family(pid: Pid) -> Vec<Pid> {
    let raw = pid.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{raw}/task/{raw}/children"));
    let children = children.unwrap_or_default();
    let below = children
        .split_whitespace()
        .filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    std::iter::once(pid).chain(below.flat_map(family)).collect()
}

/// Whether all threads of a process are stopped. One that has ended runs no more either.
fn is_stopped(pid: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat"));
        stat.map_or(true, |stat| {
            [") T ", ") Z "].iter().any(|state| stat.contains(state))
        })
    })
}

async fn answers(kind: Kind, port: u16) -> bool {
    match kind {
        Kind::Postgres => {
            let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
            PgConnection::connect(&url).await.is_ok()
        }
        Kind::Redis => reply(port, "PING\r\n")
            .await
            .is_some_and(|reply| reply == "+PONG"),
        Kind::Kafka => {
            crate::kafka::Kafka::at(format!("127.0.0.1:{port}"))
                .answers()
                .await
        }
        Kind::PubSub => reply(port, "GET /v1/projects/services/topics HTTP/1.0\r\n\r\n")
            .await
            .is_some_and(|reply| reply.ends_with("200 OK")),
        Kind::PgBouncer => crate::pooler::answers(port).await,
    }
}

/// The first line that the server says in reply.
async fn reply(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut buffer = [0; 256];
    let read = tokio::time::timeout(Duration::from_secs(2), stream.read(&mut buffer));
    let count = read.await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
    text.lines().next().map(str::to_owned)
}

/// The first of `count` free ports in a row, below those that the system gives to outgoing connections.
fn free_port(count: u16) -> u16 {
    const FIRST: u16 = 20_000;
    const SPAN: u16 = 4_000;
    const TRIES: usize = 100;
    (0..TRIES)
        .map(|_| FIRST + uuid::Uuid::now_v7().as_u64_pair().1 as u16 % SPAN)
        .find(|first| {
            let taken = |port| TcpListener::bind(("127.0.0.1", port));
            (*first..first + count)
                .map(taken)
                .collect::<Result<Vec<_>, _>>()
                .is_ok()
        })
        .expect("a free port")
}
