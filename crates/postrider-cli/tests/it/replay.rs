use std::collections::BTreeMap;
use std::process::Command;

use postrider::core::EventId;
use postrider_testkit::eventually;
use rustix::process::Signal;
use uuid::Uuid;

use crate::outbox::TestOutbox;
use crate::shelf::{Shelf, header};

const MARK: &str = "postrider-replay";

#[tokio::test]
async fn records_of_a_key_are_sent_again_and_verify_knows() {
    let shelf = Shelf::new().await;
    shelf.publish(12, 3).await;
    let dry = ["replay", "--key", "k1", "--dry-run"];
    let ran = shelf
        .project
        .run(&dry)
        .ok()
        .says("4 records would be sent again");
    assert_eq!(ran.stdout.lines().count(), 5);
    let asked = shelf.project.run(&["replay", "--key", "k1"]);
    asked.exits(2).says("4 published records").says("--yes");
    assert_eq!(shelf.records().await.len(), 12);

    let ran = shelf.project.run(&["replay", "--key", "k1", "--yes"]);
    ran.ok().prints("4 of 4 records sent again");
    let records = shelf.records().await;
    let marked: Vec<_> = records
        .iter()
        .filter(|it| header(it, MARK).is_some())
        .collect();
    assert_eq!((records.len(), marked.len()), (16, 4));
    assert!(
        marked
            .iter()
            .all(|record| record.key.as_deref() == Some(b"k1"))
    );
    let mut of_key: Vec<_> = records
        .iter()
        .filter(|it| it.key.as_deref() == Some(b"k1"))
        .collect();
    of_key.sort_by_key(|record| record.offset);
    let ids: Vec<_> = of_key
        .iter()
        .map(|record| header(record, "event_id"))
        .collect();
    assert_eq!(ids[..4], ids[4..], "the same, in the same order");

    let report = shelf
        .project
        .run(&["verify", "--since", "1h", "--json"])
        .ok()
        .json();
    assert_eq!(
        (&report["replayed"], &report["messages"]),
        (&4.into(), &16.into())
    );
    let audited = shelf
        .outbox
        .database
        .count("postrider_audit WHERE action = 'replay'")
        .await;
    assert_eq!(audited, 2);
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused() {
    let shelf = Shelf::new().await;
    let refused = |args: &[&str], text: &str| {
        let args: Vec<&str> = ["replay"].into_iter().chain(args.iter().copied()).collect();
        shelf.project.run(&args).exits(2).says(text);
    };
    refused(&[], "--since, --until, --type, --key or --id, or say --all");
    refused(&["--all", "--key", "7"], "cannot be used with");
    refused(&["--all", "--rate", "0"], "is no rate");
    refused(&["--all", "--from", "x"], "not where a replay ended");
    let gone = Uuid::now_v7().to_string();
    let ran = shelf
        .project
        .run(&["replay", "--id", &gone, "--yes", "--json"]);
    assert_eq!(ran.exits(1).json()["sent"], 0);
    let strange = ["replay", "--all", "--from", "3:nonsense", "--yes"];
    shelf.publish(1, 1).await;
    shelf.project.run(&strange).exits(1).says("error:");
    let memory = TestOutbox::create("polyshop").await;
    memory.emit("order.placed", "7").await;
    let ran = memory.project("").run(&["replay", "--all", "--yes"]);
    ran.exits(2).says("cannot be reached from here");
    let deleting = TestOutbox::create("debezium").await;
    let ran = deleting.project("").run(&["replay", "--all", "--yes"]);
    ran.exits(2).says("deletes records once they are published");
}

/// Ctrl-C prints a command; a shell runs it, and together they have sent everything, one batch at most twice.
#[tokio::test]
async fn an_interrupted_replay_is_continued_by_the_command_that_it_prints() {
    let shelf = Shelf::new().await;
    shelf.publish(60, 5).await;
    let args = ["replay", "--since", "2h", "--rate", "20/s", "--yes"];
    let replay = shelf.project.spawn(&args);
    eventually("some are sent again", async || {
        match shelf.records().await.len() {
            sent if sent > 65 => Ok(()),
            sent => Err((sent, replay.text())),
        }
    })
    .await;
    replay.signal(Signal::INT);
    assert_eq!(replay.exit().await.code(), Some(1));
    let lines = replay.text();
    let command = lines
        .iter()
        .find_map(|line| line.trim().strip_prefix("postrider "));
    let command = command.unwrap_or_else(|| panic!("{lines:?}"));
    assert!(
        command.contains("--from=") && command.contains("--since=20"),
        "{command}"
    );
    let binary = env!("CARGO_BIN_EXE_postrider");
    let command = format!("{binary} {command}").replace("--rate=20/s", "");
    let ran = Command::new("sh")
        .args(["-c", &command])
        .current_dir(shelf.project.path("."))
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && stdout.contains("60 of 60"),
        "{command}: {ran:?}"
    );

    let mut times: BTreeMap<EventId, usize> = BTreeMap::new();
    for record in shelf.records().await {
        if header(&record, MARK).is_some() {
            *times
                .entry(header(&record, "event_id").unwrap().into())
                .or_default() += 1;
        }
    }
    let (distinct, sent) = (times.len(), times.values().sum::<usize>());
    assert_eq!(distinct, 60);
    assert!(sent <= 60 + 5, "{sent} for {distinct}");
}
