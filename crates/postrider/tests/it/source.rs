//! An outbox as a stream of messages: every answer becomes the fate of its record, in Postgres by a held transaction and
//! by a lease, and in SQLite.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postrider::Source;
use postrider::core::{
    Backoff, Event, Layout, ManagedStore, Ordering, RecordFilter, RecordState, Router, Routes,
};
use postrider::relay::Config;
use postrider::source::{Ended, Messages, Outgoing};
use postrider::stores::sqlite::{self, InitOptions, Options, SqliteStore};
use postrider_testkit::eventually;
use postrider_testkit::sqlite::{SqliteFile, fresh_file};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::World;

/// An outbox in either database.
enum Place {
    Postgres(Box<World>),
    Sqlite(Box<File>),
}

struct File {
    /// Goes with this.
    _file: SqliteFile,
    database: sqlite::Database,
    layout: Layout,
}

async fn places() -> [Place; 3] {
    let file = fresh_file();
    let database = sqlite::connect(&file.url, 4).unwrap();
    let layout = Layout::preset("gopipe").unwrap();
    let options = InitOptions { claim_index: true };
    sqlite::init(&database, &layout, &options).await.unwrap();
    [
        Place::Postgres(Box::new(World::new("gopipe").await)),
        Place::Postgres(Box::new(World::new("talkie").await)),
        Place::Sqlite(Box::new(File {
            _file: file,
            database,
            layout,
        })),
    ]
}

fn event(n: usize, key: &str) -> Event {
    let event = Event::json("order.placed", &json!({ "n": n })).unwrap();
    event.topic("orders").key(key)
}

impl Place {
    async fn emit(&self, numbers: impl IntoIterator<Item = usize>) {
        let keyed = matches!(self, Self::Postgres(world) if world.layout.columns.key.is_some());
        for n in numbers {
            let mut event = event(n, "k");
            if !keyed {
                event.key = None;
            }
            self.emit_one(event).await;
        }
    }

    async fn emit_one(&self, event: Event) {
        match self {
            Self::Postgres(world) => world.emit([event]).await,
            Self::Sqlite(file) => {
                let mut tx = file.database.begin().await.unwrap();
                let outbox = sqlite::Outbox::new(file.layout.clone());
                outbox.emit(&mut tx, event).await.unwrap();
                file.database.commit(tx).await.unwrap();
            }
        }
    }

    fn layout(&self) -> &Layout {
        match self {
            Self::Postgres(world) => &world.layout,
            Self::Sqlite(file) => &file.layout,
        }
    }

    fn store(&self) -> Arc<dyn ManagedStore> {
        match self {
            Self::Postgres(world) => Arc::new(world.store()),
            Self::Sqlite(file) => {
                let options = Options::new(file.layout.clone());
                Arc::new(SqliteStore::new(file.database.clone(), options))
            }
        }
    }

    /// Starts a source with claims of this size.
    fn source(&self, batch: u32) -> (Running, Messages) {
        self.source_with(|config| config.batch = batch)
    }

    fn source_with(&self, change: impl FnOnce(&mut Config)) -> (Running, Messages) {
        let layout = self.layout();
        let mut config = Config {
            poll_max: Duration::from_millis(20),
            ordering: layout.ordering,
            ..Config::default()
        };
        let backoff = Duration::from_millis(20);
        config.retry.backoff = Backoff::new(backoff, backoff);
        change(&mut config);
        let router = Router::new(layout, Routes::new(), None);
        let (source, messages) = Source::new(self.store(), router, config);
        let shutdown = CancellationToken::new();
        let run = source.run(shutdown.clone());
        let task = tokio::spawn(async move { run.await.unwrap() });
        (Running { shutdown, task }, messages)
    }

    async fn count(&self, state: RecordState) -> u64 {
        let filter = RecordFilter::in_state(state);
        self.store().count(&filter).await.unwrap()
    }

    async fn until_published(&self, records: u64) {
        eventually("records are published", async || {
            match self.count(RecordState::Published).await {
                count if count == records => Ok(()),
                count => Err(count),
            }
        })
        .await;
    }

    /// How often the records that are not published were tried.
    async fn attempts(&self) -> Vec<u32> {
        let store = self.store();
        let mut found = Vec::new();
        for state in [RecordState::Pending, RecordState::Waiting] {
            let filter = RecordFilter::in_state(state);
            let page = store.find(&filter, None, 100).await.unwrap();
            found.extend(page.items.iter().map(|record| record.attempts));
        }
        found
    }
}

struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.shutdown.cancel();
        self.ends().await;
    }

    async fn ends(self) {
        let ended = tokio::time::timeout(Duration::from_secs(30), self.task);
        ended.await.expect("it ends").unwrap();
    }
}

async fn next(messages: &Messages) -> Outgoing {
    let next = tokio::time::timeout(Duration::from_secs(30), messages.next());
    next.await.expect("a message").expect("the source runs")
}

fn number(outgoing: &Outgoing) -> u64 {
    let payload = outgoing.message().payload.as_deref().unwrap();
    let payload: serde_json::Value = serde_json::from_slice(payload).unwrap();
    payload["n"].as_u64().unwrap()
}

/// A4-10, S4-43, S4-46, S4-50: an ack marks the row published; a nack, and a message that is dropped, leave it, and it is
/// offered again. Messages come in the outbox's order.
#[tokio::test]
async fn an_ack_publishes_and_what_is_given_back_or_dropped_is_offered_again() {
    for place in places().await {
        place.emit(0..4).await;
        let (running, messages) = place.source(4);
        let taken = [
            next(&messages).await,
            next(&messages).await,
            next(&messages).await,
            next(&messages).await,
        ];
        assert_eq!(taken.each_ref().map(number), [0, 1, 2, 3]);
        let [first, second, third, fourth] = taken;
        assert_eq!(place.count(RecordState::Published).await, 0);
        first.ack().unwrap();
        second.nack("the broker said no").unwrap();
        drop(third);
        fourth.release().unwrap();
        place.until_published(1).await;

        let mut again = HashSet::new();
        for _ in 0..3 {
            let message = next(&messages).await;
            again.insert(number(&message));
            message.ack().unwrap();
        }
        assert_eq!(again, HashSet::from([1, 2, 3]));
        place.until_published(4).await;
        running.stop().await;
    }
}

/// A nack and a drop cost an attempt and say why; what is released costs none.
#[tokio::test]
async fn a_nack_is_counted_with_its_reason_and_a_release_is_not() {
    let [place, ..] = places().await;
    place.emit(0..2).await;
    let (running, messages) = place.source_with(|config| {
        config.batch = 2;
        config.retry.max_attempts = 2;
    });
    for _ in 0..2 {
        let message = next(&messages).await;
        match number(&message) {
            0 => message.nack("the broker said no").unwrap(),
            _ => message.release().unwrap(),
        }
    }
    let dead = eventually("one is dead", async || {
        match next(&messages).await {
            message if number(&message) == 0 => drop(message),
            message => message.release().unwrap(),
        }
        let dead = place.store().find(&RecordFilter::dead(), None, 10).await;
        let dead = dead.unwrap().items;
        if dead.len() == 1 { Ok(dead) } else { Err(dead) }
    })
    .await;
    assert_eq!(dead[0].attempts, 2);
    assert_eq!(dead[0].error.as_deref(), Some("dropped without an answer"));
    running.stop().await;
    assert_eq!(place.attempts().await, [0]);
}

/// A4-12: told to stop with messages in flight, the source gives no more, records the answers that come, and ends; what
/// nobody has taken is as it was. The next one repeats none of what was acknowledged.
#[tokio::test]
async fn a_stop_records_the_answers_to_what_is_in_flight() {
    for place in places().await {
        place.emit(0..4).await;
        let (running, messages) = place.source(4);
        let taken = [next(&messages).await, next(&messages).await];
        running.shutdown.cancel();
        // Until the source has heard of it, it goes on.
        while let Some(message) = messages.next().await {
            message.release().unwrap();
        }
        for message in taken {
            message.ack().unwrap();
        }
        running.ends().await;
        assert_eq!(place.count(RecordState::Published).await, 2);
        assert_eq!(place.attempts().await, [0, 0]);

        let (running, messages) = place.source(4);
        for expected in [2, 3] {
            let message = next(&messages).await;
            assert_eq!(number(&message), expected);
            message.ack().unwrap();
        }
        running.stop().await;
        assert_eq!(place.count(RecordState::Published).await, 4);
    }
}

/// A4-11: what one source has in flight is offered by no other, however often they poll.
#[tokio::test]
async fn two_sources_never_offer_the_same_record() {
    for place in places().await {
        place.emit(0..4).await;
        let mut sources = vec![place.source(2), place.source(2)];
        let mut taken = Vec::new();
        for (_, messages) in &sources {
            taken.extend([next(messages).await, next(messages).await]);
        }
        let numbers: HashSet<u64> = taken.iter().map(number).collect();
        assert_eq!(numbers, HashSet::from([0, 1, 2, 3]));
        // A third finds what comes later, and nothing else.
        sources.push(place.source(2));
        place.emit([4]).await;
        let last = next(&sources[2].1).await;
        assert_eq!(number(&last), 4);
        for message in taken.into_iter().chain([last]) {
            message.ack().unwrap();
        }
        place.until_published(5).await;
        for (running, messages) in sources {
            running.stop().await;
            drop(messages);
        }
    }
}

/// A receiver that is slower than a claim may last loses it: what is unanswered is released without an attempt, and an
/// answer that comes later says that it is too late. What was acknowledged in time is published.
#[tokio::test]
async fn what_is_unanswered_at_the_deadline_is_released() {
    for place in places().await {
        place.emit(0..3).await;
        let (running, messages) = place.source_with(|config| {
            config.batch = 3;
            config.publish_timeout = Duration::from_millis(300);
        });
        let (first, second) = (next(&messages).await, next(&messages).await);
        first.ack().unwrap();
        place.until_published(1).await;
        assert_eq!(second.ack(), Err(Ended));

        for expected in [1, 2] {
            let message = next(&messages).await;
            assert_eq!(number(&message), expected);
            message.ack().unwrap();
        }
        running.stop().await;
        assert_eq!(place.count(RecordState::Published).await, 3);
    }
}

/// With order per key, a key's next message is offered when the one before it is acknowledged. After a nack the later ones
/// of the key wait, and others do not.
#[tokio::test]
async fn a_key_has_one_message_in_flight_and_nothing_overtakes_a_nack() {
    let world = World::with("talkie", |layout| layout.ordering = Ordering::Key).await;
    let place = Place::Postgres(Box::new(world));
    for (n, key) in [(0, "a"), (1, "a"), (2, "b"), (3, "a"), (4, "b")] {
        place.emit_one(event(n, key)).await;
    }
    let (running, messages) = place.source(10);
    let (a, b) = (next(&messages).await, next(&messages).await);
    assert_eq!((number(&a), number(&b)), (0, 2));
    a.nack("no").unwrap();
    b.ack().unwrap();
    let b = next(&messages).await;
    assert_eq!(number(&b), 4);
    b.ack().unwrap();
    for expected in [0, 1, 3] {
        let a = next(&messages).await;
        assert_eq!(number(&a), expected);
        a.ack().unwrap();
    }
    running.stop().await;
    assert_eq!(place.count(RecordState::Published).await, 5);
}

/// Whoever takes messages no more ends the source, and nothing is lost.
#[tokio::test]
async fn a_source_whose_messages_nobody_takes_ends() {
    let [place, ..] = places().await;
    place.emit(0..2).await;
    let (running, messages) = place.source(2);
    next(&messages).await.ack().unwrap();
    drop(messages);
    running.ends().await;
    assert_eq!(place.count(RecordState::Published).await, 1);
    assert_eq!(place.attempts().await, [0]);
}
