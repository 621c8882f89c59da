//! What the service knows a message by.

use std::time::Duration;

use google_cloud_pubsub::subscriber::handler::Handler;
use tokio::runtime::Handle;

use crate::queue::{OnNack, Ticket};

/// A message under the client's lease, which the client keeps up as long as this lives.
pub(super) struct Leased {
    pub(super) handler: Handler,
    pub(super) message_id: String,
    /// The client's.
    pub(super) runtime: Handle,
}

impl Ticket for Leased {
    fn acked(self) {
        let Self {
            handler,
            message_id,
            runtime,
        } = self;
        match handler {
            Handler::ExactlyOnce(handler) => {
                let confirmed = async move {
                    if let Err(error) = handler.confirmed_ack().await {
                        tracing::warn!(%message_id, %error, "pubsub: acknowledgement not confirmed, the message may come again");
                    }
                };
                drop(runtime.spawn(confirmed));
            }
            other => other.ack(),
        }
    }

    fn given_back(self) {
        self.handler.nack();
    }

    /// The service counts attempts, has a policy for retries and one for dead letters, and may give the message
    /// to another instance.
    fn on_nack(&self, _after: Duration) -> OnNack {
        OnNack::GiveBack
    }
}
