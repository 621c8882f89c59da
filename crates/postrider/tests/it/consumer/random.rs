//! Events that fail in random ways, against a model of what must come of them.

use std::collections::HashMap;

use postrider::consumer::Config;
use postrider::consumer::middleware::{Inbox, Retry, Transaction};
use uuid::Uuid;

use super::acting::{Act, Acting};
use super::settings::{config, quick};
use super::world::{Running, World, json};

const EVENTS: i64 = 300;
const KEYS: i64 = 10;

/// What is wrong with an event: nothing, so many failures or panics, or everything.
#[derive(Debug, Clone, Copy)]
enum Flaw {
    Fine,
    Fails(usize),
    Panics(usize),
    Impossible,
}

fn flaw(random: &mut u64) -> Flaw {
    // xorshift: the same seed gives the same run.
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let times = usize::try_from(*random / 100 % 7).unwrap() + 1;
    match *random % 100 {
        0..80 => Flaw::Fine,
        80..90 => Flaw::Fails(times),
        90..95 => Flaw::Panics(times),
        _ => Flaw::Impossible,
    }
}

/// Exactly once, in order per key, and what is impossible is dead-lettered, whatever else happens around it.
async fn survives_random_flaws(batch: usize, workers: usize, seed: u64) {
    let world = World::new().await;
    let mut random = seed;
    let flaws: HashMap<i64, Flaw> = (1..=EVENTS)
        .map(|order| (order, flaw(&mut random)))
        .collect();
    let told = flaws.clone();
    let acting = Acting::new(&world, move |order, call| match told[&order] {
        Flaw::Fails(times) if call <= times => Act::Temporary,
        Flaw::Panics(times) if call <= times => Act::Panic,
        Flaw::Impossible => Act::Permanent,
        _ => Act::Apply,
    });
    let message = |order: i64| world.message(Uuid::now_v7(), &format!("k{}", order % KEYS), order);
    let mut messages: Vec<_> = (1..=EVENTS).map(message).collect();
    // Every third comes twice.
    let again: Vec<_> = messages.iter().step_by(3).cloned().collect();
    messages.extend(again);
    world.publish(&messages).await;
    let chain = world.consumer().config(Config {
        workers,
        ..config()
    });
    let chain = chain.with(world.dead_letter()).with(Retry {
        tries: 3,
        backoff: quick(),
    });
    let chain = chain
        .with(Transaction::new(world.transactions()).batch(batch))
        .with(Inbox::new(world.inbox()));
    let running = Running::start(chain.handle(acting));
    world.until_all_acknowledged().await;
    running.stop().await;

    let mut dead: Vec<i64> = world
        .dead()
        .iter()
        .map(|letter| json(letter)["originalEvent"]["order"].as_i64().unwrap())
        .collect();
    dead.sort_unstable();
    dead.dedup();
    let impossible = |order: &i64| matches!(flaws[order], Flaw::Impossible);
    assert_eq!(
        dead,
        (1..=EVENTS).filter(impossible).collect::<Vec<_>>(),
        "seed {seed}"
    );
    let applied = world.applied().await;
    for key in 0..KEYS {
        let of_key: Vec<i64> = applied
            .iter()
            .copied()
            .filter(|order| order % KEYS == key)
            .collect();
        let model: Vec<i64> = (1..=EVENTS)
            .filter(|order| order % KEYS == key && !impossible(order))
            .collect();
        assert_eq!(of_key, model, "key {key}, seed {seed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_flaws_one_by_one() {
    survives_random_flaws(1, 4, fastrand::u64(1..)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_flaws_in_batches() {
    survives_random_flaws(20, 4, fastrand::u64(1..)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_flaws_in_the_batches_of_one_worker() {
    survives_random_flaws(20, 1, fastrand::u64(1..)).await;
}
