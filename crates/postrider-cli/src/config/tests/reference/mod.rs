//! `docs/configuration.md` is written from the code: what a key means is the doc comment of its field, what it may be is
//! what the parser answers to a wrong value, its default is what a config without it has. `make docs` writes it.

mod source;

use std::path::Path;

use toml::{Table, Value};

use super::read;
use source::{Field, fields};

const BEGIN: &str = "<!-- written by `make docs`: begin -->\n";
const END: &str = "<!-- end -->\n";

const RAW: &str = "crates/postrider-cli/src/config/raw.rs";
const KAFKA: &str = "crates/postrider-brokers/src/kafka/config.rs";
const PUBSUB: &str = "crates/postrider-brokers/src/pubsub/config.rs";
const MEMORY: &str = "crates/postrider-brokers/src/memory/config.rs";
const LAYOUT: &str = "crates/postrider-core/src/layout/mod.rs";

/// One table of the config: its heading, the struct that it is read into, where that is, the path to the table, and the
/// fewest lines of config in which it can stand.
struct Section {
    heading: &'static str,
    source: (&'static str, &'static str),
    path: &'static [&'static str],
    good: &'static str,
}

const OUTBOX: &str = "
    [broker.main]
    kind = 'memory'
    [[outbox]]
    name = 'orders'
    database = 'postgres://shop@db/shop'
    layout = 'debezium'
    broker = 'main'
";
/// A layout that keeps what it published, and does not say for how long.
const KEEPING: &str = "
    [broker.main]
    kind = 'memory'
    [[outbox]]
    name = 'orders'
    database = 'postgres://shop@db/shop'
    layout = 'talkie'
    broker = 'main'
    cleanup = { keep = '30d' }
    route = [{ event_type = 'placed' }]
";
const KAFKA_BROKER: &str = "
    [broker.events]
    kind = 'kafka'
    bootstrap = '127.0.0.1:9092'
";
const PUBSUB_BROKER: &str = "
    [broker.events]
    kind = 'pubsub'
    project = 'shop'
";
const MEMORY_BROKER: &str = "
    [broker.events]
    kind = 'memory'
";

const TOKEN: &str = "
    [admin.tokens.ops]
    role = 'view'
    token = 'a-token-of-some-length'
";

const SECTIONS: [Section; 12] = [
    section("`[admin]`", (RAW, "Admin"), &["admin"], ""),
    section(
        "`[admin.tokens.<name>]`",
        (RAW, "Token"),
        &["admin", "tokens", "ops"],
        TOKEN,
    ),
    section("`[log]`", (RAW, "Log"), &["log"], ""),
    section("`[telemetry]`", (RAW, "Telemetry"), &["telemetry"], ""),
    section(
        "`[broker.<name>]` with `kind = \"kafka\"`",
        (KAFKA, "KafkaConfig"),
        &["broker", "events"],
        KAFKA_BROKER,
    ),
    section(
        "`[broker.<name>]` with `kind = \"pubsub\"`",
        (PUBSUB, "PubSubConfig"),
        &["broker", "events"],
        PUBSUB_BROKER,
    ),
    section(
        "`[broker.<name>]` with `kind = \"memory\"`",
        (MEMORY, "MemoryConfig"),
        &["broker", "events"],
        MEMORY_BROKER,
    ),
    section("`[[outbox]]`", (RAW, "Outbox"), &["outbox"], ""),
    section("`[outbox.retry]`", (RAW, "Retry"), &["outbox", "retry"], ""),
    section(
        "`[outbox.cleanup]`",
        (RAW, "Cleanup"),
        &["outbox", "cleanup"],
        KEEPING,
    ),
    section(
        "`[[outbox.route]]`",
        (RAW, "Route"),
        &["outbox", "route"],
        KEEPING,
    ),
    section(
        "`[outbox.columns]`",
        (LAYOUT, "Columns"),
        &["outbox", "columns"],
        "",
    ),
];

const fn section(
    heading: &'static str,
    source: (&'static str, &'static str),
    path: &'static [&'static str],
    good: &'static str,
) -> Section {
    Section {
        heading,
        source,
        path,
        good,
    }
}

impl Section {
    /// A config that is right and has this table.
    fn config(&self) -> Table {
        let whole = match self.good {
            KEEPING => KEEPING.to_owned(),
            broker => format!("{broker}{OUTBOX}"),
        };
        whole.parse().unwrap()
    }

    /// What is refused, and why, with `value` for this key; or without the key.
    fn refusal(&self, key: &str, value: Option<Value>) -> Option<String> {
        let mut config = self.config();
        let table = inner(&mut config, self.path);
        match value {
            Some(value) => table.insert(key.into(), value),
            None => table.remove(key),
        };
        let error = read(&config.to_string()).err()?;
        Some(error.problem.to_string())
    }

    /// Whether the key replaces a part of the layout.
    fn is_of_layout(&self, key: &str) -> bool {
        match self.source {
            (RAW, "Outbox") => fields(LAYOUT, "Layout")
                .iter()
                .any(|field| field.name == key && key != "name"),
            source => source == (LAYOUT, "Columns"),
        }
    }

    fn allowed(&self, field: &Field) -> String {
        let known = [
            ("BTreeMap<String, Secret>", "a table, with secrets"),
            ("Reference", "a secret"),
            ("Schema", "a path, or a table"),
        ];
        if let Some((_, words)) = known.iter().find(|(kind, _)| field.kind.contains(kind)) {
            return (*words).into();
        }
        let Some(text) = self.refusal(&field.name, Some("?".into())) else {
            return "text".into();
        };
        let numbers = ["a whole number", "u32", "u64", "usize"];
        if numbers
            .iter()
            .any(|number| text.ends_with(&format!("expected {number}")))
        {
            let refusal = self.refusal(&field.name, Some((-1).into()));
            let bounds = refusal.filter(|text| text.contains(" is not allowed; "));
            return bounds.as_deref().map_or("a whole number".into(), said);
        }
        said(&text.replace(&format!("{} \"?\" ", field.name), ""))
    }

    fn default(&self, field: &Field) -> String {
        let key = &field.name;
        if self.is_of_layout(key) {
            return "the layout's".into();
        }
        if self
            .refusal(key, None)
            .is_some_and(|text| text.starts_with("is missing") || text.contains("missing field"))
        {
            return of_layout_or(field, "needed".into());
        }
        let mut config = self.config();
        inner(&mut config, self.path).remove(key);
        let effective = Table::try_from(read(&config.to_string()).unwrap()).unwrap();
        let mut value = Some(&Value::Table(effective)).cloned();
        for step in self.path.iter().copied().chain([key.as_str()]) {
            value = value.and_then(|value| match value {
                Value::Array(items) => items.first()?.get(step).cloned(),
                value => value.get(step).cloned(),
            });
        }
        match value {
            None | Some(Value::Table(_) | Value::Array(_)) => "–".into(),
            Some(value) => of_layout_or(field, format!("`{value}`")),
        }
    }
}

/// Some layouts bring a default of their own.
fn of_layout_or(field: &Field, default: String) -> String {
    match field.doc.contains("The layout's own default comes first") {
        true => format!("the layout's, else {default}"),
        false => default,
    }
}

/// The table at this path; of a list, the first.
fn inner<'a>(table: &'a mut Table, path: &[&str]) -> &'a mut Table {
    path.iter().fold(table, |table, step| {
        let value = table
            .entry(*step)
            .or_insert_with(|| Value::Table(Table::new()));
        match value {
            Value::Array(items) => items[0].as_table_mut().unwrap(),
            value => value.as_table_mut().unwrap(),
        }
    })
}

/// What the refusal says is allowed.
fn said(refusal: &str) -> String {
    if let Some((_, expected)) = refusal.split_once("unknown variant `?`, expected ") {
        return expected.trim_start_matches("one of ").replace(" or ", ", ");
    }
    let allowed = refusal
        .split_once("; ")
        .map_or(refusal, |(_, allowed)| allowed);
    let allowed = allowed
        .rsplit_once("expected ")
        .map_or(allowed, |(_, expected)| expected);
    let allowed = allowed
        .split_once(", for example")
        .map_or(allowed, |(allowed, _)| allowed);
    let allowed = [" is", " are"]
        .iter()
        .find_map(|verb| allowed.strip_suffix(verb))
        .unwrap_or(allowed);
    if allowed.starts_with("struct ") {
        return "a table".into();
    }
    let phrases = [
        ("a boolean", "`true`, `false`"),
        ("a sequence", "a list"),
        ("is no ", "a "),
        ("must begin", "text that begins"),
        ("the brokers are main", "a broker's name"),
        ("there are ", ""),
        (" is, or ", ", or "),
        (" are, with", ", with"),
    ];
    let plain = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    phrases.iter().fold(allowed.to_owned(), plain)
}

/// A field's comment without what stands in the column of defaults.
fn meaning(field: &Field) -> String {
    let sentences = field.doc.split_inclusive(". ");
    let told = |sentence: &&str| {
        sentence.starts_with("Default ") && !sentence.contains(';')
            || sentence.ends_with("default comes first.")
    };
    let kept: String = sentences.filter(|sentence| !told(sentence)).collect();
    kept.trim().to_owned()
}

fn reference() -> String {
    let mut page = String::from(BEGIN);
    for section in &SECTIONS {
        let (file, name) = section.source;
        page.push_str(&format!(
            "\n### {}\n| key | may be | default | |\n|---|---|---|---|\n",
            section.heading
        ));
        for field in fields(file, name) {
            let meaning = meaning(&field);
            assert!(
                !meaning.is_empty(),
                "{file}: {name}.{} has no doc comment",
                field.name
            );
            let (allowed, default) = (section.allowed(&field), section.default(&field));
            page.push_str(&format!(
                "| `{}` | {allowed} | {default} | {} |\n",
                field.name, meaning
            ));
        }
    }
    page.push('\n');
    page.push_str(END);
    page
}

#[test]
fn the_page_is_what_the_code_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for it");
    let (_, after) = rest.split_once(END).expect("the place has an end");
    let written = format!("{before}{}{after}", reference());
    if std::env::var_os("POSTRIDER_BLESS").is_some() {
        std::fs::write(&path, &written).unwrap();
    } else {
        assert!(
            written == page,
            "docs/configuration.md is not up to date: make docs"
        );
    }
}

/// The reader of sources sees every key that serde reads, and no other.
#[test]
fn every_key_that_is_read_is_in_a_section() {
    for section in &SECTIONS {
        let refusal = section.refusal("no-such-key", Some(true.into())).unwrap();
        let (_, expected) = refusal
            .split_once(", expected ")
            .unwrap_or_else(|| panic!("{}: {refusal}", section.heading));
        let mut read: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        let (file, name) = section.source;
        let listed = fields(file, name);
        let mut listed: Vec<&str> = listed.iter().map(|field| field.name.as_str()).collect();
        read.sort_unstable();
        listed.sort_unstable();
        assert_eq!(read, listed, "{}", section.heading);
    }
}
