use std::time::Duration;

use super::*;

fn with(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    read_with(GOOD, variables.iter().copied().collect())
}

fn refused_with(name: &str, value: &str) -> String {
    with(&[(name, value)])
        .expect_err("this variable is wrong")
        .to_string()
}

#[test]
fn the_environment_wins_over_the_file() {
    let config = with(&[
        ("POSTRIDER__ADMIN__LISTEN", "[::1]:1"),
        ("POSTRIDER__LOG__LEVEL", "debug"),
        ("POSTRIDER__TELEMETRY__OTLP", "http://collector:4317"),
        (
            "POSTRIDER__OUTBOX__ORDERS__DATABASE",
            "postgres://elsewhere/db",
        ),
        ("POSTRIDER__OUTBOX__ORDERS__BATCH", "7"),
        ("POSTRIDER__OUTBOX__ORDERS__NOTIFY", "true"),
        ("POSTRIDER__OUTBOX__ORDERS__RETRY__BASE", "3s"),
        ("POSTRIDER__OUTBOX__ORDERS__CLEANUP__KEEP", "1d"),
        ("POSTRIDER__OUTBOX__ORDERS__ORDER", "[\"id\"]"),
        ("POSTRIDER__BROKER__MAIN__MESSAGES_MAX", "10"),
        ("POSTRIDER_CONFIG", "not ours"),
        ("HOME", "/"),
    ])
    .unwrap();
    assert_eq!(config.admin.listen.to_string(), "[::1]:1");
    assert_eq!(config.log.level, "debug");
    assert_eq!(
        config.telemetry.otlp.as_deref(),
        Some("http://collector:4317")
    );
    let outbox = &config.outboxes[0];
    assert_eq!(outbox.database.expose(), "postgres://elsewhere/db");
    assert_eq!((outbox.batch, outbox.notify), (7, true));
    assert_eq!(outbox.retry.base, Duration::from_secs(3));
    assert_eq!(outbox.cleanup.unwrap().keep, Duration::from_secs(86_400));
    assert_eq!(outbox.layout.order.len(), 1);
    says(&config.to_toml().unwrap(), &["messages_max = 10"]);
}

#[test]
fn it_may_supply_what_the_file_lacks() {
    let file = GOOD.replace("database = \"postgres://shop@db/shop\"\n", "");
    let variables = [(
        "POSTRIDER__OUTBOX__ORDERS__DATABASE",
        "postgres://elsewhere/db",
    )];
    assert!(read_with(&file, variables.into()).is_ok());
}

#[test]
fn names_with_hyphens_and_capitals_are_found() {
    let file = GOOD.replace("\"orders\"", "\"Order-events\"");
    let variables = [("POSTRIDER__OUTBOX__ORDER_EVENTS__BATCH", "7")];
    assert_eq!(
        read_with(&file, variables.into()).unwrap().outboxes[0].batch,
        7
    );
}

#[test]
fn text_that_looks_like_a_number_stays_text() {
    let config = with(&[
        ("POSTRIDER__ADMIN__TOKEN", "1234567812345678"),
        ("POSTRIDER__OUTBOX__ORDERS__SOURCE", "true"),
    ])
    .unwrap();
    assert_eq!(
        config.admin.tokens["token"].token.expose(),
        "1234567812345678"
    );
    assert_eq!(config.outboxes[0].source.as_deref(), Some("true"));
}

#[test]
fn a_variable_that_names_nothing_is_refused() {
    says(
        &refused_with("POSTRIDER__ADMIN__PORT", "1"),
        &[
            "POSTRIDER__ADMIN__PORT in the environment",
            "unknown field `port`",
            "`listen`",
        ],
    );
    says(
        &refused_with("POSTRIDER__COLOUR", "1"),
        &["POSTRIDER__COLOUR", "unknown field `colour`"],
    );
    says(
        &refused_with("POSTRIDER__OUTBOX__PAYMENTS__BATCH", "1"),
        &[
            "POSTRIDER__OUTBOX__PAYMENTS__BATCH",
            "`payments`",
            "the outbox orders",
        ],
    );
    says(
        &refused_with("POSTRIDER__OUTBOX__ORDERS__BATCHES", "1"),
        &["unknown field `batches`"],
    );
    says(
        &refused_with("POSTRIDER__OUTBOX__ORDERS", "1"),
        &["POSTRIDER__OUTBOX__<name>__<key>"],
    );
    says(
        &refused_with("POSTRIDER__BROKER__OTHER__KIND", "x"),
        &["`other`", "the broker main"],
    );
    says(
        &refused_with("POSTRIDER__BROKER__MAIN__COLOUR", "x"),
        &["POSTRIDER__BROKER__MAIN__COLOUR", "broker.main", "`colour`"],
    );
    says(
        &refused_with("POSTRIDER__", "1"),
        &["POSTRIDER__ in the environment"],
    );
    says(
        &refused_with("POSTRIDER__OUTBOX__ORDERS__ROUTE__0__TOPIC", "x"),
        &["ROUTE__0"],
    );
}

#[test]
fn a_bad_value_names_its_variable() {
    says(
        &refused_with("POSTRIDER__OUTBOX__ORDERS__BATCH", "many"),
        &[
            "POSTRIDER__OUTBOX__ORDERS__BATCH in the environment",
            "orders.batch",
            "\"many\"",
        ],
    );
    says(
        &refused_with("POSTRIDER__OUTBOX__ORDERS__BATCH", "0"),
        &[
            "POSTRIDER__OUTBOX__ORDERS__BATCH in the environment",
            "1 to 10000",
        ],
    );
    says(
        &refused_with("POSTRIDER__ADMIN__LISTEN", "0.0.0.0:1"),
        &["POSTRIDER__ADMIN__LISTEN", "admin.token"],
    );
    says(
        &refused_with("POSTRIDER__OUTBOX__ORDERS__ON_DEAD", "bury"),
        &["ON_DEAD", "`park`"],
    );
}
