//! The model and the seams of Postrider. No I/O, no runtime, no drivers: what is decided here is
//! decided by pure functions, and what touches the world is a trait that another crate implements.

pub mod backoff;
pub mod broker;
pub mod delivery;
pub mod envelope;
pub mod event;
pub mod fate;
pub mod handler;
pub mod id;
pub mod inbox;
pub mod layout;
pub mod opening;
pub mod operate;
pub mod readback;
pub mod record;
pub mod routing;
pub mod store;
pub mod text;
pub mod time;

/// Text that is cheap to clone; records are made of it.
pub use bytestring::ByteString;

pub use backoff::Backoff;
pub use broker::{Header, Message, PublishError, Publisher};
pub use delivery::{Delivery, Receipt, SubscribeError, Subscription};
pub use event::{Emitted, Event};
pub use fate::{Failure, Fate, OnDead, RetryPolicy};
pub use handler::{Handled, HandlerError};
pub use id::{EventId, MessageKey, RecordId, Topic};
pub use inbox::{
    Admission, Arrival, IdempotencyStore, InboxStore, OutboxWriter, Owner, ParkedKeys, Reservation,
    Room, Transactions,
};
pub use layout::{Layout, LayoutError, Ordering};
pub use opening::{OpenError, Opened, Opening};
pub use operate::{
    Act, Actor, Audit, Audited, Cursor, DeadLetters, Diagnosis, Finding, Level, Limits,
    ManagedStore, Page, ParkedKey, RecordFilter, RecordState, Records, StoredRecord,
};
pub use readback::{KeptMessage, Readback, ReadbackError, Reading};
pub use record::Record;
pub use routing::{EventPayload, Route, RouteError, Router, Routes};
pub use store::{Backlog, Claim, OutboxStore, Purge, Refused, Settled, Share, StoreError, Want};
pub use time::Timestamp;

/// Any source error, kept for its chain of causes.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;
