//! Which messages may not be sent within one call of `publish`, because one before them failed.

use std::collections::HashMap;

use postrider_core::{Message, MessageKey, Topic};

/// The keys of ordered messages that failed, and where in the batch. Empty, and free of cost, until the
/// first failure.
#[derive(Debug, Default)]
pub(crate) struct HeldKeys<'a>(HashMap<(&'a Topic, &'a MessageKey), usize>);

impl<'a> HeldKeys<'a> {
    /// Remembers that the message at `index` failed: what follows it in its order must not be sent.
    pub(crate) fn hold(&mut self, index: usize, message: &'a Message) {
        if let Some(order) = order_of(message) {
            let first = self.0.entry(order).or_insert(index);
            *first = index.min(*first);
        }
    }

    /// Whether a message before the one at `index` failed in its order.
    pub(crate) fn holds(&self, index: usize, message: &'a Message) -> bool {
        let Some(order) = order_of(message).filter(|_| !self.0.is_empty()) else {
            return false;
        };
        self.0.get(&order).is_some_and(|failed| *failed < index)
    }
}

fn order_of(message: &Message) -> Option<(&Topic, &MessageKey)> {
    message
        .key
        .as_ref()
        .filter(|_| message.ordered)
        .map(|key| (&message.topic, key))
}
