//! A broker that is slow to answer: what it has taken is acknowledged when the gate is open.

use std::time::Duration;

use async_trait::async_trait;
use postrider::core::{Message, PublishError, Publisher};
use tokio::sync::watch;

use crate::world::AnyPublisher;

pub(crate) struct Gate {
    behind: AnyPublisher,
    open: watch::Sender<bool>,
    /// Messages that the broker has taken and not acknowledged.
    held: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn before(behind: AnyPublisher) -> Self {
        Self {
            behind,
            open: watch::Sender::new(true),
            held: watch::Sender::new(0),
        }
    }

    pub(crate) fn shut(&self) {
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(crate) fn held(&self) -> usize {
        *self.held.borrow()
    }

    pub(crate) async fn wait_until_held(&self, messages: usize) {
        let mut held = self.held.subscribe();
        let reached = held.wait_for(|held| *held >= messages);
        let reached = tokio::time::timeout(Duration::from_secs(30), reached);
        reached.await.expect("messages are held").unwrap();
    }
}

#[async_trait]
impl Publisher for Gate {
    async fn publish(
        &self,
        batch: &[Message],
        deadline: Duration,
    ) -> Vec<Result<(), PublishError>> {
        let outcomes = self.behind.publish(batch, deadline).await;
        self.held.send_modify(|held| *held += batch.len());
        let mut open = self.open.subscribe();
        open.wait_for(|open| *open)
            .await
            .expect("the gate is there");
        self.held.send_modify(|held| *held -= batch.len());
        outcomes
    }

    async fn ping(&self) -> Result<(), PublishError> {
        self.behind.ping().await
    }
}
