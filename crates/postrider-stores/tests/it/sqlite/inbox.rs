//! Inboxes in SQLite files.

use async_trait::async_trait;
use postrider_core::Admission::{Duplicate, First};
use postrider_core::{
    Arrival, EventId, InboxStore as _, ParkedKeys as _, StoreError, Timestamp, Transactions as _,
};
use postrider_stores::sqlite::inbox::init;
use postrider_stores::sqlite::parked::{self, SqliteParkedKeys};
use postrider_stores::sqlite::{Database, InboxLayout, SqliteInbox, SqliteTransactions, connect};
use postrider_testkit::conformance::inbox::InboxWorld;
use postrider_testkit::inbox_conformance;
use postrider_testkit::sqlite::{SqliteFile, fresh_file};

struct World {
    file: SqliteFile,
    database: Database,
    transactions: SqliteTransactions,
    inbox: SqliteInbox,
}

async fn world(layout: InboxLayout) -> World {
    let file = fresh_file();
    let database = connect(&file.url, 4).unwrap();
    init(&database, &layout).await.unwrap();
    World {
        file,
        transactions: SqliteTransactions::new(database.clone()),
        database,
        inbox: SqliteInbox::new(layout),
    }
}

#[async_trait]
impl InboxWorld for World {
    type Transactions = SqliteTransactions;
    type Inbox = SqliteInbox;

    fn transactions(&self) -> &SqliteTransactions {
        &self.transactions
    }

    fn inbox(&self) -> &SqliteInbox {
        &self.inbox
    }

    fn tells_consumers_apart(&self) -> bool {
        self.inbox.layout().columns.subscriber.is_some()
    }

    async fn entries(&self) -> u64 {
        let table = self.inbox.layout().table.quoted();
        self.file.count(&table).await.try_into().unwrap()
    }

    async fn waiting(&self) -> u64 {
        self.database.waiting() as u64
    }
}

mod gopipe {
    use super::*;
    inbox_conformance!(world(InboxLayout::gopipe()));
}

mod polyshop {
    use super::*;
    inbox_conformance!(world(InboxLayout::polyshop()));
}

#[tokio::test]
async fn entries_are_kept_for_as_long_as_asked() {
    let world = world(InboxLayout::gopipe()).await;
    let id = EventId::generate();
    let arrival = Arrival {
        event_id: &id,
        event_type: None,
        source: None,
    };
    for expected in [First, Duplicate] {
        let mut tx = world.database.begin().await.unwrap();
        let admitted = world.inbox.admit(&mut tx, "billing", &[arrival]).await;
        assert_eq!(admitted.unwrap(), [expected]);
        world.database.commit(tx).await.unwrap();
    }
    let purge = async |keep| world.inbox.purge(&world.database, keep, 10).await.unwrap();
    assert_eq!(purge(std::time::Duration::from_secs(60)).await, 0);
    assert_eq!(purge(std::time::Duration::MAX).await, 0);
    assert_eq!(purge(std::time::Duration::ZERO).await, 1);
}

#[tokio::test]
async fn a_table_without_a_key_is_refused() {
    let file = fresh_file();
    file.execute(
        "CREATE TABLE processed_messages (subscriber TEXT, message_id TEXT, created_at INTEGER)",
    )
    .await;
    let database = connect(&file.url, 4).unwrap();
    let inbox = SqliteInbox::new(InboxLayout::gopipe());
    let error = inbox.check(&database).await.unwrap_err();
    let StoreError::Mismatch(error) = error else {
        panic!("{error}")
    };
    assert!(error.contains("unique index"), "{error}");
}

#[tokio::test]
async fn a_transaction_that_a_statement_has_ended_is_not_committed() {
    let world = world(InboxLayout::gopipe()).await;
    let mut tx = world.transactions.begin().await.unwrap();
    postrider_testkit::sqlite::run(&mut tx, "ROLLBACK").await;
    world.transactions.commit(tx).await.unwrap_err();
}

#[tokio::test]
async fn a_key_is_parked_until_it_is_freed() {
    let file = fresh_file();
    let database = connect(&file.url, 4).unwrap();
    for _ in 0..2 {
        parked::init(&database).await.unwrap();
    }
    let (keys, key) = (SqliteParkedKeys::new(database), b"k\0\xff");
    assert!(!keys.is_parked("c", "t", key).await.unwrap());
    for reason in ["why", "again"] {
        keys.park("c", "t", key, reason).await.unwrap();
    }
    assert!(keys.is_parked("c", "t", key).await.unwrap());
    assert!(!keys.is_parked("c", "u", key).await.unwrap());
    let list = keys.list("c", 10).await.unwrap();
    assert_eq!((&*list[0].key, &*list[0].reason), (&key[..], "why"));
    let age = Timestamp::now().as_micros() - list[0].parked_at.as_micros();
    assert!((0..60_000_000).contains(&age.abs()), "{age}");
    assert!(keys.free("c", "t", key).await.unwrap());
    assert!(!keys.free("c", "t", key).await.unwrap());
}
