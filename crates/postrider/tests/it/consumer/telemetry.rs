//! What metrics and logs say of a consumer at work.

use postrider::consumer::Consumer;
use postrider::consumer::middleware::{Inbox, Trace, Transaction};
use postrider::core::Message;
use serde_json::Value;
use uuid::Uuid;

use super::acting::{Act, Acting, Gate};
use super::settings::retry;
use super::world::{Running, World, until};
use crate::logs::capture;

/// One is applied, one comes twice, one is retried, one is dead-lettered, one is given back once.
fn all_fates(world: &World) -> (Consumer, Vec<Message>) {
    let acting = Acting::new(world, |order, call| match (order, call) {
        (2, 1) | (4, 1..=3) => Act::Temporary,
        (3, _) => Act::Permanent,
        _ => Act::Apply,
    });
    let chain = world
        .consumer()
        .with(Trace)
        .with(world.dead_letter())
        .with(retry());
    let chain = chain
        .with(Transaction::new(world.transactions()))
        .with(Inbox::new(world.inbox()));
    let body = |order| format!(r#"{{"order":{order},"card":"4111-secret-1111"}}"#);
    let message = |order| world.message_of(Uuid::now_v7(), &format!("k{order}"), body(order));
    let mut messages: Vec<Message> = (1..=4).map(message).collect();
    messages.push(messages[0].clone());
    (chain.handle(acting), messages)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_figure_of_a_consumer_is_there_and_right() {
    let world = World::new().await;
    let (consumer, messages) = all_fates(&world);
    world.publish(&messages).await;
    let running = Running::start(consumer);
    world.until_all_acknowledged().await;
    running.stop().await;
    let figures = [
        ("handled_total", 3.0),
        ("duplicates_total", 1.0),
        ("dead_lettered_total", 1.0),
        // Once for order 2; order 4 is tried three times, given back, and succeeds.
        ("retried_total", 3.0),
        ("given_back_total", 1.0),
        ("in_flight", 0.0),
        ("handle_seconds_count", 6.0),
    ];
    for (name, value) in figures {
        assert_eq!(world.metric(name), value, "{name}");
    }
    for name in figures
        .map(|(name, _)| name)
        .iter()
        .chain(&["lag", "batch_fallbacks_total"])
    {
        let line = format!("postrider_consumer_{name}{{consumer=\"payments\"}}");
        assert!(world.metrics.encode().contains(&line), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lag_and_deliveries_in_hand_follow_the_work() {
    let world = World::new().await;
    let gate = Gate::new();
    let hold = gate.clone();
    let acting = Acting::new(&world, move |_, _| Act::Wait(hold.clone()));
    let running = Running::start(
        world
            .consumer()
            .with(Transaction::new(world.transactions()))
            .handle(acting),
    );
    world.place("k", 1..=5).await;
    gate.reached().await;
    until("one in hand", 1.0, async || world.metric("in_flight")).await;
    until("five wait", 5.0, async || world.metric("lag")).await;
    gate.open();
    until("none waits", 0.0, async || world.metric("lag")).await;
    until("none in hand", 0.0, async || world.metric("in_flight")).await;
    running.stop().await;
}

/// Every line about a delivery has its event's id, and none has anything of a payload.
#[tokio::test]
async fn lines_name_the_event_and_hold_no_payload() {
    let world = World::new().await;
    let (lines, _guard) = capture("trace,sqlx=off");
    let (consumer, messages) = all_fates(&world);
    world.publish(&messages).await;
    let running = Running::start(consumer);
    world.until_all_acknowledged().await;
    running.stop().await;
    let lines = lines.read();
    for line in &lines {
        assert!(!line.to_string().contains("secret"), "{line}");
    }
    let about: Vec<&Value> = lines
        .iter()
        .filter(|line| line["target"] == "postrider::event")
        .collect();
    assert!(
        about
            .iter()
            .all(|line| line["event_id"].is_string() && line["consumer"] == "payments"),
        "{about:?}"
    );
    let said = |order: usize| -> Vec<(&str, &str)> {
        let id = crate::world::header(&messages[order - 1], "event_id").unwrap();
        let of = about.iter().filter(|line| line["event_id"] == id);
        of.map(|line| {
            (
                line["level"].as_str().unwrap(),
                line["message"].as_str().unwrap(),
            )
        })
        .collect()
    };
    let handled = ("DEBUG", "handled");
    let again = ("INFO", "failed, is tried again");
    assert_eq!(said(1), [handled, handled]);
    assert_eq!(said(2), [again, handled]);
    assert_eq!(said(3), [("ERROR", "dead-lettered"), handled]);
    assert_eq!(
        said(4),
        [
            again,
            again,
            ("WARN", "not handled, is given back"),
            handled
        ]
    );
}
