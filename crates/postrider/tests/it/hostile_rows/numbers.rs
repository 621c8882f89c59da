//! NaN and infinity, in columns of numbers that no layout's own table has and tables of others may
//! have.

use postrider::core::{Layout, Ordering, Share, Want};

use super::database::Base;
use super::{GOOD_TO_ONE, Run};

/// Which columns become such numbers. Every value of each is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_whose_numbers_may_be_nan_or_infinite() {
    let name = "numbers::tables_whose_numbers_may_be_nan_or_infinite";
    for (preset, ordering, order, values, statements) in [
        (
            "polyshop",
            Ordering::Key,
            &["rank", "id"][..],
            18,
            "CREATE SEQUENCE ranks; ALTER TABLE outbox_events \
             ADD rank double precision NOT NULL DEFAULT nextval('ranks'), \
             ALTER version TYPE double precision, ALTER aggregate_id TYPE numeric USING 0",
        ),
        (
            "talkie",
            Ordering::None,
            &["created_at", "id"],
            14,
            "ALTER TABLE outbox ALTER key TYPE double precision USING 0, \
             ALTER idempotency_key TYPE numeric USING 0",
        ),
        (
            "gopipe",
            Ordering::None,
            &["id"],
            6,
            "ALTER TABLE outbox ALTER id TYPE numeric",
        ),
        (
            "debezium",
            Ordering::Key,
            &["created_at", "id"],
            6,
            "ALTER TABLE outbox ALTER aggregateid TYPE double precision USING 0",
        ),
    ] {
        let mut run = Run::new(name, preset, ordering);
        let base = Base::postgres(&run.layout).await;
        run.layout.order = order
            .iter()
            .map(|name| (*name).to_owned().try_into().expect("is a name"))
            .collect();
        base.alter(&run.layout, statements).await;
        run.rows = values * GOOD_TO_ONE;
        run.on(&base).await;
    }
}

/// Attempts are counted in integers, and records are as old as a time says. Neither may be NaN.
#[tokio::test]
async fn attempts_and_times_that_could_be_nan_are_refused() {
    for (preset, column, statements) in [
        (
            "packfinderz",
            "attempt_count",
            "ALTER TABLE outbox_events ALTER attempt_count TYPE numeric",
        ),
        (
            "talkie",
            "retry_count",
            "ALTER TABLE outbox ALTER retry_count TYPE double precision",
        ),
        (
            "gopipe",
            "created_at",
            "ALTER TABLE outbox ALTER created_at DROP DEFAULT, \
             ALTER created_at TYPE double precision USING 0",
        ),
    ] {
        let layout = Layout::preset(preset).unwrap();
        let base = Base::postgres(&layout).await;
        let Base::Postgres(database) = &base else {
            unreachable!()
        };
        database.execute(statements).await;
        let want = Want {
            limit: 1,
            bytes: usize::MAX,
            share: Share::ALL,
        };
        let refused = base.store(&layout).claim(want).await.err();
        let told = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            told.contains(column) && told.contains("but it is"),
            "{preset}: {told:?}"
        );
    }
}
