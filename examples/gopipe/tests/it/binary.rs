//! `process-orders` itself, with either broker: orders are typed in, events come out, Ctrl-C ends it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use example_gopipe::broker::Broker;
use postrider_testkit::database::{Database, fresh_schema};
use postrider_testkit::eventually;
use postrider_testkit::kafka::{Kafka, fresh_topic_name};
use postrider_testkit::services::services;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use crate::publisher::reads_two_as_one;
use crate::world::{hold_up, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_process-orders");

/// A running `process-orders`. Killed when dropped, with whatever it has started.
struct ProcessOrders {
    child: Child,
    stdin: ChildStdin,
    lines: Arc<Mutex<Vec<String>>>,
}

impl ProcessOrders {
    fn start(database: &Database, args: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(args);
        Self::spawn(database, command)
    }

    /// The README's command, on a database of the test's own and without building.
    fn run(database: &Database) -> Self {
        // A shell cannot trap Ctrl-C where whoever started the tests ignores it, as a shell's
        // background jobs do.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=INT")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("run"))
            .env("GOPIPE_PROGRAMS", Path::new(PROGRAM).parent().unwrap());
        Self::spawn(database, command)
    }

    fn spawn(database: &Database, mut command: Command) -> Self {
        let mut child = command
            .env("DATABASE_URL", &database.url)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stdout, sink) = (child.stdout.take().unwrap(), lines.clone());
        // Ends with the process, whose end of the pipe closes.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                sink.lock().unwrap().push(line);
            }
        });
        let stdin = child.stdin.take().unwrap();
        Self {
            child,
            stdin,
            lines,
        }
    }

    fn type_in(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Waits for a line that has all of these parts.
    async fn prints(&self, parts: &[&str]) {
        eventually(&parts.join(" "), async || {
            let lines = self.lines.lock().unwrap().clone();
            let found = lines
                .iter()
                .any(|line| parts.iter().all(|part| line.contains(part)));
            if found { Ok(()) } else { Err(lines) }
        })
        .await;
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ctrl-C, which a terminal sends to the whole group, and the exit code that follows. No
    /// process may be left.
    async fn interrupt(mut self) -> Option<i32> {
        let group = self.group();
        kill_process_group(group, Signal::INT).unwrap();
        let ended = eventually("it ends", async || {
            self.child.try_wait().unwrap().ok_or("runs")
        });
        let code = ended.await.code();
        test_kill_process_group(group).expect_err("a process is left");
        code
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed()).unwrap()
    }
}

impl Drop for ProcessOrders {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            kill_process_group(self.group(), Signal::KILL).unwrap();
            self.child.wait().unwrap();
        }
    }
}

/// The names of the inbox and the outbox, where nobody chooses others.
const TABLES: [&str; 2] = ["processed_messages", "outbox"];

/// The plan's execution flow, twice: handled, published and read; then skipped.
async fn flows(args: &[&str]) {
    let database = fresh_schema().await;
    flow(ProcessOrders::start(&database, args), &database, TABLES).await;
}

async fn flow(mut process: ProcessOrders, database: &Database, [inbox, outbox]: [&str; 2]) {
    process.type_in("abc-123 lamp 3");
    process.prints(&["abc-123: handled and acknowledged"]).await;
    process
        .prints(&["order-placed", r#""item": "lamp""#, r#""quantity": 3"#])
        .await;
    process.type_in("abc-123 lamp 3");
    process.prints(&["abc-123: handled before"]).await;
    process.type_in("nonsense");
    process.prints(&["not an order: nonsense"]).await;
    assert_eq!(process.interrupt().await, Some(0));
    assert_eq!(database.count("orders").await, 1);
    let published = format!("\"{outbox}\" WHERE published");
    assert_eq!(database.count(&published).await, 1);
    let entries =
        format!("SELECT string_agg(subscriber, ' ' ORDER BY subscriber) FROM \"{inbox}\"");
    assert_eq!(
        database.text(&entries).await.as_deref(),
        Some("mailer order-service")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_flow_through_a_broker_in_the_process() {
    for publish in ["relay", "source"] {
        flows(&["--broker", "memory", "--publish", publish]).await;
    }
}

/// What `make run-gopipe` runs, used as the README says.
#[tokio::test(flavor = "multi_thread")]
async fn the_readmes_command_runs_until_ctrl_c_and_leaves_no_process() {
    let database = fresh_schema().await;
    flow(ProcessOrders::run(&database), &database, TABLES).await;
}

/// A4-01: tables of other names serve as well, also where they must be quoted, and the usual ones
/// do not exist.
#[tokio::test(flavor = "multi_thread")]
async fn orders_flow_through_tables_of_other_names() {
    let database = fresh_schema().await;
    let (inbox, outbox) = ("seen", "Order Outbox");
    for publish in ["relay", "source"] {
        let names = ["--inbox-table", inbox, "--outbox-table", outbox];
        let how = ["--broker", "memory", "--publish", publish];
        let process = ProcessOrders::start(&database, &[names, how].concat());
        flow(process, &database, [inbox, outbox]).await;
        let usual = format!(
            "pg_tables WHERE schemaname = current_schema() AND tablename IN ('{}', '{}')",
            TABLES[0], TABLES[1]
        );
        assert_eq!(database.count(&usual).await, 0);
        let emptied = format!("TRUNCATE \"{inbox}\", \"{outbox}\", orders");
        database.execute(&emptied).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_flow_through_kafka() {
    let (commands, events) = (fresh_topic_name(), fresh_topic_name());
    flows(&on_kafka(&commands, &events, "relay")).await;
}

fn on_kafka<'a>(commands: &'a str, events: &'a str, publish: &'a str) -> [&'a str; 10] {
    let kafka = &services().kafka;
    [
        "--broker",
        "kafka",
        "--kafka",
        kafka,
        "--commands",
        commands,
        "--events",
        events,
        "--publish",
        publish,
    ]
}

/// A4-13: the process is killed between publish and mark. The next one publishes the row again with the same id, and the
/// inbox of who reads it drops it.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_before_it_marks_repeats_the_event_and_an_inbox_drops_it() {
    for publish in ["relay", "source"] {
        is_dropped_after_a_kill(publish).await;
    }
}

async fn is_dropped_after_a_kill(publish: &str) {
    let (database, kafka) = (fresh_schema().await, Kafka::shared());
    let (commands, events) = (fresh_topic_name(), fresh_topic_name());
    let args = on_kafka(&commands, &events, publish);
    let mut process = ProcessOrders::start(&database, &args);
    process.prints(&["ready"]).await;
    let marking = hold_up(&database, "UPDATE", &["outbox"]).await;
    process.type_in("abc-123 lamp 3");
    process.prints(&["abc-123: handled and acknowledged"]).await;
    marking.until_waiting(&database, 1).await;
    process.kill();
    marking.let_go().await;
    let id = database.text("SELECT attributes ->> 'id' FROM outbox WHERE NOT published");
    let id = id.await.expect("it is not marked");

    let process = ProcessOrders::start(&database, &args);
    until("it is marked", 1, async || {
        database.count("outbox WHERE published").await
    })
    .await;
    let records = kafka.records(&events).await;
    assert_eq!(records.len(), 2);
    let header = ("id".to_owned(), Some(id.clone().into_bytes()));
    for record in &records {
        assert!(record.headers.contains(&header), "{:?}", record.headers);
    }
    let broker = Broker::kafka(kafka.bootstrap()).unwrap();
    reads_two_as_one(&broker, &events, &database).await;
    assert_eq!(database.count("orders").await, 1);
    assert_eq!(process.interrupt().await, Some(0));
}
