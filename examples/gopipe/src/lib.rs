//! gopipe's plan on Postrider: acknowledgement, transaction, inbox and outbox as middlewares around a handler, a
//! publisher that polls the outbox, and a clean-up of both tables. Names and defaults are the plan's.

pub mod broker;
mod cleanup;
mod inbox;
pub mod orders;
mod outbox;
mod publisher;
mod router;

pub use cleanup::{Cleaned, CleanupConfig, start_cleanup};
pub use inbox::{InboxConfig, inbox_schema, init_inbox};
pub use outbox::{OutboxConfig, init_outbox, outbox_schema};
pub use publisher::{OutboxPublisherConfig, init_publisher, pipe, publisher_schema};
pub use router::router;
