//! `postrider status`: what waits and what is dead, read from the tables.

use std::process::ExitCode;
use std::time::Duration;

use postrider::core::{Backlog, StoreError, text};
use serde_json::{Value, json};

use super::{ConfigArgs, chosen};
use crate::config::{ConfigError, Outbox};
use crate::{output, wiring};

/// Parked keys that are counted.
const PARKED_MAX: u32 = 1000;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Only this outbox
    #[arg(long, value_name = "NAME")]
    outbox: Option<String>,
    /// Exit with 1 when the oldest waiting event is older, for example 60s
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    max_age: Option<Duration>,
    /// Exit with 1 when more records are dead
    #[arg(long, value_name = "N")]
    max_dead: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = args.config.load()?;
    let mut lines = Vec::new();
    for outbox in chosen(&config, args.outbox.as_deref())? {
        lines.push(Line::read(outbox, &args).await?);
    }
    let ok = lines.iter().all(|line| line.problems.is_empty());
    if args.json {
        let outboxes: Vec<Value> = lines.iter().map(Line::json).collect();
        output::json(&json!({ "ok": ok, "outboxes": outboxes }))?;
    } else {
        let rows: Vec<[String; 5]> = lines.iter().map(Line::row).collect();
        output::table(["OUTBOX", "PENDING", "OLDEST", "DEAD", "PARKED"], &rows)?;
    }
    for line in &lines {
        for problem in &line.problems {
            output::note(&format!("{}: {problem}", line.outbox));
        }
    }
    if !args.json {
        let config = args.config.option();
        lines.iter().for_each(|line| line.hint(&config));
    }
    Ok(output::verdict(ok))
}

struct Line<'a> {
    outbox: &'a str,
    counts: Option<Counts>,
    problems: Vec<String>,
}

#[derive(Clone, Copy)]
struct Counts {
    backlog: Backlog,
    /// Keys that a dead or waiting record holds up, [`PARKED_MAX`] at most.
    parked: usize,
}

impl Counts {
    async fn read(outbox: &Outbox) -> Result<Result<Self, StoreError>, ConfigError> {
        let store = wiring::store(outbox)?;
        Ok(async {
            Ok(Self {
                backlog: store.backlog().await?,
                parked: store.parked(PARKED_MAX).await?.len(),
            })
        }
        .await)
    }
}

impl<'a> Line<'a> {
    async fn read(outbox: &'a Outbox, args: &Args) -> Result<Self, ConfigError> {
        let (counts, problems) = match Counts::read(outbox).await? {
            Ok(counts) => {
                let problems = judge(&counts.backlog, args.max_age, args.max_dead);
                (Some(counts), problems)
            }
            Err(error) => (None, vec![text::chain(&error)]),
        };
        Ok(Self {
            outbox: &outbox.name,
            counts,
            problems,
        })
    }

    fn row(&self) -> [String; 5] {
        let name = self.outbox.to_owned();
        let Some(Counts { backlog, parked }) = self.counts else {
            return [name, "?".into(), "?".into(), "?".into(), "?".into()];
        };
        let oldest = backlog.oldest_age.map_or_else(|| "-".into(), whole_seconds);
        let more = if parked == PARKED_MAX as usize {
            "+"
        } else {
            ""
        };
        [
            name,
            backlog.pending.to_string(),
            oldest,
            backlog.dead.to_string(),
            format!("{parked}{more}"),
        ]
    }

    /// What to look at next.
    fn hint(&self, config: &str) {
        let outbox = self.outbox;
        match self.counts {
            None => output::note(&format!("{outbox}: `postrider check{config}` says more")),
            Some(Counts { backlog, .. }) if backlog.dead > 0 => output::note(&format!(
                "{outbox}: `postrider dead list{config} --outbox {outbox}` shows what is dead"
            )),
            Some(Counts { parked, .. }) if parked > 0 => output::note(&format!(
                "{outbox}: `postrider check --deep{config}` shows what holds keys up"
            )),
            Some(_) => {}
        }
    }

    fn json(&self) -> Value {
        let backlog = self.counts.map(|counts| counts.backlog);
        json!({
            "outbox": self.outbox,
            "pending": backlog.map(|backlog| backlog.pending),
            "oldest_age_seconds": backlog.and_then(|backlog| backlog.oldest_age).map(|age| age.as_secs_f64()),
            "dead": backlog.map(|backlog| backlog.dead),
            "parked": self.counts.map(|counts| counts.parked),
            "problems": self.problems,
        })
    }
}

fn judge(backlog: &Backlog, max_age: Option<Duration>, max_dead: Option<u64>) -> Vec<String> {
    let mut problems = Vec::new();
    if let (Some(age), Some(max)) = (backlog.oldest_age, max_age)
        && age > max
    {
        let max = humantime::format_duration(max);
        let age = whole_seconds(age);
        problems.push(format!(
            "the oldest waiting event is {age} old, more than {max}; is a relay running?"
        ));
    }
    if let Some(max) = max_dead
        && backlog.dead > max
    {
        let dead = backlog.dead;
        problems.push(format!(
            "{dead} records are dead, more than {max}; see `postrider dead list`"
        ));
    }
    problems
}

fn whole_seconds(age: Duration) -> String {
    humantime::format_duration(Duration::from_secs(age.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_crossed_only_from_above() {
        let backlog = Backlog {
            pending: 1,
            oldest_age: Some(Duration::from_secs(60)),
            dead: 2,
        };
        assert!(judge(&backlog, Some(Duration::from_secs(60)), Some(2)).is_empty());
        assert_eq!(
            judge(&backlog, Some(Duration::from_secs(59)), Some(1)).len(),
            2
        );
        assert!(judge(&backlog, None, None).is_empty());
        assert!(judge(&Backlog::default(), Some(Duration::ZERO), Some(0)).is_empty());
    }
}
