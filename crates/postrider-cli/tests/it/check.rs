use postrider_testkit::kafka::{Kafka, fresh_topic_name};

use crate::binary::Project;
use crate::outbox::TestOutbox;

fn levels(check: &serde_json::Value) -> Vec<&str> {
    let findings = check["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|finding| finding["level"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_table_that_is_not_there_is_an_error_with_a_remedy() {
    let outbox = TestOutbox::empty("polyshop").await;
    let project = outbox.project("");
    let check = project.run(&["check", "--json"]).exits(1).json();
    assert_eq!(check["ok"], false);
    let findings = check["findings"].as_array().unwrap();
    let error = findings
        .iter()
        .find(|finding| finding["level"] == "error")
        .unwrap();
    assert_eq!(error["place"], "outbox.orders");
    assert!(error.to_string().contains("postrider init"), "{error}");
    project
        .run(&["check"])
        .exits(1)
        .prints("# error: outbox.orders: ");
}

#[tokio::test]
async fn a_column_that_is_missing_is_named() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("[outbox.columns]\npayload = \"body\"");
    let ran = project.run(&["check"]).exits(1).prints("body");
    assert!(ran.stdout.parse::<toml::Table>().is_ok(), "{}", ran.stdout);
}

#[tokio::test]
async fn a_missing_index_is_a_warning_with_the_statement() {
    let outbox = TestOutbox::empty("packfinderz").await;
    let project = outbox.project("");
    project.run(&["init"]).ok();
    project
        .run(&["check"])
        .ok()
        .prints("# warning: outbox.orders: ")
        .prints("CREATE INDEX");
}

#[tokio::test]
async fn an_index_that_costs_every_settled_record_is_a_note() {
    let outbox = TestOutbox::create("polyshop").await;
    let project = outbox.project("");
    let index = "CREATE INDEX done ON outbox_events (processed_at)";
    outbox.database.execute(index).await;
    project
        .run(&["check"])
        .ok()
        .prints(&format!(
            "# note: outbox.orders: index {}.done: reads processed_at, which settling changes",
            outbox.database.schema
        ))
        .prints("adds 2 index entries")
        .prints("DROP INDEX CONCURRENTLY");
}

#[tokio::test]
async fn a_deep_check_looks_at_the_topics_that_routes_and_records_name() {
    let kafka = Kafka::shared();
    let (missing, small) = (fresh_topic_name(), fresh_topic_name());
    let settings = [("max.message.bytes", "5000")];
    kafka.create_topic(&small, 1, &settings).await;
    let outbox = TestOutbox::create("polyshop").await;
    // One topic is named in a route, the other by a record that waits.
    outbox.emit(&small, "7").await;
    let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", kafka.bootstrap());
    let routes = format!(
        "[[outbox.route]]\nevent_type = \"order.lost\"\ntopic = \"{missing}\"\n\
         [[outbox.route]]\nevent_type = \"{small}\"\n"
    );
    let project = Project::new(&outbox.config_with(&broker, &routes));
    project.run(&["check"]).ok();
    project
        .run(&["check", "--deep"])
        .ok()
        .prints(&format!(
            "# warning: broker.main: topic {missing}: does not exist"
        ))
        .prints(&format!(
            "# warning: broker.main: topic {small}: its max.message.bytes is 5000"
        ));
}

#[tokio::test]
async fn the_effective_config_is_printed_with_secrets_hidden() {
    let outbox = TestOutbox::create("polyshop").await;
    let config = outbox
        .config("")
        .replace("listen =", "token = \"hunter2-and-nine-more\"\nlisten =")
        + "[broker.spare]\nkind = \"kafka\"\nbootstrap = \"127.0.0.1:1\"\n\
           properties = { \"sasl.password\" = \"hunter2\" }\n";
    let project = Project::new(&config).variable("POSTRIDER__OUTBOX__ORDERS__BATCH", "7");
    let ran = project.run(&["check"]).ok();
    let shown: toml::Table = ran.stdout.parse().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(shown["outbox"][0]["batch"].as_integer(), Some(7));
    assert_eq!(shown["outbox"][0]["max_attempts"].as_integer(), Some(25));
    assert_eq!(
        shown["admin"]["tokens"]["token"]["token"].as_str(),
        Some("***")
    );
    let json = project.run(&["check", "--json"]).ok();
    for text in [&ran.stdout, &ran.stderr, &json.stdout, &json.stderr] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    let check = json.json();
    let subjects: Vec<_> = check["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| &f["place"])
        .collect();
    assert_eq!(subjects, ["broker.main", "broker.spare"], "{check:#}");
    assert_eq!(levels(&check), ["warning", "warning"]);
}

#[tokio::test]
async fn a_broker_or_a_database_that_is_away_is_an_error() {
    let outbox = TestOutbox::create("polyshop").await;
    let broker = "kind = \"kafka\"\nbootstrap = \"127.0.0.1:1\"";
    let project = Project::new(&outbox.config_with(broker, ""));
    project
        .run(&["check"])
        .exits(1)
        .prints("# error: broker.main: broker: ");

    let config = outbox
        .config("")
        .replace(outbox.url(), "postgres://u:hunter2@127.0.0.1:1/x");
    let ran = Project::new(&config).run(&["check"]).exits(1);
    let ran = ran.prints("# error: outbox.orders: database: ");
    assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
}

#[tokio::test]
async fn a_deep_check_names_what_holds_the_backlog_up() {
    let outbox = TestOutbox::create("polyshop").await;
    let routes = "[[outbox.route]]\nevent_type = \"order.placed\"\n";
    // A name of its own: other tests' relays are connected to the same database.
    let name = &outbox.database.schema;
    let config = outbox
        .config(routes)
        .replace("\"orders\"", &format!("\"{name}\""));
    let project = Project::new(&config);
    outbox.emit("order.lost", "7").await;
    outbox.emit("order.placed", "7").await;
    project.run(&["check"]).ok();
    let ran = project.run(&["check", "--deep"]).ok();
    ran.prints("no relay is connected")
        .prints(&format!("postrider relay {name}"));
    let relay = project.relay().await;
    let findings = postrider_testkit::eventually("the key is parked", async || {
        let ran = project.run(&["check", "--deep", "--json"]);
        let findings = ran.json()["findings"].clone();
        let parked = |finding: &serde_json::Value| finding["subject"] == "key 7";
        match findings.as_array().unwrap().iter().any(parked) {
            true => Ok(findings),
            false => Err(findings),
        }
    })
    .await;
    let text = findings.to_string();
    assert!(!text.contains("no relay is connected"), "{text}");
    assert!(
        text.contains("no route") && text.contains("dead resend --id"),
        "{text}"
    );
    let ran = project.run(&["check", "--deep"]).exits(1);
    ran.prints(&format!("# error: outbox.{name}: key 7: record "))
        .prints("records behind it: 1): no route");
    drop(relay);
}
