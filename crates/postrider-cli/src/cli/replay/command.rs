//! The command that goes on where a replay ended.

use postrider::replay::Resume;

use super::Args;
use crate::output::quoted;

/// The same filters, as times and not as ages, from where it ended. For a POSIX shell.
pub(super) fn continuing(args: &Args, resume: Option<&Resume>) -> String {
    let mut words: Vec<String> = vec!["postrider".into(), "replay".into()];
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("{name}={}", quoted(&value))));
    };
    option("--config", Some(args.config.config.display().to_string()));
    option("--outbox", args.outbox.clone());
    if args.all {
        // The end that an open one has found for itself is kept: what came later was not asked for.
        option("--since", Some("1970-01-01T00:00:00Z".into()));
    }
    option("--since", args.since.map(|time| time.to_string()));
    option("--until", args.until.map(|time| time.to_string()));
    option("--type", args.event_type.clone());
    option("--key", args.key.clone());
    for id in &args.id {
        option("--id", Some(id.clone()));
    }
    option("--to-topic", args.to_topic.clone());
    option("--rate", args.rate.map(|rate| format!("{rate}/s")));
    option("--from", resume.map(ToString::to_string));
    for (flag, is_set) in [
        ("--skip-refused", args.skip_refused),
        ("--yes", args.yes),
        ("--json", args.json),
    ] {
        words.extend(is_set.then(|| flag.to_owned()));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::super::{Cli, Verb};
    use super::*;

    fn parsed(words: &[&str]) -> Args {
        let cli = Cli::try_parse_from(["postrider", "replay"].iter().chain(words));
        match cli.map(|cli| cli.verb) {
            Ok(Verb::Replay(args)) => args,
            Ok(_) => panic!("another verb"),
            Err(error) => panic!("{error}"),
        }
    }

    /// What a shell makes of a command.
    fn words(command: &str) -> Vec<String> {
        let script = format!("printf '%s\\n' {command}");
        let ran = std::process::Command::new("sh")
            .args(["-c", &script])
            .output();
        let text = String::from_utf8(ran.unwrap().stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_that_continues_says_the_same_again() {
        let args = parsed(&[
            "--since=2026-11-15T08:00:00Z",
            "--until=2026-11-15T09:00:00.5+01:00",
            "--type=it's $HOME `here`",
            "--key=-7 \"x\"",
            "--id=a b",
            "--id=c",
            "--to-topic=again",
            "--rate=50/s",
            "--skip-refused",
            "--yes",
        ]);
        let resume: Resume = "500:cursor'; rm -rf /".parse().unwrap();
        let words = words(&continuing(&args, Some(&resume)));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let again = parsed(&words[2..]);
        assert_eq!(again.filter(), args.filter());
        assert_eq!(again.from, Some(resume));
        assert_eq!((again.to_topic, again.rate), (args.to_topic, args.rate));
        assert!(again.skip_refused && again.yes && !again.json);
    }

    #[test]
    fn an_age_becomes_a_time() {
        let command = continuing(&parsed(&["--since=2h"]), None);
        assert!(
            !command.contains("2h") && command.contains("--since=2"),
            "{command}"
        );
    }

    #[test]
    fn an_open_replay_keeps_its_end() {
        let mut args = parsed(&["--all"]);
        args.until = Some(postrider::core::Timestamp::from_micros(0));
        let command = continuing(&args, None);
        assert!(command.contains("--until=1970-01-01T00:00:00Z") && !command.contains("--all"));
    }
}
