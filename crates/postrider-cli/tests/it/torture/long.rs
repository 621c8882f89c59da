//! Transactions that write to the outbox and end long after others that began later: relays must
//! neither pass over what they wrote nor let what comes after it overtake it.

use std::time::Duration;

use postrider::stores::postgres::Outbox;
use postrider_testkit::eventually_within;
use sqlx::{AssertSqlSafe, PgConnection};

use super::writers::Arena;

/// How long relays have published later records when such a transaction ends: longer than they take
/// to begin their claims above those.
const LONG: Duration = Duration::from_secs(4);

/// Of different lanes, so that each relay has some of them.
const KEYS: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Manner {
    Plain,
    /// The events are written within a savepoint, after others that are rolled back.
    Savepoint,
    /// The transaction is prepared on the way, by which its locks come to belong to nobody's
    /// session.
    Prepared,
    RolledBack,
    /// It writes elsewhere at first, and to the outbox only in the end.
    Late,
}

const MANNERS: [Manner; 5] = [
    Manner::Plain,
    Manner::Savepoint,
    Manner::Prepared,
    Manner::RolledBack,
    Manner::Late,
];

/// One transaction of each manner at a time; how many events were committed.
pub(crate) async fn write(arena: &Arena) -> usize {
    let written = MANNERS.map(|manner| transaction(arena, manner));
    let written = futures::future::join_all(written).await.into_iter();
    let written = written.map(|written| written.expect("a long transaction failed"));
    written.sum()
}

/// The long transaction, and at once another one of the same keys: what it writes must not
/// overtake.
async fn transaction(arena: &Arena, manner: Manner) -> Result<usize, Box<dyn std::error::Error>> {
    // Keys of its own, so that nobody else waits for its end.
    let name = format!("{manner:?}-{}", fastrand::u64(..));
    let outbox = Outbox::new(arena.layout());
    let mut session = arena.pool().acquire().await?;
    let tx = &mut *session;
    run(tx, "BEGIN; INSERT INTO elsewhere VALUES (3)").await?;
    let since: f64 = sqlx::query_scalar("SELECT extract(epoch FROM clock_timestamp())::float8")
        .fetch_one(&mut *tx)
        .await?;
    match manner {
        Manner::Plain | Manner::Prepared | Manner::RolledBack => {
            put(arena, tx, &outbox, &name).await?;
        }
        Manner::Savepoint => {
            run(tx, "SAVEPOINT undone").await?;
            put(arena, tx, &outbox, &name).await?;
            run(tx, "ROLLBACK TO undone; SAVEPOINT kept").await?;
            put(arena, tx, &outbox, &name).await?;
            run(tx, "RELEASE kept").await?;
        }
        Manner::Late => {}
    }
    // Before relays look who writes, while they wait for the writers' ends, or after.
    hold(arena, tx, since, LONG.mul_f64(fastrand::f64())).await;
    let mut end = "COMMIT".to_owned();
    match manner {
        Manner::Prepared => {
            run(tx, &format!("PREPARE TRANSACTION '{name}'")).await?;
            end = format!("COMMIT PREPARED '{name}'");
        }
        Manner::RolledBack => end = "ROLLBACK".to_owned(),
        _ => {}
    }
    hold(arena, tx, since, LONG).await;
    if let Manner::Late = manner {
        put(arena, tx, &outbox, &name).await?;
    }
    run(tx, &end).await?;
    run(tx, "BEGIN").await?;
    put(arena, tx, &outbox, &name).await?;
    run(tx, "COMMIT").await?;
    Ok(match manner {
        Manner::RolledBack => KEYS,
        _ => 2 * KEYS,
    })
}

async fn put(
    arena: &Arena,
    tx: &mut PgConnection,
    outbox: &Outbox,
    name: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    for key in 0..KEYS {
        arena.put(tx, outbox, &format!("{name}-{key}")).await?;
    }
    Ok(())
}

/// Until a record that came after `since` has been published for so long.
async fn hold(arena: &Arena, session: &mut PgConnection, since: f64, time: Duration) {
    let layout = arena.layout();
    let published_at = layout.published_at().expect("is kept").quoted();
    let sql = format!(
        "SELECT EXISTS (SELECT FROM {} WHERE created_at > to_timestamp($1) \
         AND {published_at} < clock_timestamp() - make_interval(secs => $2))",
        layout.table.quoted()
    );
    let what = "relays publish what came later";
    eventually_within(Duration::from_secs(60), what, async || {
        let is_over = sqlx::query_scalar(AssertSqlSafe(sql.clone()))
            .bind(since)
            .bind(time.as_secs_f64());
        match is_over.fetch_one(&mut *session).await {
            Ok(true) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

async fn run(session: &mut PgConnection, sql: &str) -> Result<(), sqlx::Error> {
    let sql = AssertSqlSafe(sql.to_owned());
    sqlx::raw_sql(sql).execute(session).await.map(drop)
}
