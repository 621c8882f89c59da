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
