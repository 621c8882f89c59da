//! What a relay holds, asks and says is bounded, whatever its rows and its database do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use postrider::brokers::memory::MemoryBroker;
use postrider::core::{
    Fate, Message, PublishError, Publisher, Record, RecordId, Share, StoreError, Topic,
};
use postrider::relay::Config;
use postrider_testkit::eventually;

use crate::fake::{self, FakeStore, record};
use crate::logs::capture;
use crate::witness::Answering;
use crate::world::{metric, until_accepted};

/// A line that is longer is cut by what collects logs.
const LINE_BYTES_MAX: usize = 8 * 1024;

async fn until<T: std::fmt::Debug>(what: &str, mut is: impl FnMut() -> Result<(), T>) {
    eventually(what, async || is()).await;
}

/// Texts of a row as long as a column takes them.
fn monster(id: i64) -> Record {
    // A control character takes six bytes in JSON.
    let text = "\u{1}é\"".repeat(1 << 20);
    Record {
        event_id: text.as_str().into(),
        event_type: Some(text.as_str().into()),
        aggregate_type: Some(text.as_str().into()),
        aggregate_id: Some(text.as_str().into()),
        topic: Some(text.as_str().into()),
        key: Some(text.as_str().into()),
        metadata: Some(format!(r#"{{"traceId":"{}"}}"#, "7".repeat(1 << 20)).into()),
        ..record_with_id(RecordId::Text(format!("{id}{text}").into()))
    }
}

fn record_with_id(id: RecordId) -> Record {
    Record {
        id,
        ..record(0, 10)
    }
}

#[tokio::test]
async fn no_line_of_the_log_grows_with_what_a_row_contains() {
    let answers = AtomicUsize::new(0);
    let publisher = Answering(move |message: &Message| {
        let reason = format!("no room for {}", message.topic);
        match answers.fetch_add(1, Ordering::Relaxed) % 4 {
            0 => Ok(()),
            1 => Err(PublishError::Failed { reason }),
            2 => Err(PublishError::Refused { reason }),
            _ => Err(PublishError::PartUnavailable {
                part: format!("topic {}", message.topic),
                reason,
                retry_after: Duration::from_secs(3600),
            }),
        }
    });
    let (lines, _guard) = capture("trace");
    let store = FakeStore::of((0..4).map(monster)).refuses_for(Duration::from_secs(3600));
    let relay = fake::relay(&store, publisher, Config::default());
    until("all fates", || match store.fates().len() {
        seen if seen >= 4 => Ok(()),
        seen => Err(seen),
    })
    .await;
    until("the lines", || match lines.read().len() {
        seen if seen >= 9 => Ok(()),
        seen => Err(seen),
    })
    .await;
    drop(relay);
    for line in lines.read() {
        let bytes = line.to_string().len();
        assert!(bytes < LINE_BYTES_MAX, "a line of {bytes} bytes");
    }
}

/// What the broker would never take is dead before anything is made of it, and its size is in the error.
#[tokio::test]
async fn a_record_over_the_brokers_limit_is_dead_without_a_message() {
    let store = FakeStore::of([record(1, 2_000_000), record(2, 10)]);
    let broker = MemoryBroker::default();
    let config = Config {
        message_bytes_max: Some(1_000_000),
        ..Config::default()
    };
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Counted {
        inner: broker.clone(),
        most: sent.clone(),
        ..Counted::default()
    };
    let relay = fake::relay(&store, counted, config);
    until_accepted(&broker, "t", 1).await;
    until("both are settled", || match store.fates().len() {
        2 => Ok(()),
        seen => Err(seen),
    })
    .await;
    drop(relay);
    assert!(sent.load(Ordering::Relaxed) < 1_000, "the payload was sent");
    let fates = store.fates();
    let Fate::Dead { error, .. } = &fates[0].1 else {
        panic!("{fates:?}");
    };
    assert!(
        error.contains("2000000") && error.contains("1000000"),
        "{error}"
    );
}

/// Notes how many bytes are with the broker at once.
#[derive(Default)]
struct Counted {
    inner: MemoryBroker,
    now: AtomicUsize,
    most: Arc<AtomicUsize>,
}

#[async_trait]
impl Publisher for Counted {
    async fn publish(&self, batch: &[Message], by: Duration) -> Vec<Result<(), PublishError>> {
        let bytes = batch.iter().map(Message::size).sum();
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(now, Ordering::Relaxed);
        // Time for the others to come.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let outcomes = self.inner.publish(batch, by).await;
        self.now.fetch_sub(bytes, Ordering::Relaxed);
        outcomes
    }

    async fn ping(&self) -> Result<(), PublishError> {
        Ok(())
    }
}

/// Workers share one budget of bytes, and of records that are larger than it only one is sent at a time.
#[tokio::test]
async fn the_claims_of_a_relay_share_one_budget_of_bytes() {
    let small = (0..1_000).map(|id| record(id, 10));
    let large = (1_000..1_030).map(|id| record(id, 100_000));
    let store = FakeStore::of(small.chain(large));
    let config = Config {
        batch: 20,
        batch_bytes: 60_000,
        claims: 3,
        ..Config::default()
    };
    let publisher = Counted::default();
    let (broker, most) = (publisher.inner.clone(), publisher.most.clone());
    let relay = fake::relay(&store, publisher, config);
    until_accepted(&broker, "t", 1_030).await;
    drop(relay);
    let most = most.load(Ordering::Relaxed);
    assert!(most < 200_000, "{most} bytes at once");
    let wants = store.wants();
    assert!(wants.iter().any(|want| want.share.of == 3), "nobody helped");
    for want in wants {
        assert_eq!(want.bytes, 60_000 / want.share.of as usize);
    }
}

#[tokio::test]
async fn the_first_claim_is_of_few_records() {
    let store = FakeStore::of((0..1_000).map(|id| record(id, 10)));
    let broker = MemoryBroker::default();
    let config = Config {
        claims: 1,
        ..Config::default()
    };
    let relay = fake::relay(&store, broker.clone(), config);
    until_accepted(&broker, "t", 1_000).await;
    drop(relay);
    let limits: Vec<u32> = store.wants().iter().map(|want| want.limit).collect();
    assert_eq!(limits[..4], [10, 40, 160, 640]);
}

/// However slow a look is: where it finds nothing, others would find nothing either, and make it slower.
#[tokio::test]
async fn a_slow_look_that_finds_nothing_calls_nobody() {
    let store = FakeStore::default().looks_for(Duration::from_millis(120));
    let relay = fake::relay(&store, MemoryBroker::default(), Config::default());
    until("some looks", || match store.wants().len() {
        looks if looks >= 5 => Ok(()),
        looks => Err(looks),
    })
    .await;
    drop(relay);
    for want in store.wants() {
        assert_eq!(want.share, Share::ALL);
    }
}

/// Many records that are all let go are no work for many.
#[tokio::test]
async fn a_full_claim_that_is_only_released_calls_nobody() {
    let store = FakeStore::of((0..100).map(|id| record(id, 10)));
    let untried = Answering(|_: &Message| Err(PublishError::Untried));
    let relay = fake::relay(&store, untried, Config::default());
    until("some looks", || match store.wants().len() {
        looks if looks >= 20 => Ok(()),
        looks => Err(looks),
    })
    .await;
    drop(relay);
    for want in store.wants() {
        assert_eq!(want.share, Share::ALL);
    }
}

#[tokio::test]
async fn a_store_is_tended_as_often_as_it_asks_and_no_more() {
    let again = Duration::from_millis(1);
    let away = |reason: &str| StoreError::Unavailable {
        reason: reason.into(),
        source: None,
    };
    let (lines, _guard) = capture("postrider=debug");
    let store = FakeStore::default().tends([
        Ok(Some(again)),
        Err(away("first")),
        Err(away("second")),
        Ok(Some(again)),
        Err(away("third")),
        Ok(None),
    ]);
    let config = Config {
        outage_backoff: postrider::core::Backoff::new(again, again),
        ..Config::default()
    };
    let relay = fake::relay(&store, MemoryBroker::default(), config);
    until("it is tended", || match store.tended() {
        6 => Ok(()),
        seen => Err(seen),
    })
    .await;
    // Anything else that takes its time: the store is not asked again meanwhile.
    let looks = store.wants().len();
    until("more looks", || match store.wants().len() {
        seen if seen >= looks + 10 => Ok(()),
        seen => Err(seen),
    })
    .await;
    drop(relay);
    assert_eq!(store.tended(), 6);
    let told: Vec<String> = lines
        .read()
        .iter()
        .filter_map(|line| line["reason"].as_str().map(ToOwned::to_owned))
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("first") && told[1].contains("third"),
        "{told:?}"
    );
}

/// A fate that the database refuses is counted each time and told once per wait.
#[tokio::test]
async fn a_refused_fate_is_counted_and_told_once_per_wait() {
    let (lines, _guard) = capture("postrider=info");
    let store = FakeStore::of([record(7, 10)]).refuses_for(Duration::from_secs(3600));
    let broker = MemoryBroker::default();
    let relay = fake::relay(&store, broker.clone(), Config::default());
    until("refused often", || {
        match metric(&relay.metrics, "postrider_refused_total", "outbox") {
            seen if seen >= 3.0 => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
    drop(relay);
    assert!(broker.accepted(&Topic::from("t")) >= 3);
    let told: Vec<_> = lines
        .read()
        .into_iter()
        .filter(|line| line["record_id"] == "7")
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["level"], "WARN");
    assert!(
        told[0]["reason"]
            .as_str()
            .unwrap()
            .starts_with("a trigger says no")
    );
}

/// What a store knows to be wrong is a figure too.
#[tokio::test]
async fn findings_of_the_store_are_counted() {
    use postrider::core::{Finding, Level};
    let finding = Finding::new(Level::Warning, "record 7", "its fate is refused");
    let store = FakeStore::default().finds(finding);
    let relay = fake::relay(&store, MemoryBroker::default(), Config::default());
    until("it is counted", || {
        match metric(&relay.metrics, "postrider_findings", "outbox") {
            1.0 => Ok(()),
            seen => Err(seen),
        }
    })
    .await;
}
