//! A handler that does what the test tells it: always its write first, then whatever is to go wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use futures::future::BoxFuture;
use postrider::consumer::{Context, HandlerFn};
use postrider::core::{Event, HandlerError};
use postrider::stores::postgres::{PgPool, Tx};
use tokio::sync::Semaphore;

use super::world::{Placed, World};

/// How a call ends.
#[derive(Clone)]
pub(crate) enum Act {
    Apply,
    Temporary,
    Permanent,
    Panic,
    /// Never ends.
    Hang,
    /// Applies when the gate opens.
    Wait(Gate),
}

/// Where a handler waits for the test.
#[derive(Clone)]
pub(crate) struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            reached: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
        }
    }

    /// Returns when another handler has come to the gate.
    pub(crate) async fn reached(&self) {
        let reached =
            tokio::time::timeout(std::time::Duration::from_secs(30), self.reached.acquire());
        reached.await.expect("a handler comes").unwrap().forget();
    }

    /// Lets through whoever is here or comes later.
    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }

    pub(crate) async fn pass(&self) {
        self.reached.add_permits(1);
        // The permit goes back for the next.
        drop(self.open.acquire().await.unwrap());
    }
}

/// Decides by the order, and by how many calls there were for it, this one included.
type Script = dyn Fn(i64, usize) -> Act + Send + Sync;

#[derive(Clone)]
pub(crate) struct Acting {
    pool: PgPool,
    script: Arc<Script>,
    calls: Arc<Mutex<HashMap<i64, Vec<Instant>>>>,
}

impl Acting {
    pub(crate) fn new(
        world: &World,
        script: impl Fn(i64, usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::on(world.database.pool.clone(), script)
    }

    pub(crate) fn on(
        pool: PgPool,
        script: impl Fn(i64, usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self {
            pool,
            script: Arc::new(script),
            calls: Arc::default(),
        }
    }

    /// When the handler was called for an order.
    pub(crate) fn calls(&self, order: i64) -> Vec<Instant> {
        self.calls
            .lock()
            .unwrap()
            .get(&order)
            .cloned()
            .unwrap_or_default()
    }

    fn count(&self, order: i64) -> usize {
        let mut calls = self.calls.lock().unwrap();
        let calls = calls.entry(order).or_default();
        calls.push(Instant::now());
        calls.len()
    }

    async fn act(&self, order: i64, act: Act) -> Result<(), HandlerError> {
        match act {
            Act::Apply => Ok(()),
            Act::Temporary => Err(HandlerError::temporary(format!(
                "order {order} fails for now"
            ))),
            Act::Permanent => Err(HandlerError::permanent(format!(
                "order {order} is impossible"
            ))),
            Act::Panic => panic!("order {order} is a trap"),
            Act::Hang => std::future::pending().await,
            Act::Wait(gate) => {
                gate.pass().await;
                Ok(())
            }
        }
    }
}

impl<'a, T: Writes> HandlerFn<'a, T, Placed, ()> for Acting {
    type Future = BoxFuture<'a, Result<(), HandlerError>>;

    fn call(&self, ctx: &'a mut Context<T>, event: Event<Placed>) -> Self::Future {
        let acting = self.clone();
        Box::pin(async move {
            let order = event.payload.order;
            let act = (acting.script)(order, acting.count(order));
            let in_transaction = T::note(ctx, event.id.as_str(), order).await?;
            acting.act(order, act).await?;
            if !in_transaction {
                let (mut connection, id) = (acting.pool.acquire().await?, event.id.as_str());
                note(&mut connection, id, order).await?;
            }
            Ok(())
        })
    }
}

/// A scope that a handler writes its effect in.
#[async_trait]
pub(crate) trait Writes: Send + Sized + 'static {
    /// False where there is no transaction to write it in.
    async fn note(
        ctx: &mut Context<Self>,
        event_id: &str,
        order: i64,
    ) -> Result<bool, HandlerError>;
}

#[async_trait]
impl Writes for Tx {
    async fn note(
        ctx: &mut Context<Self>,
        event_id: &str,
        order: i64,
    ) -> Result<bool, HandlerError> {
        note(ctx.tx(), event_id, order).await?;
        Ok(true)
    }
}

#[async_trait]
impl Writes for () {
    async fn note(_ctx: &mut Context<Self>, _id: &str, _order: i64) -> Result<bool, HandlerError> {
        Ok(false)
    }
}

/// Writes down that a handler ran.
pub(crate) async fn note(
    connection: &mut sqlx::PgConnection,
    event_id: &str,
    order: i64,
) -> Result<(), HandlerError> {
    sqlx::query("INSERT INTO effects (event_id, order_id) VALUES ($1, $2)")
        .bind(event_id)
        .bind(order)
        .execute(connection)
        .await?;
    Ok(())
}

/// The handler of most tests: it applies what it gets.
pub(crate) async fn apply(ctx: &mut Context<Tx>, event: Event<Placed>) -> Result<(), HandlerError> {
    note(ctx.tx(), event.id.as_str(), event.payload.order).await
}

/// The same with two events as its outputs.
pub(crate) async fn follow_up(
    ctx: &mut Context<Tx>,
    event: Event<Placed>,
) -> Result<Vec<Event>, HandlerError> {
    note(ctx.tx(), event.id.as_str(), event.payload.order).await?;
    let output =
        |event_type: &str| Event::raw(event_type, br#"{"a":1}"#.to_vec()).topic(FOLLOW_UPS);
    Ok(vec![output("first"), output("second")])
}

pub(crate) const FOLLOW_UPS: &str = "follow-ups";
