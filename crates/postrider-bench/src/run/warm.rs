//! Warming up. A broker whose code is not compiled yet makes whoever is measured first look slow, and its compiler takes a
//! third of a core meanwhile.

use std::time::Duration;

use super::lab::Lab;
use super::phase::limit::Limit;
use super::phase::{Bounds, Step};
use super::plan::{Task, Who};
use super::progress::Progress;
use super::subject::Subject;
use super::{attempt, environment, root};

const RECORDS: u64 = 200_000;
const DRAIN: Step = Step::Drain { records: RECORDS };
const LOAD: Step = Step::Steady {
    rate: 2000,
    secs: 10,
};
/// Measurements of a kind that are made and thrown away, at most.
const TIMES_MAX: u32 = 8;
/// Falls by less than a tenth are noise.
const FALLS: f64 = 0.9;
const BOUNDS: Bounds = Bounds {
    quiet_patience: Duration::ZERO,
    trial_patience: Duration::from_secs(60),
    warm_up_secs: 0,
};

/// Large requests and small ones go different ways in the broker, so each kind that is planned is made, by our fastest
/// subject, until the broker's CPU for it falls no further.
pub(super) async fn warm_up(
    lab: &Lab,
    tasks: &[Task<'_>],
    progress: &Progress,
) -> anyhow::Result<()> {
    let sends = |task: &&Task<'_>| task.step.sends();
    if !tasks.iter().any(|task| task.step.sends()) {
        return Ok(());
    }
    for round in 1..=3 {
        let topic = format!("warm-up-{round}");
        Limit::ProduceOnly
            .measure(lab, &BOUNDS, &topic, RECORDS)
            .await?;
    }
    let mut subject = Subject::load(&root().join("bench/subjects/postrider-stream"))?;
    subject.build(&environment(&lab.dir)).await?;
    for step in [DRAIN, LOAD] {
        if tasks
            .iter()
            .filter(sends)
            .any(|task| task.step.has_writers() == step.has_writers())
        {
            until_warm(lab, &subject, step, progress).await?;
        }
    }
    Ok(())
}

async fn until_warm(
    lab: &Lab,
    subject: &Subject,
    step: Step,
    progress: &Progress,
) -> anyhow::Result<()> {
    let task = Task {
        round: 0,
        step,
        who: Who::Subject(subject),
    };
    let mut last = f64::INFINITY;
    for time in 1..=TIMES_MAX {
        let topic = format!("warm-up-{}-{time}", step.name());
        let (_, figures) = attempt(lab, &task, progress, &BOUNDS, topic).await?;
        let broker = figures.get("kafka_cpu_secs").unwrap_or_default();
        eprintln!("warming up Kafka by {}: {broker:.2} s CPU", step.name());
        if broker > last * FALLS {
            break;
        }
        last = broker;
    }
    Ok(())
}
