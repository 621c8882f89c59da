use postrider::core::layout::PRESETS;

use crate::binary::Project;
use crate::outbox::TestOutbox;

#[tokio::test]
async fn init_creates_what_check_asks_for_and_may_be_repeated() {
    for layout in PRESETS {
        let outbox = TestOutbox::empty(layout).await;
        let project = outbox.project("");
        for _ in 0..2 {
            let ran = project
                .run(&["init", "--claim-index", "--notify"])
                .ok()
                .says("is ready");
            assert_eq!(ran.stdout, "");
        }
        let check = project.run(&["check", "--json"]).ok().json();
        assert_eq!(check["ok"], true, "{layout}: {check:#}");
    }
}

#[tokio::test]
async fn print_shows_the_statements_and_changes_nothing() {
    let outbox = TestOutbox::empty("polyshop").await;
    let project = outbox.project("");
    let plain = project
        .run(&["init", "--print"])
        .ok()
        .prints("CREATE TABLE")
        .stdout;
    assert!(!plain.contains("TRIGGER"), "{plain}");
    project.run(&["check"]).exits(1);

    let all = project
        .run(&["init", "--print", "--claim-index", "--notify"])
        .ok()
        .stdout;
    assert!(
        all.contains("CREATE INDEX") && all.contains("TRIGGER"),
        "{all}"
    );
    // What is printed is what init does: run twice by hand, it satisfies the check.
    for _ in 0..2 {
        sqlx::raw_sql(sqlx::AssertSqlSafe(all.clone()))
            .execute(outbox.pool())
            .await
            .unwrap();
    }
    project.run(&["check"]).ok();
}

#[tokio::test]
async fn a_native_outbox_may_have_other_groups_and_json_payloads() {
    let outbox = TestOutbox::empty("native").await;
    let elsewhere = Project::new("").variable("DATABASE", outbox.url());
    let init = |more: &[&str]| {
        let start = ["init", "--layout", "native", "--database", "env:DATABASE"];
        elsewhere.run(&[&start, more].concat())
    };
    init(&["--groups", "4", "--payload", "json"]).ok();
    let groups: i64 = sqlx::query_scalar("SELECT count(*) FROM postrider_outbox_stream")
        .fetch_one(outbox.pool())
        .await
        .unwrap();
    assert_eq!(groups, 4);
    init(&["--groups", "33"]).exits(2).says("from 1 to 32");
    init(&["--payload", "xml"]).exits(2);
    let other = Project::new("");
    other
        .run(&["init", "--layout", "gopipe", "--groups", "4", "--print"])
        .exits(2);
    // What is there already decides: relays agree on it.
    outbox.project("").run(&["init"]).ok();
    outbox.project("").run(&["status"]).ok();
}

#[tokio::test]
async fn a_layout_needs_no_config() {
    let outbox = TestOutbox::empty("gopipe").await;
    let elsewhere = Project::new("this is no config").variable("DATABASE", outbox.url());
    elsewhere
        .run(&["init", "--layout", "gopipe", "--print"])
        .ok()
        .prints("CREATE TABLE");
    let args = [
        "init",
        "--layout",
        "gopipe",
        "--database",
        "env:DATABASE",
        "--table",
        "events",
    ];
    elsewhere.run(&args).ok();
    sqlx::query("SELECT topic, data FROM events")
        .execute(outbox.pool())
        .await
        .unwrap();
}

#[test]
fn a_database_that_is_away_is_named_without_its_password() {
    let project = Project::new("");
    let url = "postgres://u:hunter2@127.0.0.1:1/x";
    let ran = project
        .run(&["init", "--layout", "gopipe", "--database", url])
        .exits(1);
    let ran = ran.says("u:***@127.0.0.1:1").says("because:");
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}
