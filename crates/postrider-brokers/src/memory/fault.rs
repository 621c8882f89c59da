//! Failures on demand.

use postrider_core::{Message, PublishError};

/// How a message fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not taken, and may be taken later.
    Transient,
    /// Not taken, now or ever.
    Permanent,
    /// Taken, but the sender never learns of it: sent again, it is there twice.
    AckLost,
}

impl Fault {
    pub(super) fn error(self) -> PublishError {
        match self {
            Self::Transient => PublishError::Failed {
                reason: "injected transient fault".into(),
            },
            Self::Permanent => PublishError::Refused {
                reason: "injected permanent fault".into(),
            },
            Self::AckLost => PublishError::Unavailable {
                reason: "injected loss of the acknowledgement".into(),
                source: None,
            },
        }
    }
}

type Predicate = Box<dyn Fn(&Message) -> bool + Send>;

#[derive(Default)]
pub(super) struct Faults(Vec<Armed>);

struct Armed {
    left: u32,
    fault: Fault,
    matches: Predicate,
}

impl Faults {
    pub(super) fn add(
        &mut self,
        count: u32,
        fault: Fault,
        matches: impl Fn(&Message) -> bool + Send + 'static,
    ) {
        self.0.push(Armed {
            left: count,
            fault,
            matches: Box::new(matches),
        });
    }

    /// The fault that meets this message, taken from the first that matches.
    pub(super) fn next_for(&mut self, message: &Message) -> Option<Fault> {
        self.0.retain(|armed| armed.left > 0);
        let armed = self.0.iter_mut().find(|armed| (armed.matches)(message))?;
        armed.left -= 1;
        Some(armed.fault)
    }
}
