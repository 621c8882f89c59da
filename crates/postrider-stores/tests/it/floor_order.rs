//! Order per key while records fail, wait, die and are resent below a floor that several relays
//! raise for themselves.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures::future::{join, join_all};
use postrider_core::{Actor, DeadLetters as _, Fate, OutboxStore as _, Record, RecordId};
use postrider_stores::postgres::PostgresStore;

use crate::floor::{ALL, ORDERED, dead, drawn, waits};
use crate::world::{World, world};

const RECORDS: usize = 300;
const KEYS: usize = 6;
const RELAYS: usize = 3;
const DEADLINE: Duration = Duration::from_secs(120);

/// What the broker would have, and who is dead.
#[derive(Default)]
struct Log {
    published: Vec<usize>,
    dead: Vec<RecordId>,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_keeps_the_order_of_keys_above_what_is_stuck() {
    keeps_order(ORDERED[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timestamp_keeps_the_order_of_keys_above_what_is_stuck() {
    keeps_order(ORDERED[1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_keeps_the_order_of_keys_above_what_is_stuck() {
    keeps_order(ORDERED[2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_keep_the_order_of_keys_above_what_is_stuck() {
    keeps_order(ORDERED[3]).await;
}

async fn keeps_order((preset, overrides, how): (&str, &str, &str)) {
    let world = world(preset, overrides).await;
    let log = Mutex::new(Log::default());
    let relays = join_all((0..RELAYS).map(|_| relay(&world, &log)));
    join(write(&world, how), relays).await;
    let published = log.into_inner().unwrap().published;
    let mut by_key: HashMap<usize, Vec<usize>> = HashMap::new();
    for number in &published {
        by_key.entry(number % KEYS).or_default().push(*number);
    }
    for (key, numbers) in by_key {
        assert!(numbers.is_sorted(), "{preset}: key {key}: {numbers:?}");
    }
    assert_eq!(
        published.len(),
        RECORDS,
        "{preset}: none is published twice"
    );
}

async fn write(world: &World, how: &str) {
    for number in 0..RECORDS {
        let how = how.replace("{key}", &format!("'k{}'", number % KEYS));
        let insert = format!("{how} FROM generate_series({number}, {number}) AS n");
        world.database.execute(&insert).await;
        // In the course of some seconds, so that floors are raised meanwhile.
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

async fn relay(world: &World, log: &Mutex<Log>) {
    let store = drawn(world);
    let began = Instant::now();
    while log.lock().unwrap().published.len() < RECORDS {
        assert!(
            began.elapsed() < DEADLINE,
            "{:?}",
            log.lock().unwrap().published
        );
        store.tend().await.unwrap();
        resend_one(&store, log).await;
        // Two claims may wait for one another's rows, or for a lane.
        let Ok(Some(claim)) = store.claim(ALL).await else {
            continue;
        };
        let fates = fates(claim.records(), log);
        claim.settle(&fates).await.unwrap();
    }
}

/// As a relay decides: after a failure nothing else of its key is published.
fn fates(records: &[Record], log: &Mutex<Log>) -> Vec<Fate> {
    let mut failed = HashSet::new();
    let mut log = log.lock().unwrap();
    let mut fate = |record: &Record| {
        let payload = record.payload.as_deref().unwrap();
        let payload: serde_json::Value = serde_json::from_slice(payload).unwrap();
        let number = payload["n"].as_u64().unwrap() as usize;
        if failed.contains(&(number % KEYS)) {
            return Fate::Released;
        }
        match fastrand::u32(0..100) {
            0..12 => {
                failed.insert(number % KEYS);
                waits(Duration::from_millis(fastrand::u64(0..1500)))
            }
            12..15 => {
                failed.insert(number % KEYS);
                log.dead.push(record.id.clone());
                dead()
            }
            _ => {
                log.published.push(number);
                Fate::Published
            }
        }
    };
    records.iter().map(&mut fate).collect()
}

/// Some time after its death, as an operator would.
async fn resend_one(store: &PostgresStore, log: &Mutex<Log>) {
    if fastrand::u32(0..40) > 0 {
        return;
    }
    let Some(id) = log.lock().unwrap().dead.pop() else {
        return;
    };
    let me = Actor("me".into());
    let resent = store.resend(std::slice::from_ref(&id), &me).await;
    if !matches!(resent, Ok(1)) {
        // Its claim is not settled yet.
        log.lock().unwrap().dead.push(id);
    }
}
