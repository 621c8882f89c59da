//! The middlewares that come with Postrider, one file each. The order in this list is the order in which a chain
//! usually has them.

mod ack;
mod capture_outbox;
mod dead_letter;
mod inbox;
mod redis_idempotency;
mod retry;
mod timeout;
mod trace;
pub(super) mod transaction;

pub use ack::Ack;
pub use capture_outbox::CaptureOutbox;
pub use dead_letter::{DeadLetter, Shape};
pub use inbox::Inbox;
pub use redis_idempotency::{RedisIdempotency, WhileDown};
pub use retry::Retry;
pub use timeout::Timeout;
pub use trace::Trace;
pub use transaction::Transaction;
