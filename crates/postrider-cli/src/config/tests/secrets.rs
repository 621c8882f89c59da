use super::*;

const PASSWORD: &str = "hunter2";

#[test]
fn a_secret_comes_from_the_file_the_environment_or_another_file() {
    let database = |reference: &str| {
        let text = GOOD.replace("postgres://shop@db/shop", reference);
        let environment = [("DATABASE_URL", "postgres://u:hunter2@db/shop")];
        read_with(&text, environment.into()).unwrap().outboxes[0]
            .database
            .expose()
            .to_owned()
    };
    assert_eq!(
        database("postgres://u:hunter2@db/shop"),
        "postgres://u:hunter2@db/shop"
    );
    assert_eq!(database("env:DATABASE_URL"), "postgres://u:hunter2@db/shop");
    assert_eq!(
        database("file:database-url"),
        "postgres://u:hunter2@db/shop"
    );
    let absolute = testdata().join("database-url");
    assert_eq!(
        database(&format!("file:{}", absolute.display())),
        "postgres://u:hunter2@db/shop"
    );
}

#[test]
fn a_secret_that_is_not_there_is_named() {
    let refused = |reference: &str| refused(&GOOD.replace("postgres://shop@db/shop", reference));
    says(
        &refused("env:NOWHERE"),
        &["outbox.orders.database", "`NOWHERE`", "postrider.toml:7:12"],
    );
    says(
        &refused("file:/nowhere/db"),
        &["/nowhere/db", "No such file"],
    );
    says(&refused("file:empty"), &["file:empty is empty"]);
    let token = super::refused(&format!("{GOOD}[admin]\ntoken = \"env:NOWHERE\""));
    says(&token, &["admin.token", "`NOWHERE`"]);
    let empty = super::refused(&format!("{GOOD}[admin]\ntoken = \"\""));
    says(&empty, &["admin.token", "empty"]);
}

#[test]
fn no_output_holds_a_secret() {
    let text = GOOD.replace(
        "shop@db/shop",
        "u:hunter2@db/shop?sslpassword=hunter2&sslmode=require",
    ) + "[admin]\ntoken = \"hunter2-and-nine-more\"";
    let config = read(&text).unwrap();
    let shown = config.to_toml().unwrap();
    says(
        &shown,
        &[
            "postgres://u:***@db/shop",
            "sslmode=require",
            "token = \"***\"",
        ],
    );
    let json = serde_json::to_string(&config).unwrap();
    for text in [shown, json, format!("{config:?}")] {
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[test]
fn no_error_holds_a_secret() {
    let wrong = [
        "[admin]\ntoken = 7072721",
        "[admin]\ntoken = \"7072721",
        "[admin]\ntoken = [\"7072721\"]",
    ];
    for lines in wrong {
        let text = refused(&format!("{GOOD}{lines}"));
        says(&text, &["postrider.toml:11:"]);
        assert!(!text.contains("7072721"), "{text}");
    }
    for url in [
        "mysql://u:hunter2@db/x",
        "host=db password=hunter2",
        "postgres://u:hunter2@[/x",
    ] {
        let text = refused(&GOOD.replace("postgres://shop@db/shop", url));
        says(&text, &["outbox.orders.database", "postgres://user"]);
        assert!(!text.contains(PASSWORD), "{text}");
    }
    let variables = [(
        "POSTRIDER__OUTBOX__ORDERS__DATABASE",
        "mysql://u:hunter2@db/x",
    )];
    let text = read_with(GOOD, variables.into()).unwrap_err().to_string();
    assert!(!text.contains(PASSWORD), "{text}");
}

#[test]
fn a_brokers_secrets_are_resolved_and_hidden() {
    let kafka = |properties: &str| {
        let lines = format!(
            "kind = \"kafka\"\nbootstrap = \"kafka:9092\"\n[broker.main.properties]\n{properties}"
        );
        read_with(
            &GOOD.replace("kind = \"memory\"", &lines),
            [("KAFKA_PASSWORD", PASSWORD)].into(),
        )
    };
    let referred = kafka("\"sasl.password\" = \"env:KAFKA_PASSWORD\"").unwrap();
    let crate::config::BrokerOptions::Kafka(options) = &referred.brokers["main"].options else {
        panic!("{referred:?}");
    };
    assert_eq!(options.properties["sasl.password"].expose(), PASSWORD);
    says(
        &referred.to_toml().unwrap(),
        &["\"sasl.password\" = \"env:KAFKA_PASSWORD\""],
    );

    let written = kafka("\"sasl.password\" = \"hunter2\"\n\"sasl.username\" = \"me\"").unwrap();
    let shown = written.to_toml().unwrap();
    says(
        &shown,
        &[
            "\"sasl.password\" = \"***\"",
            "\"sasl.username\" = \"me\"",
            "linger_ms",
        ],
    );
    for text in [shown, format!("{written:?}"), format!("{referred:?}")] {
        assert!(!text.contains(PASSWORD), "{text}");
    }

    let wrong = kafka("\"sasl.password\" = 7072721")
        .unwrap_err()
        .to_string();
    says(&wrong, &["broker.main.properties", "it is text"]);
    assert!(!wrong.contains("7072721"), "{wrong}");
}
