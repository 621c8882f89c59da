//! `postrider check`: the effective config, and what is or may become wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use postrider::core::{
    Level, Limits, Publisher, RecordFilter, RecordState, StoreError, Topic, text,
};
use serde::Serialize;
use serde_json::json;

use super::ConfigArgs;
use crate::config::{BrokerOptions, Config, Outbox};
use crate::output;
use crate::topics;
use crate::wiring;

/// How long a database or a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Records that wait whose topics are looked at.
const WAITING_MAX: u32 = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Also look for what holds each backlog up right now: relays, parked keys, long transactions, the table's upkeep; and at
    /// the Kafka topics that messages go to
    #[arg(long)]
    deep: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One thing to look at, with what to do about it.
#[derive(Serialize, PartialEq)]
struct Finding {
    #[serde(serialize_with = "level_name")]
    level: Level,
    /// The outbox or broker, by its key in the config.
    place: String,
    subject: String,
    message: String,
    remedy: Option<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = args.config.load()?;
    let publishers = wiring::publishers(&config)?;
    let mut findings = in_config(&config);
    let mut topics: BTreeMap<&str, BTreeSet<Topic>> = BTreeMap::new();
    for outbox in &config.outboxes {
        let store = wiring::store(outbox)?;
        let mut found = in_database(outbox, store.check()).await;
        let broken = found.iter().any(|finding| finding.level == Level::Error);
        if args.deep && !broken {
            let limits = limits(&config, outbox);
            let diagnosed = async {
                let mut found = store.diagnose(&limits).await?;
                found.extend(store.findings());
                Ok(found)
            };
            let held_up = in_database(outbox, diagnosed).await;
            found.extend(held_up);
            let named = topics.entry(&outbox.broker).or_default();
            named.extend(topics_of(outbox, &store).await);
        }
        // A missing index is both.
        found.sort_by_key(|finding| finding.level);
        found.dedup();
        findings.extend(found);
    }
    findings.extend(in_brokers(&publishers, &config, &topics).await);
    let ok = findings.iter().all(|finding| finding.level != Level::Error);
    if args.json {
        output::json(&json!({ "ok": ok, "config": config, "findings": findings }))?;
    } else {
        output::text(&config.to_toml()?)?;
        output::text(&report(&findings))?;
    }
    Ok(output::verdict(ok))
}

/// What can be seen without asking anybody.
fn in_config(config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut warn = |place: String, subject: &str, message: &str, remedy: &str| {
        findings.push(Finding {
            level: Level::Warning,
            place,
            subject: subject.into(),
            message: message.into(),
            remedy: Some(remedy.into()),
        });
    };
    for (name, broker) in &config.brokers {
        let place = || format!("broker.{name}");
        if !config.outboxes.iter().any(|outbox| outbox.broker == *name) {
            warn(
                place(),
                "broker",
                "no outbox uses it",
                "remove it, or name it in an outbox",
            );
        }
        if matches!(broker.options, BrokerOptions::Memory(_)) {
            let message = "messages are kept in this process and lost with it";
            warn(place(), "kind", message, "use it for trials only");
        }
    }
    for outbox in config.outboxes.iter().filter(|outbox| outbox.count_outages) {
        let message = "an outage of the broker uses up attempts, and a long one makes records dead";
        let remedy = "leave it false unless you want exactly that";
        warn(
            format!("outbox.{}", outbox.name),
            "count_outages",
            message,
            remedy,
        );
    }
    findings
}

/// No relay is known here: it is looked for.
fn limits(config: &Config, outbox: &Outbox) -> Limits {
    Limits {
        payload_bytes_max: config
            .brokers
            .get(&outbox.broker)
            .map(wiring::payload_bytes_max),
        relay_runs: false,
    }
}

async fn in_database(
    outbox: &Outbox,
    found: impl Future<Output = Result<Vec<postrider::core::Finding>, StoreError>>,
) -> Vec<Finding> {
    let place = format!("outbox.{}", outbox.name);
    match tokio::time::timeout(PATIENCE, found).await {
        Ok(Ok(found)) => found
            .into_iter()
            .map(|finding| Finding::of(&place, finding))
            .collect(),
        Ok(Err(error)) => vec![Finding::error(place, "database", text::chain(&error))],
        Err(_) => vec![Finding::error(
            place,
            "database",
            "does not answer within 10 s".into(),
        )],
    }
}

/// Where messages go: the topics that the config names, and those of the oldest records that wait.
async fn topics_of(outbox: &Outbox, store: &wiring::Store) -> Vec<Topic> {
    let router = wiring::router(outbox);
    let (mut topics, _) = router.known();
    let waiting = RecordFilter::in_state(RecordState::Pending);
    let found = tokio::time::timeout(PATIENCE, store.find(&waiting, None, WAITING_MAX)).await;
    // A database that does not answer has been named.
    if let Ok(Ok(mut page)) = found {
        topics::fill(&router, &mut page.items);
        topics.extend(
            page.items
                .into_iter()
                .filter_map(|record| record.topic.map(Topic::from)),
        );
    }
    topics
}

async fn in_brokers(
    publishers: &wiring::Publishers,
    config: &Config,
    topics: &BTreeMap<&str, BTreeSet<Topic>>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, publisher) in publishers {
        let place = format!("broker.{name}");
        if let Err(message) = reach(publisher).await {
            findings.push(Finding::error(place, "broker", message));
            continue;
        }
        let (Some(broker), Some(topics)) = (config.brokers.get(name), topics.get(name.as_str()))
        else {
            continue;
        };
        let topics: Vec<Topic> = topics.iter().cloned().collect();
        match wiring::diagnose_topics(broker, &topics).await {
            Ok(found) => {
                findings.extend(found.into_iter().map(|found| Finding::of(&place, found)));
            }
            Err(error) => findings.push(Finding::error(place, "topics", text::chain(&error))),
        }
    }
    findings
}

async fn reach(publisher: &Arc<dyn Publisher>) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, publisher.ping()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(text::chain(&error)),
        Err(_) => Err("does not answer within 10 s".into()),
    }
}

impl Finding {
    fn of(place: &str, finding: postrider::core::Finding) -> Self {
        let postrider::core::Finding {
            level,
            subject,
            message,
            remedy,
            ..
        } = finding;
        Self {
            level,
            place: place.into(),
            subject,
            message,
            remedy,
        }
    }

    fn error(place: String, subject: &str, message: String) -> Self {
        Self {
            level: Level::Error,
            place,
            subject: subject.into(),
            message,
            remedy: None,
        }
    }
}

fn level_name<S: serde::Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(word(*level))
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    }
}

/// As comments, so that the whole output is TOML.
fn report(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "\n# nothing to report\n".into();
    }
    let mut text = String::from("\n");
    for Finding {
        level,
        place,
        subject,
        message,
        remedy,
    } in findings
    {
        let remedy = remedy
            .as_ref()
            .map(|remedy| format!("\n{remedy}"))
            .unwrap_or_default();
        let finding = format!("{}: {place}: {subject}: {message}{remedy}", word(*level));
        text.push_str(&format!("# {}\n", finding.replace('\n', "\n#     ")));
    }
    text
}
