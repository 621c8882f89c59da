//! `CheckAndMarkProcessed` by many at once.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use example_packfinderz::settings::REDIS_URL;
use postrider_testkit::redis::Redis;
use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

const PROCESSES: usize = 10;
const CALLS: usize = 10;

fn start(consumer: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_check-processed"))
        .arg(consumer)
        .env_clear()
        .env(REDIS_URL, Redis::shared().url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(process: &Child, signal: Signal) {
    let pid = Pid::from_raw(process.id().cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// What it answers, by call.
fn answers(mut process: Child) -> Vec<String> {
    drop(process.stdin.take());
    let mut text = String::new();
    process
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(process.wait().unwrap().success());
    text.lines().map(str::to_owned).collect()
}

/// A1-13: of 100 calls for one event at once, in 10 processes, exactly one is told that it is not
/// processed. Another consumer gets a first time of its own. The processes are stopped until each
/// of them has all of its calls to make.
#[tokio::test]
async fn of_a_hundred_calls_in_ten_processes_one_is_first() {
    let event = Uuid::now_v7();
    let mut processes: Vec<Child> = (0..PROCESSES).map(|_| start("billing")).collect();
    let ask = format!("{event}\n").repeat(CALLS);
    for process in &mut processes {
        signal(process, Signal::STOP);
        process
            .stdin
            .as_mut()
            .unwrap()
            .write_all(ask.as_bytes())
            .unwrap();
    }
    for process in &processes {
        signal(process, Signal::CONT);
    }
    let answers_of_all: Vec<String> = processes.into_iter().flat_map(answers).collect();
    assert_eq!(answers_of_all.len(), PROCESSES * CALLS);
    let (new, processed) = (format!("new {event}"), format!("processed {event}"));
    assert_eq!(
        answers_of_all
            .iter()
            .filter(|answer| **answer == new)
            .count(),
        1
    );
    assert_eq!(
        answers_of_all
            .iter()
            .filter(|answer| **answer == processed)
            .count(),
        99
    );

    let mut other = start("shipping");
    other
        .stdin
        .as_mut()
        .unwrap()
        .write_all(format!("{event}\n").repeat(2).as_bytes())
        .unwrap();
    let mut of_other = answers(other);
    of_other.sort();
    assert_eq!(of_other, [new, processed]);
    for consumer in ["billing", "shipping"] {
        let key = format!("pf:evt:processed:{consumer}:{event}");
        assert_eq!(
            Redis::shared().command(&["DEL", &key]).await.as_deref(),
            Some("1")
        );
    }
}
