//! Mistakes in the config and on the command line: exit code 2, nothing on stdout.

use crate::binary::{Project, Ran};

const GOOD: &str = r#"
[broker.main]
kind = "memory"
[[outbox]]
name = "orders"
database = "postgres://shop:hunter2@127.0.0.1:1/shop"
layout = "polyshop"
broker = "main"
"#;

#[track_caller]
fn refused(ran: Ran) -> Ran {
    let ran = ran.exits(2);
    assert_eq!(ran.stdout, "");
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    ran
}

#[test]
fn a_mistake_in_the_config_is_pointed_at_whatever_the_verb() {
    let project = Project::new(&format!("{GOOD}batch = 0"));
    for verb in [
        &["relay"][..],
        &["check"],
        &["status"],
        &["init", "--print"],
        &["dead", "list"],
        &["cleanup", "--once"],
    ] {
        refused(project.run(verb))
            .says("error: postrider.toml:9:9: outbox.orders.batch: `0` is not allowed")
            .says("9 | batch = 0\n  |         ^");
    }
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let project = Project::new(&format!("{GOOD}[admin]\nlisten = \"0.0.0.0:0\""));
    refused(project.run(&["relay"]))
        .says("admin.listen: `0.0.0.0:0`")
        .says("admin.token");
}

#[test]
fn a_variable_that_names_nothing_is_refused() {
    let project = Project::new(GOOD).variable("POSTRIDER__OUTBOX__ORDERS__COLOUR", "blue");
    refused(project.run(&["relay"])).says("POSTRIDER__OUTBOX__ORDERS__COLOUR in the environment");
}

#[test]
fn a_config_that_is_not_there_is_named() {
    let project = Project::new(GOOD);
    refused(project.run(&["relay", "--config", "other.toml"])).says("cannot read other.toml");
    let elsewhere = Project::new(GOOD).variable("POSTRIDER_CONFIG", "other.toml");
    refused(elsewhere.run(&["status"])).says("cannot read other.toml");
}

#[test]
fn arguments_that_cannot_be_followed_are_refused() {
    let project = Project::new(GOOD);
    for args in [
        &["carry"][..],
        &[],
        &["cleanup"],
        &["status", "--max-age", "soon"],
        &["status", "--outbox", "payments"],
        &["dead", "resend"],
        &["dead", "discard", "--all", "--id", "1"],
        &["dead", "show"],
        &["init", "--layout", "rabbit", "--print"],
        &["init", "--layout", "polyshop"],
        &["init", "--layout", "polyshop", "--outbox", "orders"],
        &["init", "--database", "postgres://db/x"],
        &[
            "init",
            "--layout",
            "polyshop",
            "--database",
            "mysql://u:hunter2@db/x",
        ],
        &["layouts", "show", "rabbit"],
    ] {
        refused(project.run(args));
    }
}

#[test]
fn layouts_are_listed_and_shown() {
    let project = Project::new(GOOD);
    project
        .run(&["layouts"])
        .ok()
        .prints("polyshop")
        .prints("{event_type}");
    let names = project.run(&["layouts", "--json"]).ok().json();
    assert_eq!(names[0]["name"], "packfinderz");
    let shown = project.run(&["layouts", "show", "gopipe"]).ok();
    assert!(
        shown
            .stdout
            .parse::<toml::Table>()
            .unwrap()
            .contains_key("columns")
    );
    let json = project
        .run(&["layouts", "show", "gopipe", "--json"])
        .ok()
        .json();
    assert_eq!(json["state"]["kind"], "flag");
}

#[test]
fn a_url_that_the_client_does_not_take_is_a_mistake_too() {
    let config = GOOD.replace("/shop\"", "/shop?sslmode=colour\"");
    let project = Project::new(&config);
    for verb in ["status", "check", "relay"] {
        refused(project.run(&[verb])).says("outbox.orders.database");
    }
    let kafka = "kind = \"kafka\"\nbootstrap = \"k:1\"\nproperties = { colour = \"hunter2\" }";
    let project = Project::new(&GOOD.replace("kind = \"memory\"", kafka));
    refused(project.run(&["relay"]))
        .says("broker.main")
        .says("colour");
}
