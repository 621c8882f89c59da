//! The two ways in which others read such a table, against the schedules that break them: so the schedules and the
//! checker are known to tell right from wrong. Then the same schedules against ours.

use postrider_testkit::eventually;
use postrider_testkit::history::{Seen, Verdict};
use sqlx::{PgConnection, Postgres, Transaction};

use super::drain;
use crate::world::{World, world};

/// A reader that remembers the last position, and stays behind the oldest running transaction.
const BY_POSITION: &str = "SELECT o.key || ' ' || convert_from(o.payload, 'UTF8') FROM postrider_outbox AS o \
    WHERE o.position > (SELECT c.position FROM cursor AS c) AND o.xid < pg_snapshot_xmin(pg_current_snapshot()) \
    ORDER BY o.position";
const MOVE_BY_POSITION: &str = "UPDATE cursor SET position = coalesce((SELECT max(o.position) FROM postrider_outbox AS o \
    WHERE o.xid < pg_snapshot_xmin(pg_current_snapshot())), 0)";

/// A reader that remembers the last transaction and position.
const BY_XID: &str = "SELECT o.key || ' ' || convert_from(o.payload, 'UTF8') FROM postrider_outbox AS o \
    WHERE (o.xid, o.position) > (SELECT c.xid, c.position FROM cursor AS c) \
    AND o.xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY o.xid, o.position";
const MOVE_BY_XID: &str = "UPDATE cursor SET (xid, position) = (SELECT o.xid, o.position FROM postrider_outbox AS o \
    WHERE o.xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY o.xid DESC, o.position DESC LIMIT 1) \
    WHERE EXISTS (SELECT FROM postrider_outbox AS o WHERE o.xid < pg_snapshot_xmin(pg_current_snapshot()))";

/// An outbox, and whoever reads it: ours, or one of the two.
struct Schedule {
    world: World,
    reader: Option<(&'static str, &'static str)>,
    log: Vec<Seen>,
}

impl Schedule {
    async fn new(reader: Option<(&'static str, &'static str)>) -> Self {
        let world = world("native", "").await;
        world
            .database
            .execute(
                "CREATE TABLE elsewhere (n int); CREATE TABLE keys (k text PRIMARY KEY); INSERT INTO keys VALUES ('k'); \
                 CREATE TABLE cursor (xid xid8, position bigint); INSERT INTO cursor VALUES ('0', 0)",
            )
            .await;
        Self {
            world,
            reader,
            log: Vec::new(),
        }
    }

    async fn begin(&self) -> Transaction<'static, Postgres> {
        self.world.database.pool.begin().await.unwrap()
    }

    async fn poll(&mut self) {
        let Some((read, advance)) = self.reader else {
            let seen = drain(&self.world.store()).await;
            self.log
                .extend(seen.into_iter().map(|(key, number)| Seen { key, number }));
            return;
        };
        // In one snapshot, as one statement would.
        let mut tx = self.begin().await;
        run(&mut tx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await;
        let rows: Vec<(String,)> = sqlx::query_as(read).fetch_all(&mut *tx).await.unwrap();
        run(&mut tx, advance).await;
        tx.commit().await.unwrap();
        for (row,) in rows {
            let (key, payload) = row.split_once(' ').unwrap();
            let payload: serde_json::Value = serde_json::from_str(payload).unwrap();
            self.log.push(Seen {
                key: key.into(),
                number: payload["n"].as_i64().unwrap(),
            });
        }
    }

    /// Polls until so many events were read, or until no transaction could hide them any more.
    async fn poll_until(&mut self, count: usize) {
        let schedule = self;
        eventually("the events are read, or passed over", async || {
            let settled = schedule.horizon_passed().await;
            schedule.poll().await;
            if schedule.log.len() >= count || settled {
                return Ok(());
            }
            Err(schedule.log.len())
        })
        .await;
    }

    /// Whether every event's transaction is behind the oldest that runs. Other tests' transactions come and go.
    async fn horizon_passed(&self) -> bool {
        let hidden = "SELECT count(*) FROM postrider_outbox WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())";
        self.world.database.number(hidden).await == 0
    }

    async fn emit(&self, tx: &mut PgConnection, number: u32) {
        let event = self.world.event(Some("k"), number);
        self.world.outbox.emit(tx, event).await.unwrap();
    }

    fn verdict(&self, committed: &[i64]) -> Verdict {
        let committed: Vec<Seen> = committed
            .iter()
            .map(|number| Seen {
                key: "k".into(),
                number: *number,
            })
            .collect();
        Verdict::of(&committed, &self.log)
    }
}

async fn run(tx: &mut PgConnection, sql: &'static str) {
    sqlx::query(sql).execute(tx).await.unwrap();
}

/// An old transaction draws a later position than a younger one that commits after it.
async fn a_later_position_commits_first(mut schedule: Schedule) -> Verdict {
    let mut old = schedule.begin().await;
    run(&mut old, "INSERT INTO elsewhere VALUES (1)").await;
    let mut young = schedule.begin().await;
    schedule.emit(&mut young, 1).await;
    schedule.emit(&mut old, 2).await;
    old.commit().await.unwrap();
    eventually("the second is read while the first is open", async || {
        schedule.poll().await;
        if schedule.log.is_empty() {
            Err(())
        } else {
            Ok(())
        }
    })
    .await;
    young.commit().await.unwrap();
    schedule.poll_until(2).await;
    schedule.verdict(&[1, 2])
}

/// An old transaction changes the key after a younger one did. Somebody else's stays open meanwhile.
async fn the_older_transaction_comes_second(mut schedule: Schedule) -> Verdict {
    const LOCK: &str = "SELECT FROM keys WHERE k = 'k' FOR UPDATE";
    let mut old = schedule.begin().await;
    run(&mut old, "INSERT INTO elsewhere VALUES (1)").await;
    let mut open = schedule.begin().await;
    run(&mut open, "INSERT INTO elsewhere VALUES (3)").await;
    let mut young = schedule.begin().await;
    run(&mut young, LOCK).await;
    schedule.emit(&mut young, 1).await;
    young.commit().await.unwrap();
    schedule.poll().await;
    run(&mut old, LOCK).await;
    schedule.emit(&mut old, 2).await;
    old.commit().await.unwrap();
    schedule.poll().await;
    open.commit().await.unwrap();
    schedule.poll_until(2).await;
    schedule.verdict(&[1, 2])
}

#[tokio::test]
async fn a_cursor_over_positions_is_seen_to_lose() {
    let schedule = Schedule::new(Some((BY_POSITION, MOVE_BY_POSITION))).await;
    let verdict = a_later_position_commits_first(schedule).await;
    assert_eq!(verdict.lost.len(), 1, "{verdict:?}");
}

#[tokio::test]
async fn a_cursor_over_transactions_is_seen_to_invert() {
    let schedule = Schedule::new(Some((BY_XID, MOVE_BY_XID))).await;
    let verdict = the_older_transaction_comes_second(schedule).await;
    assert_eq!(verdict.inverted.len(), 1, "{verdict:?}");
}

#[tokio::test]
async fn the_stream_neither_loses_nor_inverts_on_the_same_schedules() {
    let verdict = a_later_position_commits_first(Schedule::new(None).await).await;
    assert_eq!(
        (verdict.lost.len(), verdict.published),
        (0, 2),
        "{verdict:?}"
    );
    let verdict = the_older_transaction_comes_second(Schedule::new(None).await).await;
    verdict.assert_clean();
    assert_eq!(verdict.duplicates, 0);
}
