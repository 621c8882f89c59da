//! Writing events: a backlog in large statements, a steady stream in single commits by schedule, a burst to see what
//! writing costs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use postrider::stores::postgres::{PgConnection, PgPool};
use sqlx::pool::PoolConnection;

use super::event::Events;

/// Each has keys of its own, so that the events of a key are written one after the other. Divides every number of keys.
pub(crate) const WRITERS: u64 = 8;

const BACKLOG_STATEMENT: u64 = 1000;

pub(crate) async fn insert(
    connection: &mut PgConnection,
    sql: &str,
    events: Events,
    numbers: impl Iterator<Item = u64> + Clone,
) -> anyhow::Result<()> {
    let keys: Vec<String> = numbers.clone().map(|i| events.key(i)).collect();
    let payloads: Vec<String> = numbers.map(|i| events.payload(i)).collect();
    sqlx::query(sqlx::AssertSqlSafe(sql))
        .bind(keys)
        .bind(payloads)
        .execute(connection)
        .await?;
    Ok(())
}

/// Events `0..count`, a thousand per statement and commit.
pub(crate) async fn backlog(
    pool: &PgPool,
    sql: &str,
    events: Events,
    count: u64,
) -> anyhow::Result<()> {
    let mut connection = pool.acquire().await?;
    let mut first = 0;
    while first < count {
        let end = (first + BACKLOG_STATEMENT).min(count);
        insert(&mut connection, sql, events, first..end).await?;
        first = end;
    }
    Ok(())
}

/// Events `0..count` as fast as they can be written, `per_statement` in each commit; records per second.
pub(crate) async fn burst(
    pool: &PgPool,
    sql: &str,
    events: Events,
    count: u64,
    per_statement: u64,
) -> anyhow::Result<f64> {
    let mut connections = Vec::new();
    for _ in 0..WRITERS / 2 {
        connections.push(pool.acquire().await?);
    }
    let next = AtomicU64::new(0);
    let start = Instant::now();
    let writers = connections.into_iter().map(|connection| {
        let next = &next;
        async move {
            let mut connection: PoolConnection<_> = connection;
            loop {
                let first = next.fetch_add(per_statement, Ordering::Relaxed);
                if first >= count {
                    return anyhow::Ok(());
                }
                let end = (first + per_statement).min(count);
                insert(&mut connection, sql, events, first..end).await?;
            }
        }
    });
    futures::future::try_join_all(writers).await?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// When events are due: `rate` per second, whether or not the ones before are done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) rate: u64,
    /// The first event.
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Schedule {
    pub(crate) fn due(self, i: u64) -> Duration {
        Duration::from_secs_f64((i - self.first) as f64 / self.rate as f64)
    }

    fn of_writer(self, writer: u64) -> impl Iterator<Item = u64> {
        (self.first..self.first + self.count).filter(move |i| i % WRITERS == writer)
    }
}

/// When each event was sent to the database and when its commit came back, in microseconds from a common start.
pub(crate) struct Sent {
    first: u64,
    times: Vec<(AtomicU64, AtomicU64)>,
    start: Instant,
}

impl Sent {
    pub(crate) fn new(schedule: Schedule, start: Instant) -> Self {
        let times = (0..schedule.count).map(|_| (AtomicU64::new(0), AtomicU64::new(0)));
        Self {
            first: schedule.first,
            times: times.collect(),
            start,
        }
    }

    pub(crate) fn at(&self, i: u64) -> (u64, u64) {
        let (sent, done) = &self.times[(i - self.first) as usize];
        (sent.load(Ordering::Relaxed), done.load(Ordering::Relaxed))
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }
}

/// One event per commit, by schedule. A writer that is late sends at once, and is not late on purpose afterwards.
pub(crate) async fn steady(
    pool: &PgPool,
    sql: &str,
    events: Events,
    schedule: Schedule,
    sent: &Sent,
) -> anyhow::Result<()> {
    let mut connections = Vec::new();
    for _ in 0..WRITERS {
        connections.push(pool.acquire().await?);
    }
    let begin = tokio::time::Instant::now();
    let writers = connections
        .into_iter()
        .zip(0..)
        .map(|(connection, writer)| async move {
            let mut connection: PoolConnection<_> = connection;
            for i in schedule.of_writer(writer) {
                tokio::time::sleep_until(begin + schedule.due(i)).await;
                let (key, payload) = (vec![events.key(i)], vec![events.payload(i)]);
                let insert = sqlx::query(sqlx::AssertSqlSafe(sql))
                    .bind(key)
                    .bind(payload);
                let (sent_at, done_at) = &sent.times[(i - sent.first) as usize];
                sent_at.store(sent.now(), Ordering::Relaxed);
                insert.execute(&mut *connection).await?;
                done_at.store(sent.now(), Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    futures::future::try_join_all(writers).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule {
        rate: 2000,
        first: 1,
        count: 100,
    };

    #[test]
    fn events_are_due_by_the_clock_and_not_by_those_before() {
        assert_eq!(SCHEDULE.due(1), Duration::ZERO);
        assert_eq!(SCHEDULE.due(3), Duration::from_millis(1));
        assert_eq!(SCHEDULE.due(2001), Duration::from_secs(1));
    }

    #[test]
    fn every_event_has_one_writer_and_a_key_has_always_the_same() {
        let events = Events { keys: 200 };
        let mut all = Vec::new();
        for writer in 0..WRITERS {
            let own: Vec<u64> = SCHEDULE.of_writer(writer).collect();
            assert!(own.is_sorted());
            for i in &own {
                let again = i + events.keys;
                assert_eq!(events.key(*i), events.key(again));
                assert_eq!(again % WRITERS, writer);
            }
            all.extend(own);
        }
        all.sort_unstable();
        assert!(all.into_iter().eq(1..=100));
    }
}
