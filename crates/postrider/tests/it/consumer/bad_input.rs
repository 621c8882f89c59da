//! Messages that no handler should see, and handlers that no message should meet: each has its outcome, the consumer goes
//! on with the next message, and nothing is acknowledged unhandled.

use std::time::Duration;

use async_trait::async_trait;
use postrider::brokers::memory::MemoryConfig;
use postrider::consumer::middleware::{Inbox, Timeout, Transaction};
use postrider::consumer::{Builder, Context, Handlers};
use postrider::core::{Event, Handled, HandlerError, Header, Message};
use postrider::stores::postgres::Tx;
use uuid::Uuid;

use super::acting::{apply, note};
use super::settings::retry;
use super::world::{Running, World, until};
use crate::world::header;

/// A message that is wrong in one way, and what its dead letter says.
struct Bad {
    message: Message,
    error: &'static str,
}

fn bad_messages(world: &World) -> Vec<Bad> {
    let of = |body: &[u8]| world.message_of(Uuid::now_v7(), "k", body);
    let with = |name: &'static str, value: &'static [u8]| {
        let mut message = world.message(Uuid::now_v7(), "k", 1);
        message.headers.retain(|header| &*header.name != name);
        message.headers.push(Header {
            name: name.into(),
            value: bytes::Bytes::from_static(value),
        });
        message
    };
    let bad = |message, error| Bad { message, error };
    let mut empty = of(b"");
    empty.payload = None;
    vec![
        bad(with("event_id", b""), "inbox: message has no ID attribute"),
        bad(
            with("event_id", b"\xff\xfe"),
            "inbox: message has no ID attribute",
        ),
        bad(
            with("event_id", &[b'x'; 300]),
            "event id is longer than 255 bytes",
        ),
        bad(with("event_id", b"a\nb"), "event id has control characters"),
        bad(
            with("event_type", b"order.exploded"),
            "no handler for event type order.exploded",
        ),
        bad(
            with("event_type", b"\xff"),
            "message does not say its event type",
        ),
        bad(with("version", b"2"), "order.placed is of version 2, not 1"),
        bad(of(b"not json"), "payload of order.placed does not decode"),
        bad(
            of(br#"{"order": 1"#),
            "payload of order.placed does not decode: it ends too early",
        ),
        bad(
            of(br#"{"order": "one"}"#),
            "payload of order.placed does not decode: a value does not fit",
        ),
        bad(of(b"[1, 2]"), "payload of order.placed does not decode"),
        bad(
            of(b"\xff\xfe\x00"),
            "payload of order.placed does not decode",
        ),
        bad(empty, "payload of order.placed does not decode"),
    ]
}

/// What most services have around their handler.
pub(super) fn chain(world: &World, builder: Builder) -> Builder<Tx> {
    let limit = Timeout(Duration::from_millis(300));
    builder
        .with(Transaction::new(world.transactions()))
        .with(limit)
        .with(Inbox::new(world.inbox()))
}

/// Each is dead-lettered with its reason and the next message of its key is handled, one by one and in a batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_message_is_dead_lettered_and_the_next_one_handled() {
    for batch in [1, 50] {
        let world = World::new().await;
        let bad = bad_messages(&world);
        let mut good = 0;
        for bad in &bad {
            good += 1;
            world
                .publish(&[
                    bad.message.clone(),
                    world.message(Uuid::now_v7(), "k", 100 + good),
                ])
                .await;
        }
        let transaction = Transaction::new(world.transactions()).batch(batch);
        let builder = world
            .consumer()
            .with(world.dead_letter())
            .with(retry())
            .with(transaction);
        let running = Running::start(
            builder
                .with(Inbox::new(world.inbox()))
                .handle(Handlers::new().on(apply)),
        );
        world.until_all_acknowledged().await;
        running.stop().await;
        assert_eq!(world.applied().await, Vec::from_iter(101..=100 + good));
        let dead = world.dead();
        assert_eq!(dead.len(), bad.len());
        for (dead, bad) in dead.iter().zip(&bad) {
            let error = header(dead, "dlt_error_message").unwrap();
            assert!(error.contains(bad.error), "{error:?} for {:?}", bad.error);
        }
        assert_eq!(
            world.metric("retried_total"),
            0.0,
            "nothing of this would get better"
        );
    }
}

/// Without a dead-letter topic nothing of it is acknowledged: it comes again, to the next consumer too.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_dead_letter_topic_a_bad_message_is_never_acknowledged() {
    let world = World::new().await;
    let mut bad = bad_messages(&world);
    for (index, bad) in bad.iter_mut().enumerate() {
        bad.message.key = Some(format!("bad-{index}").into());
    }
    let messages: Vec<Message> = bad.into_iter().map(|bad| bad.message).collect();
    let count = u64::try_from(messages.len()).unwrap();
    world.publish(&messages).await;
    for good in [1, 2] {
        let running =
            Running::start(chain(&world, world.consumer()).handle(Handlers::new().on(apply)));
        world.place("k", [good]).await;
        world.until_effects(good).await;
        until("each came again", true, async || {
            world.metric("given_back_total") >= (count * 2) as f64
        })
        .await;
        running.stop().await;
        assert_eq!(world.unacknowledged().await, count);
    }
}

/// Types that are ignored by name, or all others, are done with as they are.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_event_type_may_be_ignored() {
    let world = World::new().await;
    let mut unknown = world.message(Uuid::now_v7(), "k", 1);
    unknown.headers[1] = Header::new("event_type", "order.exploded");
    world.publish(&[unknown]).await;
    let consumer = chain(&world, world.consumer().with(world.dead_letter()));
    let running = Running::start(consumer.handle(Handlers::new().on(apply).ignore_others()));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!((world.effects().await, world.dead().len()), (0, 0));
}

async fn count_bytes(
    ctx: &mut Context<Tx>,
    event: Event<serde_json::Value>,
) -> Result<(), HandlerError> {
    let length = event.payload["pad"].as_str().map_or(0, str::len);
    note(ctx.tx(), event.id.as_str(), i64::try_from(length)?).await
}

/// Ten megabytes are handled like ten bytes, and headers that are not text are nobody's business.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_ten_megabytes_and_headers_of_bytes_are_handled() {
    const PAD: usize = 10 << 20;
    let large = MemoryConfig {
        message_bytes_max: 32 << 20,
        ..MemoryConfig::default()
    };
    let world = World::with(large.clone(), large).await;
    let mut message = world.message_of(
        Uuid::now_v7(),
        "k",
        format!(r#"{{"pad":"{}"}}"#, "x".repeat(PAD)),
    );
    message.headers.push(Header {
        name: "traceparent".into(),
        value: bytes::Bytes::from_static(b"\xff\xfe"),
    });
    message.headers[1] = Header::new("event_type", "padded");
    world.publish(&[message.clone(), message]).await;
    let running =
        Running::start(chain(&world, world.consumer().with(world.dead_letter())).handle(Padded));
    world.until_all_acknowledged().await;
    running.stop().await;
    assert_eq!(world.applied().await, [i64::try_from(PAD).unwrap()]);
}

/// A handler that is a type, as a user with state of their own writes it.
struct Padded;

impl postrider::consumer::IntoHandler<Tx, Padded> for Padded {
    fn into_handler(self) -> std::sync::Arc<dyn postrider::consumer::Handler<Tx>> {
        std::sync::Arc::new(self)
    }
}

#[async_trait]
impl postrider::consumer::Handler<Tx> for Padded {
    async fn handle(&self, ctx: &mut Context<Tx>) -> Result<Handled, HandlerError> {
        let event = ctx
            .opened()?
            .event(ctx.message())
            .map_err(HandlerError::permanent)?;
        count_bytes(ctx, event).await?;
        Ok(Handled::Applied)
    }
}
