//! Handlers: async functions of a context and a typed event.

use std::any::TypeId;
use std::collections::HashMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use postrider_core::{Event, EventPayload, Handled, HandlerError, text};

use super::middleware::transaction::UNCAPTURED;
use super::{Context, Handler};

/// What a handler may return beside an error: nothing, or events for `CaptureOutbox`.
pub trait Outputs: Send {
    fn into_events(self) -> Vec<Event>;
}

impl Outputs for () {
    fn into_events(self) -> Vec<Event> {
        Vec::new()
    }
}

impl Outputs for Event {
    fn into_events(self) -> Vec<Event> {
        vec![self]
    }
}

impl Outputs for Option<Event> {
    fn into_events(self) -> Vec<Event> {
        self.into_iter().collect()
    }
}

impl Outputs for Vec<Event> {
    fn into_events(self) -> Vec<Event> {
        self
    }
}

/// An `async fn(&mut Context<T>, Event<P>) -> Result<O, HandlerError>`. Implemented by such functions; nothing
/// else needs to.
pub trait HandlerFn<'a, T, P, O>: Send + Sync + 'static {
    type Future: Future<Output = Result<O, HandlerError>> + Send + 'a;

    fn call(&self, ctx: &'a mut Context<T>, event: Event<P>) -> Self::Future;
}

impl<'a, T, P, F, Fut, O> HandlerFn<'a, T, P, O> for F
where
    T: 'a,
    F: Fn(&'a mut Context<T>, Event<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, HandlerError>> + Send + 'a,
{
    type Future = Fut;

    fn call(&self, ctx: &'a mut Context<T>, event: Event<P>) -> Fut {
        self(ctx, event)
    }
}

/// A handler that also gets a clone of some state, a pool or a client, before its other arguments:
/// `async fn(State, &mut Context<T>, Event<P>) -> Result<O, HandlerError>`.
pub fn with_state<S, F>(state: S, run: F) -> WithState<S, F> {
    WithState { state, run }
}

pub struct WithState<S, F> {
    state: S,
    run: F,
}

impl<'a, T, P, S, F, Fut, O> HandlerFn<'a, T, P, O> for WithState<S, F>
where
    T: 'a,
    S: Clone + Send + Sync + 'static,
    F: Fn(S, &'a mut Context<T>, Event<P>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, HandlerError>> + Send + 'a,
{
    type Future = Fut;

    fn call(&self, ctx: &'a mut Context<T>, event: Event<P>) -> Fut {
        (self.run)(self.state.clone(), ctx, event)
    }
}

/// What `handle` takes: a typed handler function, [`raw`], or [`Handlers`] for several event types.
pub trait IntoHandler<T, Marker> {
    fn into_handler(self) -> Arc<dyn Handler<T>>;
}

impl<T, P, O, F> IntoHandler<T, fn(P) -> O> for F
where
    T: Send + 'static,
    P: EventPayload + Send + 'static,
    O: Outputs + 'static,
    F: for<'a> HandlerFn<'a, T, P, O>,
{
    fn into_handler(self) -> Arc<dyn Handler<T>> {
        Arc::new(Typed {
            run: self,
            signature: PhantomData,
        })
    }
}

/// A handler that takes every event with its payload as bytes, whatever its type.
pub fn raw<F>(run: F) -> Raw<F> {
    Raw(run)
}

pub struct Raw<F>(F);

impl<T, O, F> IntoHandler<T, fn() -> O> for Raw<F>
where
    T: Send + 'static,
    O: Outputs + 'static,
    F: for<'a> HandlerFn<'a, T, Bytes, O>,
{
    fn into_handler(self) -> Arc<dyn Handler<T>> {
        Arc::new(Untyped {
            run: self.0,
            output: PhantomData,
        })
    }
}

struct Untyped<F, O> {
    run: F,
    output: PhantomData<fn() -> O>,
}

#[async_trait]
impl<T, O, F> Handler<T> for Untyped<F, O>
where
    T: Send + 'static,
    O: Outputs + 'static,
    F: for<'a> HandlerFn<'a, T, Bytes, O>,
{
    async fn handle(&self, ctx: &mut Context<T>) -> Result<Handled, HandlerError> {
        let event = ctx
            .opened()?
            .raw_event(ctx.message())
            .map_err(HandlerError::permanent)?;
        let outputs = self.run.call(ctx, event).await?;
        done(ctx, outputs)
    }
}

/// A handler for one type of event.
struct Typed<F, P, O> {
    run: F,
    signature: PhantomData<fn(P) -> O>,
}

#[async_trait]
impl<T, F, P, O> Handler<T> for Typed<F, P, O>
where
    T: Send + 'static,
    P: EventPayload + Send + 'static,
    O: Outputs + 'static,
    F: for<'a> HandlerFn<'a, T, P, O>,
{
    async fn handle(&self, ctx: &mut Context<T>) -> Result<Handled, HandlerError> {
        let event = ctx
            .opened()?
            .typed_event::<P>(ctx.message())
            .map_err(HandlerError::permanent)?;
        let outputs = self.run.call(ctx, event).await?;
        done(ctx, outputs)
    }
}

fn done<T: 'static>(ctx: &mut Context<T>, outputs: impl Outputs) -> Result<Handled, HandlerError> {
    for event in outputs.into_events() {
        ctx.emit(event);
    }
    // Inside a transaction its end sees to that.
    if TypeId::of::<T>() == TypeId::of::<()>() && !ctx.take_outputs().is_empty() {
        return Err(HandlerError::permanent(UNCAPTURED));
    }
    Ok(Handled::Applied)
}

/// Handlers by event type. An event that none of them is for is a permanent error, unless it is ignored
/// by name or [`Self::ignore_others`] says so: nothing is acknowledged unhandled by accident.
pub struct Handlers<T = ()> {
    by_type: HashMap<String, Arc<dyn Handler<T>>>,
    ignore_others: bool,
}

impl<T: Send + 'static> Default for Handlers<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + 'static> Handlers<T> {
    pub fn new() -> Self {
        Self {
            by_type: HashMap::new(),
            ignore_others: false,
        }
    }

    /// A handler for the event type that its payload names.
    #[must_use]
    pub fn on<P, O, F>(mut self, run: F) -> Self
    where
        P: EventPayload + Send + 'static,
        O: Outputs + 'static,
        F: for<'a> HandlerFn<'a, T, P, O>,
    {
        self.by_type
            .insert(P::EVENT_TYPE.into(), run.into_handler());
        self
    }

    /// Events of this type are done with as they are.
    #[must_use]
    pub fn ignore(mut self, event_type: impl Into<String>) -> Self {
        self.by_type.insert(event_type.into(), Arc::new(Ignored));
        self
    }

    /// So are events of any type that has no handler.
    #[must_use]
    pub fn ignore_others(mut self) -> Self {
        self.ignore_others = true;
        self
    }
}

impl<T: Send + 'static> IntoHandler<T, ()> for Handlers<T> {
    fn into_handler(self) -> Arc<dyn Handler<T>> {
        Arc::new(self)
    }
}

#[async_trait]
impl<T: Send + 'static> Handler<T> for Handlers<T> {
    async fn handle(&self, ctx: &mut Context<T>) -> Result<Handled, HandlerError> {
        let event_type = ctx.opened()?.event_type.as_deref();
        match event_type.and_then(|name| self.by_type.get(name)) {
            Some(handler) => handler.handle(ctx).await,
            None if self.ignore_others => Ok(Handled::Applied),
            None => Err(HandlerError::permanent(match event_type {
                Some(name) => format!("no handler for event type {}", text::bounded(name, 100)),
                None => "message does not say its event type".to_owned(),
            })),
        }
    }
}

struct Ignored;

#[async_trait]
impl<T: Send + 'static> Handler<T> for Ignored {
    async fn handle(&self, _ctx: &mut Context<T>) -> Result<Handled, HandlerError> {
        Ok(Handled::Applied)
    }
}
