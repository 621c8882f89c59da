//! What of a message says which event it is.

use std::hash::{BuildHasher, RandomState};

use postrider_core::layout::Role;
use postrider_core::{KeptMessage, Layout};

use super::VerifyError;
use crate::replay::REPLAY_HEADER;

/// The headers in which a layout puts an event's id and type.
pub(super) struct Wire {
    event_id: String,
    event_type: Option<String>,
}

impl Wire {
    pub(super) fn of(layout: &Layout) -> Result<Self, VerifyError> {
        let name_of = |wanted: Role| {
            let found = layout.attributes.iter().find(|(_, role)| **role == wanted);
            found.map(|(name, _)| name.clone())
        };
        let event_id = name_of(Role::EventId).ok_or_else(|| VerifyError::NoEventId {
            layout: layout.name.clone(),
        })?;
        Ok(Self {
            event_id,
            event_type: name_of(Role::EventType),
        })
    }

    pub(super) fn event_id<'a>(&self, message: &'a KeptMessage) -> Option<&'a str> {
        message.header(&self.event_id)
    }

    pub(super) fn event_type<'a>(&self, message: &'a KeptMessage) -> Option<&'a str> {
        message.header(self.event_type.as_deref()?)
    }

    pub(super) fn is_replayed(message: &KeptMessage) -> bool {
        message.header(REPLAY_HEADER).is_some()
    }
}

/// Makes numbers of ids, so that a record takes the same memory whatever its id. Two ids of 2,000,000 share one with a
/// probability of less than one in 10²⁵.
#[derive(Default)]
pub(super) struct Fingerprints(RandomState, RandomState);

impl Fingerprints {
    pub(super) fn of(&self, id: &str) -> u128 {
        u128::from(self.0.hash_one(id)) << 64 | u128::from(self.1.hash_one(id))
    }

    pub(super) fn of_key(&self, key: &str) -> u64 {
        // 0 stands for no key.
        self.0.hash_one(key).max(1)
    }
}
