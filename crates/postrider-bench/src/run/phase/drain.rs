//! A backlog that is there before the relay starts, until all of it arrived.

use std::time::{Duration, Instant};

use postrider::core::Timestamp;

use super::super::event::Events;
use super::super::load;
use super::super::reader::{Clock, Length, Reader};
use super::super::relay::Relay;
use super::super::results::Figures;
use super::trial::{Meter, Trial, read_tables, read_verdict};
use crate::workload;

pub(super) const EVENTS: Events = Events { keys: 10_000 };

/// Rarely: asking costs the broker something. The log itself says when each message arrived.
const LOOK: Duration = Duration::from_millis(50);
/// Marking the last batch as published, and what else comes after it, counts too.
const GRACE: Duration = Duration::from_secs(1);

pub(super) async fn measure(trial: &mut Trial<'_>, records: u64) -> anyhow::Result<Figures> {
    trial.progress.say("writing the backlog");
    let pool = &trial.database.pool;
    load::backlog(pool, &trial.subject.about.insert, EVENTS, records).await?;
    workload::execute(pool, "VACUUM ANALYZE").await?;
    workload::execute(pool, "CHECKPOINT").await?;
    trial.settle_machine().await;

    let mut figures = Figures::default();
    let meter = Meter::start(trial, None).await?;
    let started_micros = Timestamp::now().as_micros() as u64;
    let mut relay = trial.start_relay()?;
    let usage = until_there(trial, &mut relay, records).await?;
    tokio::time::sleep(GRACE).await;
    meter.read(trial, &mut relay, &mut figures).await?;

    trial.progress.say("checking what arrived");
    let reader = Reader::start(trial.lab.kafka(), &trial.topic, EVENTS, Clock::Append)?;
    until_read(&reader, records).await;
    relay.kill();
    read_tables(trial, &mut figures).await?;
    read_verdict(&reader, records, &mut figures);
    let times = reader.with(|arrivals| arrivals.times());
    rates(&times, started_micros, &mut figures);
    if let Some(cpu) = cpu_of_second_half(&times, &usage) {
        figures.set("second_half_relay_cpu_secs", cpu);
    }
    Ok(figures)
}

/// The relay's CPU seconds at a time, in microseconds.
type Usage = Vec<(u64, f64)>;

/// Until the topic is as long as the backlog.
async fn until_there(trial: &Trial<'_>, relay: &mut Relay, records: u64) -> anyhow::Result<Usage> {
    let length = Length::new(trial.lab.kafka(), &trial.topic)?;
    let mut usage = Vec::new();
    let mut looked = 0_u32;
    loop {
        let there = length.now().await?;
        // Going through all processes costs more than asking the broker.
        if looked.is_multiple_of(4) || there >= records {
            usage.push((Timestamp::now().as_micros() as u64, relay.cpu_secs()));
            anyhow::ensure!(relay.is_alive(), "the relay ended by itself");
            trial.check_time()?;
        }
        looked += 1;
        trial.progress.count(there, records);
        if there >= records {
            return Ok(usage);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Until every event was read; with duplicates that is later than what the topic's length says.
pub(super) async fn until_read(reader: &Reader, records: u64) {
    const SILENCE_MAX: Duration = Duration::from_secs(20);
    let (mut last, mut changed) = (0, Instant::now());
    loop {
        let (messages, distinct) = reader.with(|arrivals| (arrivals.messages, arrivals.distinct));
        if messages > last {
            (last, changed) = (messages, Instant::now());
        }
        // What is missing after a long silence is lost, and reported as that.
        if distinct >= records || changed.elapsed() > SILENCE_MAX {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// From times of arrival, the earliest first.
pub(super) fn rates(times: &[u64], started_micros: u64, figures: &mut Figures) {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return;
    };
    let secs = |from: u64, to: u64| (to.saturating_sub(from) as f64 / 1e6).max(0.001);
    let count = times.len();
    let between = |from: usize, to: usize| (to - from) as f64 / secs(times[from], times[to]);
    figures.set("per_sec", count as f64 / secs(*first, *last));
    figures.set(
        "per_sec_from_start",
        count as f64 / secs(started_micros, *last),
    );
    figures.set("start_secs", secs(started_micros, *first));
    if count >= 20 {
        figures.set("second_half_per_sec", between(count / 2, count - 1));
        figures.set("first_tenth_per_sec", between(0, count / 10));
        figures.set(
            "last_tenth_per_sec",
            between(count - 1 - count / 10, count - 1),
        );
    }
}

/// The CPU seconds between the arrival of the middle event and that of the last one.
fn cpu_of_second_half(times: &[u64], usage: &Usage) -> Option<f64> {
    let (half, last) = (times.get(times.len() / 2)?, times.last()?);
    Some(cpu_at(usage, *last)? - cpu_at(usage, *half)?)
}

fn cpu_at(usage: &Usage, at: u64) -> Option<f64> {
    let after = usage.iter().position(|(time, _)| *time >= at);
    let Some(after) = after else {
        return usage.last().map(|(_, cpu)| *cpu);
    };
    let Some(before) = after.checked_sub(1) else {
        return usage.first().map(|(_, cpu)| *cpu);
    };
    let ((from, low), (to, high)) = (usage[before], usage[after]);
    let share = (at - from) as f64 / (to - from).max(1) as f64;
    Some(low + (high - low) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_between_arrivals() {
        // 1,000 per second for a second, then 2,000 per second.
        let slow = (0..1000).map(|n| 5_000_000 + n * 1000);
        let fast = (0..1000).map(|n| 6_000_000 + n * 500);
        let times: Vec<u64> = slow.chain(fast).collect();
        let mut figures = Figures::default();
        rates(&times, 4_000_000, &mut figures);
        let rounded = |name: &str| figures.get(name).unwrap().round();
        assert_eq!(rounded("per_sec"), 1334.0);
        assert_eq!(rounded("per_sec_from_start"), 800.0);
        assert_eq!(rounded("start_secs"), 1.0);
        assert_eq!(rounded("second_half_per_sec"), 2000.0);
        assert_eq!(rounded("first_tenth_per_sec"), 1000.0);
        assert_eq!(rounded("last_tenth_per_sec"), 2000.0);
    }

    #[test]
    fn cpu_is_read_between_two_looks() {
        let usage = vec![(100, 1.0), (200, 3.0), (300, 4.0)];
        assert_eq!(cpu_at(&usage, 150), Some(2.0));
        assert_eq!(cpu_at(&usage, 50), Some(1.0));
        assert_eq!(cpu_at(&usage, 900), Some(4.0));
        assert_eq!(cpu_of_second_half(&[100, 150, 300], &usage), Some(2.0));
        assert_eq!(cpu_of_second_half(&[], &usage), None);
    }
}
