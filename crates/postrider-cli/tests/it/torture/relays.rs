//! Real relay processes, and their killer.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use postrider_testkit::eventually;
use tokio::process::{Child, Command};

/// What relays are to carry, and where to.
pub(crate) struct Target {
    pub(crate) kafka: String,
    pub(crate) database: String,
    pub(crate) layout: String,
    pub(crate) ordering: String,
    pub(crate) topic: String,
    pub(crate) order_is_drawn: bool,
}

pub(crate) struct Relays {
    config: PathBuf,
    running: Vec<Child>,
}

impl Relays {
    pub(crate) async fn start(target: &Target, count: usize) -> Self {
        let config = write_config(target);
        let running = (0..count).map(|_| spawn(&config)).collect();
        Self { config, running }
    }

    /// Kills one after the other for `time` and starts it again; how often.
    pub(crate) async fn kill_again_and_again(&mut self, time: Duration) -> usize {
        let until = Instant::now() + time;
        let mut kills = 0;
        let mut tick = tokio::time::interval(Duration::from_millis(400));
        while Instant::now() < until {
            tick.tick().await;
            let victim = fastrand::usize(..self.running.len());
            let ended = self.running[victim].try_wait().unwrap();
            assert_eq!(ended, None, "a relay ended by itself");
            self.running[victim].kill().await.unwrap();
            self.running[victim] = spawn(&self.config);
            kills += 1;
        }
        kills
    }

    /// Stops all of them with SIGTERM; each must end with 0.
    pub(crate) async fn stop(self) {
        for mut relay in self.running {
            let pid = relay.id().expect("a relay ended by itself").to_string();
            assert!(
                Command::new("kill")
                    .args(["-TERM", &pid])
                    .status()
                    .await
                    .unwrap()
                    .success()
            );
            let status = eventually("the relay stops", async || {
                match relay.try_wait().unwrap() {
                    Some(status) => Ok(status),
                    None => Err("still running"),
                }
            })
            .await;
            assert!(status.success(), "relay ended with {status}");
        }
        std::fs::remove_file(self.config).unwrap();
    }
}

fn spawn(config: &PathBuf) -> Child {
    Command::new(env!("CARGO_BIN_EXE_postrider"))
        .args(["relay", "--config"])
        .arg(config)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn write_config(target: &Target) -> PathBuf {
    let topic = match target.layout.as_str() {
        "talkie" | "native" => "{topic}",
        _ => "{event_type}",
    };
    let text = format!(
        r#"
        [admin]
        listen = "127.0.0.1:0"

        [log]
        level = "error"

        [broker.main]
        kind = "kafka"
        bootstrap = "{kafka}"

        [[outbox]]
        name = "torture"
        database = "{database}"
        layout = "{layout}"
        broker = "main"
        topic = "{topic}"
        ordering = "{ordering}"
        order_is_drawn = {order_is_drawn}
        batch = 20
        claims = 2
        poll_min = "20ms"
        poll_max = "100ms"
        publish_timeout = "3s"
        lease = "8s"
        "#,
        kafka = target.kafka,
        database = target.database,
        layout = target.layout,
        ordering = target.ordering,
        order_is_drawn = target.order_is_drawn,
    );
    let path = std::env::temp_dir().join(format!("postrider-{}.toml", target.topic));
    std::fs::write(&path, text).unwrap();
    path
}
