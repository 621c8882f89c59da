//! The binary with an outbox in a SQLite file: no server at all.

use std::time::{Duration, Instant};

use postrider::core::{Event, Layout};
use postrider::stores::sqlite::{self, Outbox, connect};
use postrider_testkit::eventually;
use postrider_testkit::sqlite::{SqliteFile, fresh_file};

use crate::binary::Project;

struct Shop {
    file: SqliteFile,
    database: sqlite::Database,
    outbox: Outbox,
    project: Project,
}

fn shop(lines: &str) -> Shop {
    let file = fresh_file();
    let config = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n\n[broker.main]\nkind = \"memory\"\n\n[[outbox]]\nname = \"orders\"\n\
         database = \"{}\"\nlayout = \"polyshop\"\nbroker = \"main\"\n{lines}\n",
        file.url
    );
    Shop {
        database: connect(&file.url, 2).unwrap(),
        outbox: Outbox::new(Layout::preset("polyshop").unwrap()),
        project: Project::new(&config),
        file,
    }
}

impl Shop {
    async fn emit(&self, key: &str) {
        let event = Event::raw("order.order.placed.v1", "{}").aggregate_id(key);
        let mut tx = self.database.begin().await.unwrap();
        self.outbox.emit(&mut tx, event).await.unwrap();
        self.database.commit(tx).await.unwrap();
    }

    async fn is_empty(&self) {
        eventually("everything is published", async || {
            match self.file.count("outbox_events WHERE NOT processed").await {
                0 => Ok(()),
                left => Err(left),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_made_checked_relayed_and_asked() {
    let shop = shop("");
    let missing = shop.project.run(&["check"]);
    assert_ne!(missing.code, Some(0));
    assert!(missing.stdout.contains("postrider init"), "{missing:?}");
    assert!(!shop.file.path.exists(), "looking makes no file");
    for _ in 0..2 {
        let made = shop.project.run(&["init"]);
        assert_eq!(made.code, Some(0), "{made:?}");
    }
    let checked = shop.project.run(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    shop.emit("a").await;
    let status = shop.project.run(&["status", "--json"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    assert!(status.stdout.contains("\"pending\": 1"), "{status:?}");
    let relay = shop.project.relay().await;
    shop.is_empty().await;
    drop(relay);
}

#[test]
fn the_statements_are_printed_for_a_file() {
    let project = Project::new("");
    let args = ["init", "--print", "--layout", "polyshop", "--database"];
    let args: Vec<&str> = args.into_iter().chain(["sqlite:x.db"]).collect();
    let printed = project.run(&args);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.stdout.contains("postrider_claims"), "{printed:?}");
    assert!(!printed.stdout.contains("timestamptz"), "{printed:?}");
}

/// The lease is long and the poll slow, so what is quick here is neither.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_wakes_at_a_commit_and_takes_over_from_one_that_was_killed() {
    let shop = shop(
        "lease = \"300s\"\npublish_timeout = \"100s\"\npoll_min = \"30s\"\npoll_max = \"60s\"",
    );
    assert_eq!(shop.project.run(&["init"]).code, Some(0));
    let first = shop.project.relay().await;
    shop.emit("a").await;
    shop.is_empty().await;
    // Claims as a relay that is killed while it publishes leaves them.
    let lock = std::fs::read_dir(shop.file.path.parent().unwrap())
        .unwrap()
        .flatten()
        .find_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.split_once("-postrider-")
                .map(|(_, name)| name.to_owned())
        })
        .expect("a relay leaves a lock file");
    let lanes: Vec<u32> = (0..32).collect();
    shop.file
        .execute(&format!(
            "INSERT INTO postrider_claims VALUES ('t', 'outbox_events', '{lock}', 9000000000000000, '{lanes:?}')"
        ))
        .await;
    drop(first);
    let second = shop.project.relay().await;
    let started = Instant::now();
    shop.emit("a").await;
    shop.is_empty().await;
    assert!(started.elapsed() < Duration::from_secs(20));
    drop(second);
}
