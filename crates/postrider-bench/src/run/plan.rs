//! What is measured in which order.

use super::Args;
use super::phase::limit::Limit;
use super::phase::{Hold, Phase, Step};
use super::subject::Subject;

pub(super) enum Who<'a> {
    Limit(Limit),
    Subject(&'a Subject),
}

pub(super) struct Task<'a> {
    pub(super) round: u32,
    pub(super) step: Step,
    pub(super) who: Who<'a>,
}

impl Task<'_> {
    pub(super) fn names(&self) -> (String, String) {
        let who = match &self.who {
            Who::Limit(limit) => limit.name().to_owned(),
            Who::Subject(subject) => subject.about.name.clone(),
        };
        (self.step.name(), who)
    }
}

fn steps(args: &Args) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut phases = args.phases.clone();
    phases.sort_unstable();
    phases.dedup();
    for phase in phases {
        let secs = args.secs;
        match phase {
            Phase::Drain => steps.extend(args.records.iter().map(|n| Step::Drain { records: *n })),
            Phase::Steady => {
                steps.extend(args.rate.iter().map(|n| Step::Steady { rate: *n, secs }))
            }
            Phase::Held | Phase::HeldWriter => steps.push(Step::Held {
                rate: 2000,
                hold: Hold {
                    clean_secs: args.held_clean_secs,
                    secs: args.held_secs,
                    writes: phase == Phase::HeldWriter,
                },
            }),
            Phase::Kill => steps.push(Step::Kill {
                rate: 1000,
                secs: args.kill_secs,
            }),
            Phase::Outage => steps.push(Step::Outage {
                rate: 500,
                secs: args.outage_secs,
            }),
            Phase::Idle => steps.push(Step::Idle {
                secs: args.idle_secs,
            }),
            Phase::Stuck => steps.extend(args.stuck.iter().map(|n| Step::Stuck {
                records: *n,
                secs: args.stuck_secs,
            })),
            Phase::Emit => {
                steps.extend(
                    [(1, 1), (100, 10)].map(|(per_statement, times)| Step::Emit {
                        per_statement,
                        rows: args.emit_rows * times,
                    }),
                )
            }
        }
    }
    steps
}

/// Round by round, step by step, one after the other.
pub(super) fn plan<'a>(args: &Args, subjects: &'a [Subject]) -> Vec<Task<'a>> {
    let mut tasks = Vec::new();
    for round in 1..=args.rounds {
        for step in steps(args) {
            if step.is_long() && round > args.long_rounds {
                continue;
            }
            if step.phase() == Phase::Drain {
                let limits = Limit::ALL.map(|limit| Task {
                    round,
                    step,
                    who: Who::Limit(limit),
                });
                tasks.extend(limits);
            }
            let able = subjects.iter().filter(|subject| takes_part(subject, step));
            tasks.extend(able.map(|subject| Task {
                round,
                step,
                who: Who::Subject(subject),
            }));
        }
    }
    tasks
}

fn takes_part(subject: &Subject, step: Step) -> bool {
    let about = &subject.about;
    let too_large = match step {
        Step::Drain { records } => about.records_max.is_some_and(|most| records > most),
        _ => false,
    };
    about.phases.contains(&step.phase()) && !too_large
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::run::subject::load_all;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn planned(line: &str, subjects: &[Subject]) -> Vec<String> {
        let line = format!("run {line}");
        let args = Line::parse_from(line.split_whitespace()).args;
        let tasks = plan(&args, subjects);
        let named = tasks.iter().map(|task| {
            let (step, who) = task.names();
            format!("{} {step} {who}", task.round)
        });
        named.collect()
    }

    fn ours(names: &[&str]) -> Vec<Subject> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let folder = crate::run::root().join("bench/subjects");
        load_all(&folder, Some(&names), false).unwrap()
    }

    #[test]
    fn subjects_take_turns_in_every_step_of_every_round() {
        let subjects = ours(&["postrider-hold", "postrider-stream"]);
        let tasks = planned(
            "--phases steady,drain --rounds 2 --records 7 --rate 5",
            &subjects,
        );
        let round = |round: u32| {
            [
                "drain-7 produce-only",
                "drain-7 read-only",
                "drain-7 postrider-hold",
                "drain-7 postrider-stream",
                "steady-5 postrider-hold",
                "steady-5 postrider-stream",
            ]
            .map(|task| format!("{round} {task}"))
        };
        assert_eq!(tasks, [round(1), round(2)].concat());
    }

    #[test]
    fn long_phases_have_rounds_of_their_own() {
        let subjects = ours(&["postrider-hold"]);
        let tasks = planned("--phases kill,emit --rounds 2 --long-rounds 1", &subjects);
        let kills = tasks.iter().filter(|task| task.contains("kill"));
        assert_eq!((kills.count(), tasks.len()), (1, 5));
    }

    #[test]
    fn an_option_that_comes_again_replaces_the_first() {
        let tasks = planned(
            "--phases kill --rounds 3 --records 7 --records 9,8 --rounds 1 --phases drain",
            &[],
        );
        let limits = ["produce-only", "read-only"];
        let drains = [9, 8].map(|n| limits.map(|limit| format!("1 drain-{n} {limit}")));
        assert_eq!(tasks, drains.concat());
    }

    #[test]
    fn a_subject_is_given_what_it_can_take() {
        let mut subjects = ours(&["bare-insert", "postrider-hold"]);
        subjects[1].about.records_max = Some(10);
        let tasks = planned("--phases drain --rounds 1 --records 10,11", &subjects);
        let held = tasks.iter().filter(|task| task.contains("postrider"));
        assert!(held.eq(["1 drain-10 postrider-hold"]));
        assert!(!tasks.iter().any(|task| task.contains("bare-insert")));
    }
}
