//! Whether other relays work on the same outbox. Alone, one claim of all groups at a time does best, because each record is
//! looked at once; with others, groups are shared out.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::progress::Progress;

/// The version of each group's progress that this process saw or wrote last.
#[derive(Debug, Default)]
pub(super) struct Company(Mutex<BTreeMap<i32, i64>>);

impl Company {
    /// Keeps what was written.
    pub(super) fn wrote<'a>(&self, saved: impl Iterator<Item = &'a Progress>) {
        let mut known = self.lock();
        known.extend(saved.map(|progress| (progress.group, progress.version + 1)));
    }

    /// Whether somebody else has written since; asked once per claim, under the groups' locks.
    pub(super) fn was_here(&self, standing: &[Progress]) -> bool {
        let mut known = self.lock();
        standing.iter().fold(false, |found, progress| {
            let last = known.insert(progress.group, progress.version);
            found | last.is_some_and(|last| last != progress.version)
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(version: i64) -> [Progress; 1] {
        [Progress {
            version,
            ..Progress::example()
        }]
    }

    #[test]
    fn others_are_known_by_what_they_wrote() {
        let company = Company::default();
        assert!(!company.was_here(&standing(7)), "nothing is known yet");
        assert!(!company.was_here(&standing(7)));
        company.wrote(standing(7).iter());
        assert!(!company.was_here(&standing(8)), "that was us");
        assert!(company.was_here(&standing(9)));
        assert!(!company.was_here(&standing(9)));
    }
}
