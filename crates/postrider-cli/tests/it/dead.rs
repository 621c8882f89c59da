use postrider_testkit::eventually;
use serde_json::{Value, json};

use crate::binary::Project;
use crate::outbox::TestOutbox;

/// Events without a route are dead at once.
const ROUTES: &str = "[[outbox.route]]\nevent_type = \"order.placed\"\n";

/// Two dead records of keys `7` and `8`, and the config of their outbox.
async fn two_dead() -> (TestOutbox, Project) {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project(ROUTES);
    outbox.emit("order.lost", "7").await;
    outbox.emit("order.gone", "8").await;
    let relay = project.relay().await;
    dead(&project, 2).await;
    drop(relay);
    (outbox, project)
}

async fn dead(project: &Project, wanted: u64) {
    eventually("dead records", async || {
        let status = project.run(&["status", "--json"]).ok().json();
        match &status["outboxes"][0]["dead"] {
            found if *found == wanted => Ok(()),
            found => Err(found.clone()),
        }
    })
    .await;
}

/// A layout without a topic column makes it from the row; what has no route goes nowhere.
#[tokio::test]
async fn the_topic_is_the_one_that_the_config_gives_now() {
    let (outbox, project) = two_dead().await;
    let topics = |project: &Project| {
        let list = project.run(&["dead", "list", "--json"]).ok().json();
        let topics = list.as_array().unwrap().iter();
        topics
            .map(|record| record["topic"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(topics(&project), [Value::Null, Value::Null]);
    assert_eq!(topics(&outbox.project("")), ["order.lost", "order.gone"]);
    let moved = "[[outbox.route]]\nevent_type = \"order.gone\"\ntopic = \"elsewhere\"\n";
    let moved = outbox.project(moved);
    assert_eq!(topics(&moved), [json!(null), json!("elsewhere")]);
    moved
        .run(&["dead", "show", "--key", "8"])
        .ok()
        .prints("topic:      elsewhere");
}

#[tokio::test]
async fn dead_records_are_listed_with_their_error_and_without_their_payload() {
    let (_outbox, project) = two_dead().await;
    let text = project
        .run(&["dead", "list"])
        .ok()
        .prints("order.lost")
        .prints("no route")
        .stdout;
    assert!(!text.contains("orderId"), "{text}");
    let all = project.run(&["dead", "list", "--json"]).ok().json();
    assert_eq!(all.as_array().unwrap().len(), 2);
    let lost = project
        .run(&["dead", "list", "--type", "order.lost", "--json"])
        .ok()
        .json();
    assert_eq!(lost.as_array().unwrap().len(), 1);
    assert_eq!(lost[0]["key"], "7");
    assert_eq!(lost[0]["attempts"], 1);
    let by_key = project
        .run(&["dead", "list", "--key", "8", "--json"])
        .ok()
        .json();
    assert_eq!(by_key[0]["event_type"], "order.gone");
    let one = project
        .run(&["dead", "list", "--limit", "1", "--json"])
        .ok()
        .json();
    assert_eq!(one.as_array().unwrap().len(), 1);

    let id = lost[0]["id"].as_str().unwrap();
    project
        .run(&["dead", "show", "--id", id])
        .ok()
        .prints("type:       order.lost")
        .prints(id);
    project
        .run(&["dead", "show", "--key", "9"])
        .exits(1)
        .says("no such record is dead");
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let (_outbox, project) = two_dead().await;
    for verb in ["resend", "discard"] {
        let ran = project.run(&["dead", verb, "--all", "--dry-run"]).ok();
        ran.prints("order.lost")
            .prints("order.gone")
            .says("2 records would be");
    }
    dead(&project, 2).await;
}

#[tokio::test]
async fn what_is_resent_is_published_once_the_cause_is_mended() {
    let (outbox, project) = two_dead().await;
    let lost = project
        .run(&["dead", "list", "--key", "7", "--json"])
        .ok()
        .json();
    let id = lost[0]["id"].as_str().unwrap();
    project
        .run(&["dead", "resend", "--id", id])
        .ok()
        .prints("1 resent");
    project
        .run(&["dead", "resend", "--id", id])
        .exits(1)
        .prints("0 resent");
    dead(&project, 1).await;

    let mended = outbox.project("");
    let relay = mended.relay().await;
    eventually("resent record is published", async || {
        let status = mended.run(&["status", "--json"]).ok().json();
        if status["outboxes"][0]["pending"] == 0 {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
    drop(relay);
    dead(&project, 1).await;
}

#[tokio::test]
async fn what_is_discarded_is_gone() {
    let (outbox, project) = two_dead().await;
    let ran = project
        .run(&["dead", "discard", "--type", "order.gone", "--json"])
        .ok()
        .json();
    assert_eq!(ran["discarded"], 1);
    dead(&project, 1).await;
    project
        .run(&["dead", "discard", "--all"])
        .ok()
        .prints("1 discarded");
    dead(&project, 0).await;
    assert_eq!(outbox.database.count("outbox_events").await, 0);
    project
        .run(&["dead", "discard", "--all"])
        .ok()
        .prints("0 discarded");
}

#[tokio::test]
async fn an_id_that_cannot_be_one_is_refused() {
    let outbox = TestOutbox::create("polyshop").await;
    let ran = outbox
        .project("")
        .run(&["dead", "list", "--id", "x'; DROP TABLE outbox_events; --"]);
    ran.exits(1).says("is not a UUID");
}

#[tokio::test]
async fn one_outbox_of_several_must_be_named() {
    let outbox = TestOutbox::create("polyshop").await;
    let second = outbox
        .config("")
        .split_once("[[outbox]]")
        .unwrap()
        .1
        .replace("orders", "more");
    let project = Project::new(&format!("{}[[outbox]]{second}", outbox.config("")));
    project
        .run(&["dead", "list"])
        .exits(2)
        .says("--outbox: orders, more");
    project.run(&["dead", "list", "--outbox", "more"]).ok();
}

#[tokio::test]
async fn every_option_narrows_the_choice() {
    let outbox = TestOutbox::create("talkie").await;
    let project = outbox.project("max_attempts = 3");
    let insert = "INSERT INTO outbox (topic, key, payload_json, status, retry_count, last_error, created_at) \
                  SELECT CASE n % 2 WHEN 0 THEN 'even' ELSE 'odd' END, 'k' || n, '{}', 'dead_lettered', 3, \
                  'Broker ' || n, now() - n * interval '1 hour' FROM generate_series(1, 4) n";
    sqlx::query(insert).execute(outbox.pool()).await.unwrap();
    let keys = |options: &[&str]| {
        let ran = project.run(&[&["dead", "list", "--json"], options].concat());
        let keys: Vec<String> = (ran.ok().json().as_array().unwrap().iter())
            .map(|record| record["key"].as_str().unwrap().to_owned())
            .collect();
        keys.join(" ")
    };
    assert_eq!(keys(&[]), "k4 k3 k2 k1", "oldest first");
    assert_eq!(keys(&["--topic", "even"]), "k4 k2");
    assert_eq!(keys(&["--error", "bROKER 3"]), "k3");
    assert_eq!(keys(&["--older-than", "150m"]), "k4 k3");
    assert_eq!(keys(&["--newer-than", "150m"]), "k2 k1");
    assert_eq!(
        keys(&[
            "--newer-than",
            "200m",
            "--older-than",
            "90m",
            "--topic",
            "even"
        ]),
        "k2"
    );
    assert_eq!(
        keys(&["--newer-than", "2020-01-01T00:00:00Z", "--key", "k1"]),
        "k1"
    );
    project
        .run(&["dead", "list", "--older-than", "yesterday"])
        .exits(2)
        .says("2h");
    let ran = project.run(&["dead", "resend", "--topic", "odd", "--dry-run", "--json"]);
    assert_eq!(ran.ok().json()["count"], 2);
    let ran = project.run(&["dead", "discard", "--older-than", "90m", "--all"]);
    ran.exits(2).says("--older-than");
    let ran = project.run(&["dead", "discard", "--older-than", "150m"]);
    ran.ok().says("2 dead records match").prints("2 discarded");
    assert_eq!(keys(&[]), "k2 k1");
}

#[tokio::test]
async fn who_did_it_is_written_down_and_shown() {
    let (outbox, project) = two_dead().await;
    project.run(&["dead", "resend", "--key", "7"]).ok();
    let who = "SELECT who FROM postrider_audit ORDER BY id DESC LIMIT 1";
    let by_default = outbox.database.text(who).await.unwrap();
    assert!(by_default.contains('@'), "{by_default}");
    let by = ["dead", "resend", "--key", "8", "--by", "night shift"];
    project.run(&by).ok();
    assert_eq!(
        outbox.database.text(who).await.as_deref(),
        Some("night shift")
    );
    let relay = project.relay().await;
    dead(&project, 2).await;
    drop(relay);
    let shown = project.run(&["dead", "show", "--key", "8"]).ok();
    shown.prints("resend by night shift").prints("aggregate:");
    let shown = project.run(&["dead", "show", "--key", "8", "--json"]);
    let shown = shown.ok().json();
    assert_eq!(shown[0]["acts"][0]["by"], "night shift");
    assert_eq!(shown[0]["acts"][0]["action"], "resend");
}

#[tokio::test]
async fn hints_say_what_to_do_next() {
    let (outbox, project) = two_dead().await;
    let listed = project.run(&["dead", "list", "--limit", "1"]).ok();
    let listed = listed.says("1 of 2; --limit").says("dead show --id ");
    listed.says("dead resend --id ");
    let id = outbox.emit("order.placed", "9").await.to_string();
    for verb in ["show", "resend", "discard"] {
        let ran = project.run(&["dead", verb, "--id", &id]).exits(1);
        ran.says(&format!("record {id} is pending"));
    }
    let nobody = uuid::Uuid::now_v7().to_string();
    let ran = project.run(&["dead", "show", "--id", &nobody]).exits(1);
    ran.says("no record with this id");
    project
        .run(&["dead", "list", "--key", "nobody"])
        .ok()
        .says("no dead record matches");
    project.run(&["dead", "show"]).exits(2).says("--older-than");
    project.run(&["dead", "resend"]).exits(2).says("--all");
}

#[tokio::test]
async fn without_an_audit_table_a_change_is_refused_with_the_way_out() {
    let (outbox, project) = two_dead().await;
    outbox.database.execute("DROP TABLE postrider_audit").await;
    for verb in ["resend", "discard"] {
        let ran = project.run(&["dead", verb, "--all"]).exits(1);
        ran.says("postrider_audit")
            .says("`postrider init` creates it");
    }
    project.run(&["dead", "show", "--key", "7"]).ok();
    dead(&project, 2).await;
    project.run(&["init"]).ok();
    project
        .run(&["dead", "resend", "--all"])
        .ok()
        .prints("2 resent");
}
