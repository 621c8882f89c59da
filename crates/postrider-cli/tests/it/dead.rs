use postrider_testkit::eventually;

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
