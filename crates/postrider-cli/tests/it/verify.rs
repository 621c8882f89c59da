use postrider::core::Header;
use serde_json::Value;
use uuid::Uuid;

use crate::outbox::TestOutbox;
use crate::shelf::Shelf;

const VERIFY: [&str; 4] = ["verify", "--since", "1h", "--json"];

fn ids(report: &Value, kind: &str) -> Vec<String> {
    let first = report[kind]["first"].as_array().unwrap();
    assert_eq!(report[kind]["count"], first.len(), "{report:#}");
    let id = |suspect: &Value| suspect["event_id"].as_str().unwrap().to_owned();
    first.iter().map(id).collect()
}

#[tokio::test]
async fn what_the_relay_published_is_found() {
    let shelf = Shelf::new().await;
    shelf.publish(30, 4).await;
    shelf.outbox.emit(&shelf.topic, "k0").await;
    let report = shelf.project.run(&VERIFY).ok().json();
    assert_eq!(report["ok"], true, "{report:#}");
    assert_eq!(
        (&report["published"], &report["waiting"]),
        (&30.into(), &1.into())
    );
    assert_eq!(
        (&report["messages"], &report["topics"]),
        (&30.into(), &1.into())
    );
    for kind in ["lost", "duplicated", "inverted", "unknown"] {
        assert_eq!(ids(&report, kind), Vec::<String>::new(), "{kind}");
    }
    let text = shelf.project.run(&["verify", "--since", "1h"]).ok();
    text.prints("30 published, 1 waiting")
        .prints("lost        0");
}

/// Each thing is broken once; each is named, and nothing else.
#[tokio::test]
async fn exactly_what_is_broken_is_named() {
    let shelf = Shelf::new().await;
    shelf.publish(20, 3).await;
    let all = shelf.ids().await;

    let lost = shelf.pretend("k0").await;
    let twice = all[7];
    shelf.produce(&[shelf.message(twice, "k1")]).await;
    let (early, late) = (
        shelf.pretend("swapped").await,
        shelf.pretend("swapped").await,
    );
    let swapped = [
        shelf.message(late, "swapped"),
        shelf.message(early, "swapped"),
    ];
    shelf.produce(&swapped).await;
    let unknown = Uuid::now_v7();
    shelf.produce(&[shelf.message(unknown, "k0")]).await;
    let mut foreign = shelf.message(Uuid::now_v7(), "k0");
    foreign.headers = vec![Header::new("event_id", "17")];
    let mut nameless = foreign.clone();
    nameless.headers.clear();
    let mut other_type = shelf.message(Uuid::now_v7(), "k0");
    other_type.headers[1] = Header::new("event_type", "of.another.outbox");
    shelf.produce(&[foreign, nameless, other_type]).await;

    let ran = shelf.project.run(&VERIFY).exits(1);
    let report = ran.json();
    assert_eq!(report["ok"], false);
    assert_eq!(ids(&report, "lost"), [lost.to_string()]);
    assert_eq!(ids(&report, "duplicated"), [twice.to_string()]);
    assert_eq!(ids(&report, "inverted"), [late.to_string()]);
    assert_eq!(ids(&report, "unknown"), [unknown.to_string()]);
    assert_eq!(report["foreign"], 3);
    let seen = report["inverted"]["first"][0]["seen"].as_str().unwrap();
    assert!(seen.contains(&early.to_string()), "{seen}");
    assert_eq!(ran.stderr, "", "no progress beside JSON");

    let text = shelf.project.run(&["verify", "--since", "1h"]).exits(1);
    let text = text.prints("lost (1 of 1)").prints(&lost.to_string());
    text.prints(&unknown.to_string()).prints("2 times");
    let allowed = [
        "--allow=duplicated",
        "--allow=unknown",
        "--allow=inverted",
        "--allow=lost",
    ];
    let args: Vec<&str> = VERIFY.into_iter().chain(allowed).collect();
    shelf.project.run(&args[..7]).exits(1);
    assert_eq!(shelf.project.run(&args).ok().json()["ok"], true);
}

/// A record outside the range, or not published yet, makes no message unknown; a purged one does.
#[tokio::test]
async fn messages_of_records_outside_the_range_are_known() {
    let shelf = Shelf::new().await;
    shelf.publish(10, 2).await;
    let database = &shelf.outbox.database;
    database
        .execute(
            "WITH r AS (SELECT id, row_number() OVER (ORDER BY created_at) AS n FROM outbox_events) \
             UPDATE outbox_events o SET created_at = created_at - interval '1 day' FROM r WHERE r.id = o.id AND n <= 3; \
             WITH r AS (SELECT id, row_number() OVER (ORDER BY created_at DESC) AS n FROM outbox_events) \
             UPDATE outbox_events o SET processed = false, processed_at = NULL FROM r WHERE r.id = o.id AND n <= 2",
        )
        .await;
    let report = shelf.project.run(&VERIFY).ok().json();
    assert_eq!(
        (&report["published"], &report["waiting"]),
        (&5.into(), &2.into())
    );
    assert_eq!(report["messages"], 10);
    let purged = shelf.ids().await[4];
    let delete = format!("DELETE FROM outbox_events WHERE id = '{purged}'");
    database.execute(&delete).await;
    let report = shelf.project.run(&VERIFY).exits(1).json();
    assert_eq!(ids(&report, "unknown"), [purged.to_string()]);
    shelf
        .project
        .run(&["verify", "--since", "1h"])
        .exits(1)
        .prints("purged records look the same");
}

/// A message whose time is far from its record's, by an outage or a wrong clock, is not lost.
#[tokio::test]
async fn a_record_that_was_published_late_is_found() {
    let shelf = Shelf::new().await;
    shelf.publish(4, 1).await;
    let moved = "UPDATE outbox_events SET created_at = created_at - interval '1 day', \
                 processed_at = processed_at - interval '1 day'";
    shelf.outbox.database.execute(moved).await;
    let range = ["verify", "--since", "25h", "--until", "23h", "--json"];
    let report = shelf.project.run(&range).ok().json();
    assert_eq!(
        (&report["published"], &report["lost"]["count"]),
        (&4.into(), &0.into())
    );
}

#[tokio::test]
async fn what_cannot_be_verified_says_why() {
    let outbox = TestOutbox::create("polyshop").await;
    let memory = outbox.project("");
    memory
        .run(&VERIFY)
        .exits(2)
        .says("cannot be reached from here");
    let pubsub = outbox.config_with("kind = \"pubsub\"\nproject = \"p\"", "");
    let pubsub = crate::binary::Project::new(&pubsub);
    pubsub
        .run(&VERIFY)
        .exits(2)
        .says("Pub/Sub cannot be read back");
    let shelf = Shelf::new().await;
    let backwards = ["verify", "--since", "1h", "--until", "2h"];
    shelf.project.run(&backwards).exits(2).says("is not before");
    shelf.project.run(&["verify"]).exits(2).says("--since");
    let nonsense = ["verify", "--since", "noon"];
    shelf
        .project
        .run(&nonsense)
        .exits(2)
        .says("an age such as 2h");
    let broker = "kind = \"kafka\"\nbootstrap = \"127.0.0.1:1\"";
    let unnamed = "[outbox.attributes]\nevent_id = \"event_type\"";
    let project = crate::binary::Project::new(&outbox.config_with(broker, unnamed));
    project
        .run(&VERIFY)
        .exits(2)
        .says("puts no event id into the messages' headers");
}
