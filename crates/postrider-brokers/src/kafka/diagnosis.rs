//! What is, or may become, wrong with the topics that messages go to. Asks the cluster, changes nothing and creates nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_core::{Finding, Level, PublishError, Topic, text};
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::metadata::{Metadata, MetadataPartition};

use super::config::KafkaConfig;
use super::error::unavailable;

/// How long the cluster may take for each of two questions.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Topics that are looked at.
const TOPICS_MAX: usize = 100;

type Admin = AdminClient<DefaultClientContext>;

/// Looks at these topics, at 100 of them at most: whether they are there, can be written to, and keep what was acknowledged. The worst first.
pub async fn diagnose(
    config: &KafkaConfig,
    topics: &[Topic],
) -> Result<Vec<Finding>, PublishError> {
    let names: Vec<String> = topics
        .iter()
        .take(TOPICS_MAX)
        .map(ToString::to_string)
        .collect();
    let client_config = config.client_config(config.batch_bytes);
    // All topics are asked for: asking for one by its name may create it.
    let ask = move || {
        let admin: Admin = client_config.create()?;
        let cluster = admin.inner().fetch_metadata(None, TIMEOUT)?;
        Ok::<_, rdkafka::error::KafkaError>((admin, cluster))
    };
    let (admin, cluster) = match tokio::task::spawn_blocking(ask).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(unavailable(&text::chain(&error))),
        Err(_) => return Err(unavailable("the asking thread ended; ask again")),
    };
    let found = partitions(&cluster, &names);
    let settings = settings(&admin, found.keys().copied()).await;
    // Closing blocks, and nobody waits for it.
    drop(tokio::task::spawn_blocking(move || drop(admin)));
    let mut findings: Vec<Finding> = names
        .iter()
        .flat_map(|name| match found.get(name.as_str()) {
            None => vec![missing(name)],
            Some(partitions) => {
                let topic = State {
                    name,
                    partitions,
                    settings: settings.get(name).copied().unwrap_or_default(),
                };
                topic.findings(cluster.brokers().len(), config.message_bytes_max)
            }
        })
        .collect();
    if topics.len() > TOPICS_MAX {
        let message = format!("the first {TOPICS_MAX} of {} were looked at", topics.len());
        findings.push(Finding::new(Level::Note, "topics", message));
    }
    findings.sort_by_key(|finding| finding.level);
    Ok(findings)
}

fn partitions<'a>(cluster: &'a Metadata, names: &'a [String]) -> BTreeMap<&'a str, Vec<Partition>> {
    let wanted = cluster
        .topics()
        .iter()
        .filter(|topic| names.iter().any(|name| name == topic.name()));
    wanted
        .filter(|topic| !topic.partitions().is_empty())
        .map(|topic| {
            let partitions = topic.partitions().iter().map(Partition::of).collect();
            (topic.name(), partitions)
        })
        .collect()
}

/// What the cluster tells of each topic's settings; not every client may know.
async fn settings<'a>(
    admin: &Admin,
    names: impl Iterator<Item = &'a str>,
) -> BTreeMap<String, Settings> {
    let resources: Vec<ResourceSpecifier<'_>> = names.map(ResourceSpecifier::Topic).collect();
    let options = AdminOptions::new().request_timeout(Some(TIMEOUT));
    let described = admin.describe_configs(&resources, &options).await;
    let described = described.unwrap_or_else(|error| {
        tracing::debug!(%error, "kafka: the topics' settings cannot be read");
        Vec::new()
    });
    described.into_iter().flatten().filter_map(named).collect()
}

fn named(resource: ConfigResource) -> Option<(String, Settings)> {
    use rdkafka::admin::OwnedResourceSpecifier::Topic;
    let number = |name: &str| resource.get(name)?.value.as_ref()?.parse().ok();
    let settings = Settings {
        in_sync_min: number("min.insync.replicas"),
        message_bytes_max: number("max.message.bytes"),
    };
    match &resource.specifier {
        Topic(name) => Some((name.clone(), settings)),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy)]
struct Partition {
    replicas: usize,
    in_sync: usize,
    led: bool,
}

impl Partition {
    fn of(partition: &MetadataPartition) -> Self {
        Self {
            replicas: partition.replicas().len(),
            in_sync: partition.isr().len(),
            led: partition.leader() >= 0,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Settings {
    in_sync_min: Option<u64>,
    message_bytes_max: Option<u64>,
}

/// A topic as the cluster has it.
struct State<'a> {
    name: &'a str,
    partitions: &'a [Partition],
    settings: Settings,
}

fn missing(name: &str) -> Finding {
    let message = "does not exist, or this client may not see it: its records fail, unless the cluster makes topics by itself, with \
                   the settings that it has for all";
    let remedy = format!(
        "kafka-topics.sh --create --topic {name} --partitions 12 --replication-factor 3 --config min.insync.replicas=2, with numbers of \
         your own; or let the client describe it"
    );
    Finding::new(Level::Warning, format!("topic {name}"), message).remedy(remedy)
}

impl State<'_> {
    fn findings(&self, brokers: usize, message_bytes_max: u32) -> Vec<Finding> {
        [
            self.unled(),
            self.refused(),
            self.more_than_there_are(),
            self.alone(brokers),
            self.leader_acknowledges_alone(),
            self.too_small(message_bytes_max),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn finding(&self, level: Level, message: String, remedy: String) -> Option<Finding> {
        let finding = Finding::new(level, format!("topic {}", self.name), message);
        Some(finding.remedy(remedy))
    }

    fn set(&self, setting: &str) -> String {
        format!(
            "kafka-configs.sh --alter --entity-type topics --entity-name {} --add-config {setting}",
            self.name
        )
    }

    /// How many partitions are so, in words.
    fn count(&self, so: impl Fn(&Partition) -> bool) -> Option<String> {
        let count = self
            .partitions
            .iter()
            .filter(|partition| so(partition))
            .count();
        (count > 0).then(|| format!("{count} of {} partitions", self.partitions.len()))
    }

    fn replicas(&self) -> usize {
        let replicas = self.partitions.iter().map(|partition| partition.replicas);
        replicas.min().unwrap_or_default()
    }

    fn unled(&self) -> Option<Finding> {
        let count = self.count(|partition| !partition.led)?;
        let message = format!("{count} have no leader: what goes there waits");
        let remedy = "bring a broker back that holds a replica of them";
        self.finding(Level::Error, message, remedy.into())
    }

    fn refused(&self) -> Option<Finding> {
        let min = self.settings.in_sync_min?;
        let refuses = |partition: &Partition| {
            let enough = min.min(partition.replicas as u64);
            partition.led && (partition.in_sync as u64) < enough
        };
        let count = self.count(refuses)?;
        let message = format!(
            "{count} have fewer replicas in sync than min.insync.replicas ({min}): the cluster refuses what goes there"
        );
        let remedy = "bring the brokers back that hold its other replicas";
        self.finding(Level::Error, message, remedy.into())
    }

    fn more_than_there_are(&self) -> Option<Finding> {
        let (min, replicas) = (self.settings.in_sync_min?, self.replicas());
        if min <= replicas as u64 {
            return None;
        }
        let message = format!(
            "min.insync.replicas is {min}, and it has {replicas} replicas: Kafka 4.1 is content with as many as there are, older clusters \
             may refuse every message"
        );
        let remedy = format!(
            "give it more replicas, or {}",
            self.set(&format!("min.insync.replicas={replicas}"))
        );
        self.finding(Level::Warning, message, remedy)
    }

    /// A cluster of one broker cannot do better.
    fn alone(&self, brokers: usize) -> Option<Finding> {
        if self.replicas() != 1 {
            return None;
        }
        let level = if brokers > 1 {
            Level::Warning
        } else {
            Level::Note
        };
        let message = "has one replica: an acknowledged message is lost with the disk of its broker, and while that is down the \
                       topic is too";
        let remedy = "three replicas and min.insync.replicas=2 are usual (kafka-reassign-partitions.sh adds replicas)";
        self.finding(level, message.into(), remedy.into())
    }

    fn leader_acknowledges_alone(&self) -> Option<Finding> {
        if self.settings.in_sync_min? != 1 || self.replicas() < 2 {
            return None;
        }
        let message = "min.insync.replicas is 1: while the other replicas lag, the leader acknowledges alone, and what it acknowledged is \
                       lost with it";
        self.finding(
            Level::Warning,
            message.into(),
            self.set("min.insync.replicas=2"),
        )
    }

    fn too_small(&self, message_bytes_max: u32) -> Option<Finding> {
        let topic = self.settings.message_bytes_max?;
        if topic >= u64::from(message_bytes_max) {
            return None;
        }
        let message = format!(
            "its max.message.bytes is {topic}, and the broker's message_bytes_max in the config {message_bytes_max}: messages in between \
             are dead at once, unless they compress well"
        );
        let remedy = format!(
            "{}, or lower message_bytes_max",
            self.set(&format!("max.message.bytes={message_bytes_max}"))
        );
        self.finding(Level::Warning, message, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: Partition = Partition {
        replicas: 3,
        in_sync: 3,
        led: true,
    };

    /// Levels and the beginnings of messages, for a topic of two partitions, the first of which is well.
    fn said(
        second: Partition,
        in_sync_min: u64,
        bytes: u64,
        brokers: usize,
    ) -> Vec<(Level, String)> {
        let topic = State {
            name: "orders",
            partitions: &[WELL, second],
            settings: Settings {
                in_sync_min: Some(in_sync_min),
                message_bytes_max: Some(bytes),
            },
        };
        let findings = topic.findings(brokers, 1_000);
        let cut = |finding: Finding| (finding.level, finding.message.chars().take(34).collect());
        findings.into_iter().map(cut).collect()
    }

    #[test]
    fn each_trouble_of_a_topic_is_said_once() {
        let expected = |level, text: &str| vec![(level, text.to_owned())];
        assert_eq!(said(WELL, 2, 1_000, 3), []);
        let unled = Partition {
            led: false,
            in_sync: 0,
            ..WELL
        };
        assert_eq!(
            said(unled, 2, 1_000, 3),
            expected(Level::Error, "1 of 2 partitions have no leader: ")
        );
        let lagging = Partition { in_sync: 1, ..WELL };
        assert_eq!(
            said(lagging, 2, 1_000, 3),
            expected(Level::Error, "1 of 2 partitions have fewer repli")
        );
        assert_eq!(
            said(WELL, 4, 1_000, 3),
            expected(Level::Warning, "min.insync.replicas is 4, and it h")
        );
        assert_eq!(
            said(lagging, 1, 1_000, 3),
            expected(Level::Warning, "min.insync.replicas is 1: while th")
        );
        let alone = Partition {
            replicas: 1,
            in_sync: 1,
            led: true,
        };
        assert_eq!(
            said(alone, 1, 1_000, 3),
            expected(Level::Warning, "has one replica: an acknowledged m")
        );
        assert_eq!(
            said(alone, 1, 1_000, 1),
            expected(Level::Note, "has one replica: an acknowledged m")
        );
        assert_eq!(
            said(WELL, 2, 999, 3),
            expected(Level::Warning, "its max.message.bytes is 999, and ")
        );
    }
}
