//! Putting a consumer together. The type of the builder knows whether it stands inside a transaction.

use std::sync::Arc;

use postrider_core::{Subscription, Transactions};

use super::chain::Chain;
use super::middleware::transaction::{Transacted, Transaction};
use super::{Config, Consumer, Handler, IntoHandler, Middleware};
use crate::Metrics;

/// A consumer in the making. `T` is the transaction around what comes next, `()` while there is none.
pub struct Builder<T = ()> {
    pub(super) parts: Parts,
    middlewares: Vec<Arc<dyn Middleware<T>>>,
    /// Puts what stands before the transaction in front of it.
    close: Box<dyn FnOnce(Chain<T>) -> Chain<()> + Send>,
}

/// Everything but the chain.
pub(super) struct Parts {
    pub(super) name: Arc<str>,
    pub(super) subscription: Arc<dyn Subscription>,
    pub(super) config: Config,
    pub(super) metrics: Metrics,
    /// Deliveries that may share a transaction.
    pub(super) batch: usize,
}

/// What `with` takes: a middleware for the scope, or a transaction, which opens another scope.
pub trait Link<T>: Sized {
    type Scope;
    fn add_to(self, builder: Builder<T>) -> Builder<Self::Scope>;
}

impl<T: Send + 'static, M: Middleware<T>> Link<T> for M {
    type Scope = T;

    fn add_to(self, mut builder: Builder<T>) -> Builder<T> {
        builder.middlewares.push(Arc::new(self));
        builder
    }
}

impl<S: Transactions> Link<()> for Transaction<S> {
    type Scope = S::Tx;

    fn add_to(self, builder: Builder) -> Builder<S::Tx> {
        let Builder {
            mut parts,
            middlewares,
            close,
        } = builder;
        parts.batch = self.batch_max();
        let close = Box::new(move |inner: Chain<S::Tx>| {
            close(Chain {
                middlewares,
                end: Arc::new(Transacted::new(self, inner)),
            })
        });
        Builder {
            parts,
            middlewares: Vec::new(),
            close,
        }
    }
}

impl Builder {
    pub(super) fn new(name: Arc<str>, subscription: Arc<dyn Subscription>) -> Self {
        Self {
            parts: Parts {
                name,
                subscription,
                config: Config::default(),
                metrics: Metrics::new(),
                batch: 1,
            },
            middlewares: Vec::new(),
            close: Box::new(|chain| chain),
        }
    }
}

impl<T: Send + 'static> Builder<T> {
    /// Adds a middleware, or a transaction. The order written is the order in which a delivery meets them.
    pub fn with<L: Link<T>>(self, link: L) -> Builder<L::Scope> {
        link.add_to(self)
    }

    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.parts.config = config;
        self
    }

    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.parts.metrics = metrics.clone();
        self
    }

    /// Ends the chain.
    pub fn handle<Marker>(self, handler: impl IntoHandler<T, Marker>) -> Consumer {
        self.end(handler.into_handler())
    }

    pub(super) fn end(self, end: Arc<dyn Handler<T>>) -> Consumer {
        let chain = (self.close)(Chain {
            middlewares: self.middlewares,
            end,
        });
        Consumer::new(self.parts, chain)
    }

    pub(super) fn add(&mut self, middleware: Arc<dyn Middleware<T>>) {
        self.middlewares.push(middleware);
    }
}
