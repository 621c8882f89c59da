//! Each mistake has a test: the answer names the key, the value and what is allowed.

use super::*;

#[test]
fn an_unknown_key_is_refused_at_every_level() {
    says(
        &refused("colour = 1"),
        &["postrider.toml:1:1:", "unknown field `colour`", "`outbox`"],
    );
    says(
        &refused("[admin]\nport = 1"),
        &["postrider.toml:2:1:", "admin.port", "`listen`"],
    );
    says(
        &refused("[log]\nlevels = \"info\""),
        &["unknown field `levels`", "`format`"],
    );
    says(
        &refused("[telemetry]\nendpoint = \"http://collector\""),
        &["unknown field `endpoint`", "`otlp`"],
    );
    says(
        &outbox_refused("batches = 1"),
        &["outbox.orders.batches", "`batch`"],
    );
    says(
        &outbox_refused("[outbox.retry]\nmax = 1"),
        &["unknown field `max`", "`base`"],
    );
    says(
        &outbox_refused("[outbox.cleanup]\nolder = 1"),
        &["unknown field `older`", "`keep`"],
    );
    says(
        &outbox_refused("[[outbox.route]]\ntype = \"x\""),
        &["unknown field `type`", "`event_type`"],
    );
    says(
        &outbox_refused("[outbox.columns]\ncolour = \"x\""),
        &["unknown field `colour`", "`payload`"],
    );
    says(
        &outbox_refused("[outbox.state]\ncolour = \"x\""),
        &["unknown field `colour`"],
    );
    says(
        &refused(&GOOD.replace("kind = \"memory\"", "kind = \"memory\"\ncolour = 1")),
        &["broker.main", "unknown field `colour`", "postrider.toml:"],
    );
}

#[test]
fn a_mistake_is_pointed_at() {
    let text = outbox_refused("batch = 0");
    assert_eq!(
        text,
        "postrider.toml:10:9: outbox.orders.batch: `0` is not allowed; 1 to 10000 is\n   |\n10 | batch = 0\n   |         ^"
    );
}

#[test]
fn syntax_is_pointed_at() {
    says(
        &refused("[admin\nlisten = 1"),
        &["postrider.toml:1:7", "1 | [admin"],
    );
    says(
        &refused("a = 1\na = 2"),
        &["postrider.toml:2:1", "duplicate key"],
    );
}

#[test]
fn a_wrong_type_is_refused() {
    says(
        &outbox_refused("batch = \"many\""),
        &["outbox.orders.batch", "\"many\"", "whole number"],
    );
    says(
        &outbox_refused("notify = 1"),
        &["outbox.orders.notify", "boolean"],
    );
    says(
        &outbox_refused("lease = 60"),
        &["outbox.orders.lease", "60", "string"],
    );
    says(&refused("broker = 1"), &["broker", "table"]);
    says(
        &refused("[broker.main]\nkind = 1"),
        &["broker.main.kind", "`1`", "kafka"],
    );
}

#[test]
fn numbers_have_bounds() {
    for (line, bounds) in [
        ("batch = -1", "1 to 10000"),
        ("batch = 10001", "1 to 10000"),
        ("batch_bytes = 65535", "65536 to 1073741824"),
        ("batch_bytes = 1073741825", "65536 to 1073741824"),
        ("claims = 0", "1 to 16"),
        ("claims = 17", "1 to 16"),
        ("max_attempts = 0", "1 to 10000"),
        ("connections = 3", "greater than claims (3)"),
        ("connections = 101", "1 to 100"),
        ("[outbox.cleanup]\nkeep = \"1d\"\nbatch = 0", "1 to 10000"),
    ] {
        says(&outbox_refused(line), &[bounds, "postrider.toml:"]);
    }
}

#[test]
fn durations_have_bounds() {
    for (line, bounds) in [
        ("poll_min = \"soon\"", "1ms to 1h"),
        ("poll_max = \"0s\"", "1ms to 1h"),
        ("publish_timeout = \"1ms\"", "100ms to 10m"),
        ("stop_timeout = \"1d\"", "100ms to 10m"),
        ("[outbox.retry]\nbase = \"0s\"", "10ms to 1day"),
        ("[outbox.cleanup]\nkeep = \"30\"", "for example"),
        (
            "[outbox.cleanup]\nkeep = \"1d\"\nevery = \"1ms\"",
            "1s to 1day",
        ),
    ] {
        says(&outbox_refused(line), &[bounds]);
    }
}

#[test]
fn durations_must_agree() {
    says(
        &outbox_refused("lease = \"30s\""),
        &[
            "outbox.orders.lease: `30s`",
            "5s longer than publish_timeout (30s)",
        ],
    );
    says(
        &outbox_refused("poll_min = \"3s\"\npoll_max = \"2s\""),
        &["outbox.orders.poll_min: `3s`", "poll_max (2s)"],
    );
    says(
        &outbox_refused("[outbox.retry]\nbase = \"10m\"\ncap = \"5m\""),
        &["outbox.orders.retry.base: `10m`", "cap (5m)"],
    );
}

#[test]
fn what_is_needed_is_asked_for() {
    says(&refused(""), &["outbox: is missing", "[[outbox]]"]);
    says(&refused("[[outbox]]"), &["outbox[0].name: is missing"]);
    for (line, key) in [
        (
            "database = \"postgres://shop@db/shop\"\n",
            "outbox.orders.database: is missing",
        ),
        (
            "layout = \"polyshop\"\n",
            "outbox.orders.layout: is missing; it is one of packfinderz",
        ),
        (
            "broker = \"main\"\n",
            "outbox.orders.broker: is missing; the brokers are main",
        ),
        ("kind = \"memory\"\n", "broker.main.kind: is missing; kafka"),
    ] {
        says(&refused(&GOOD.replace(line, "")), &[key, "postrider.toml:"]);
    }
    says(
        &outbox_refused("[outbox.cleanup]"),
        &["outbox.orders.cleanup.keep: is missing"],
    );
    says(
        &outbox_refused("[[outbox.route]]"),
        &["outbox.orders.route[0].event_type: is missing"],
    );
}

#[test]
fn names_are_known_and_unlike() {
    let second = GOOD.split("[[outbox]]").nth(1).unwrap();
    let twice = refused(&format!("{GOOD}[[outbox]]{second}"));
    says(
        &twice,
        &[
            "outbox.orders.name: `orders`",
            "same name",
            "postrider.toml:11:8",
        ],
    );
    says(
        &refused(&GOOD.replace("broker = \"main\"", "broker = \"other\"")),
        &[
            "outbox.orders.broker: `other`",
            "the brokers are main",
            "postrider.toml:9:10",
        ],
    );
    says(
        &refused(&GOOD.replace("polyshop", "rabbit")),
        &[
            "outbox.orders.layout",
            "`rabbit`",
            "packfinderz",
            "postrider.toml:8:10",
        ],
    );
    says(
        &refused(&GOOD.replace("\"memory\"", "\"carrier\"")),
        &["broker.main.kind: `carrier`"],
    );
    says(
        &refused(&GOOD.replace("\"orders\"", "\"a b\"")),
        &["`a b`", "letters"],
    );
    says(
        &refused(&GOOD.replace("\"orders\"", "\"a__b\"")),
        &["`a__b`"],
    );
    says(
        &refused(&GOOD.replace("[broker.main]", "[broker.\"\"]")),
        &["letters"],
    );
}

#[test]
fn a_word_is_one_of_a_few() {
    says(
        &outbox_refused("ordering = \"some\""),
        &["`some`", "`key`", "`none`"],
    );
    says(
        &outbox_refused("on_dead = \"bury\""),
        &["`bury`", "`park`", "`skip`"],
    );
    says(
        &outbox_refused("envelope = \"paper\""),
        &["`paper`", "`cloudevents`"],
    );
    says(
        &refused("[log]\nformat = \"xml\""),
        &["log.format", "`xml`", "`pretty`"],
    );
    says(
        &refused(&format!("{GOOD}[log]\nlevel = \"a=b=c\"")),
        &["log.level: `a=b=c`", "debug"],
    );
    says(
        &refused("[telemetry]\nprotocol = \"udp\""),
        &["telemetry.protocol", "`udp`", "`grpc`"],
    );
}

#[test]
fn a_collector_is_an_http_address_without_a_password() {
    for address in ["collector:4317", "grpc://collector:4317", "", "http://"] {
        says(
            &refused(&format!("{GOOD}[telemetry]\notlp = \"{address}\"")),
            &[
                &format!("telemetry.otlp: `{address}`"),
                "http://127.0.0.1:4317",
            ],
        );
    }
    let text = refused(&format!(
        "{GOOD}[telemetry]\notlp = \"https://me:hidden@collector:4317\""
    ));
    says(
        &text,
        &["`collector` is not allowed", "OTEL_EXPORTER_OTLP_HEADERS"],
    );
    assert!(!text.contains("hidden"), "{text}");
    says(
        &refused(&format!("{GOOD}[telemetry]\nservice = \" \"")),
        &["telemetry.service", "must not be empty"],
    );
}

#[test]
fn identifiers_and_templates_are_checked_by_the_layout() {
    says(
        &outbox_refused("table = \"\""),
        &["outbox.orders.table", "1 to 63 bytes"],
    );
    says(
        &outbox_refused("topic = \"{colour}\""),
        &["outbox.orders.topic", "`{colour}`", "event_type"],
    );
    says(
        &outbox_refused("attributes = { a = \"colour\" }"),
        &["`colour`", "`event_id`"],
    );
    says(
        &outbox_refused("[outbox.columns]\nid = \"\""),
        &["outbox.orders.columns", "1 to 63 bytes"],
    );
    says(
        &outbox_refused("[outbox.state]\nkind = \"mood\""),
        &["`mood`", "`timestamp`"],
    );
    let keyless = refused(&(GOOD.replace("polyshop", "gopipe") + "ordering = \"key\""));
    says(&keyless, &["outbox.orders", "`columns.key`"]);
}

#[test]
fn a_layout_that_deletes_has_no_cleanup() {
    let text = GOOD.replace("polyshop", "debezium") + "[outbox.cleanup]\nkeep = \"1d\"";
    says(
        &refused(&text),
        &["outbox.orders.cleanup", "nothing to clean up"],
    );
}

#[test]
fn routes_are_unlike_and_their_schemas_readable() {
    let route =
        |lines: &str| outbox_refused(&format!("[[outbox.route]]\nevent_type = \"a\"\n{lines}"));
    says(
        &route("[[outbox.route]]\nevent_type = \"a\""),
        &["route[1].event_type: `a`", "already"],
    );
    says(&route("topic = \"\""), &["route[0].topic", "empty"]);
    says(
        &route("schema = \"nowhere.json\""),
        &["route[0].schema", "nowhere.json", "No such file"],
    );
    says(
        &route("schema = \"not-json.txt\""),
        &["route[0].schema: `not-json.txt`", "line 1"],
    );
    says(
        &route("schema = { type = \"colour\" }"),
        &["route[0].schema", "schema (inline)", "colour"],
    );
    says(&route("schema = 1"), &["schema", "a path to a JSON Schema"]);
}

#[test]
fn others_reach_the_admin_address_only_with_a_token() {
    for address in ["0.0.0.0:9464", "10.0.0.1:1", "[::]:9464"] {
        let text = refused(&format!("{GOOD}[admin]\nlisten = \"{address}\""));
        says(
            &text,
            &[
                "admin.listen",
                address,
                "admin.token",
                "postrider.toml:11:10",
            ],
        );
        let token =
            format!("{GOOD}[admin]\nlisten = \"{address}\"\ntoken = \"s3cret-of-some-length\"");
        assert!(read(&token).is_ok(), "{address}");
    }
    for address in [
        "127.0.0.1:0",
        "[::1]:9464",
        "127.9.9.9:1",
        "[::ffff:127.0.0.1]:1",
    ] {
        assert!(
            read(&format!("{GOOD}[admin]\nlisten = \"{address}\"")).is_ok(),
            "{address}"
        );
    }
    says(
        &refused(&format!("{GOOD}[admin]\nlisten = \"localhost\"")),
        &["`localhost`", "127.0.0.1:9464"],
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(Path::new("nowhere.toml"), &Environment::default()).unwrap_err();
    says(
        &error.to_string(),
        &["cannot read nowhere.toml", "No such file"],
    );
}

#[test]
fn a_broker_has_the_keys_of_its_kind() {
    let broker = |lines: &str| refused(&GOOD.replace("kind = \"memory\"", lines));
    says(
        &broker("kind = \"kafka\""),
        &[
            "broker.main",
            "missing field `bootstrap`",
            "postrider.toml:",
        ],
    );
    says(
        &broker("kind = \"kafka\"\nbootstrap = \"\""),
        &["broker.main", "bootstrap is empty"],
    );
    says(
        &broker("kind = \"kafka\"\nbootstrap = \"k:1\"\nproperties = { acks = \"0\" }"),
        &["broker.main", "acks cannot be set"],
    );
    says(
        &broker("kind = \"kafka\"\nbootstrap = \"k:1\"\nlinger_ms = \"soon\""),
        &["broker.main.linger_ms", "\"soon\"", "postrider.toml:5:13"],
    );
    says(
        &broker("kind = \"pubsub\"\nbootstrap = \"k:1\""),
        &["broker.main", "unknown field `bootstrap`", "`project`"],
    );
    says(
        &broker("kind = \"pubsub\"\nproject = \"a b\""),
        &["broker.main", "a b"],
    );
}
