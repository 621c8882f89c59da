//! Who is still there to hold a claim. Each process that claims from a file holds a lock on a small file beside it, for
//! as long as it lives; the system frees the lock with the process, however that ends.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use uuid::Uuid;

/// All claims of this process that have not ended, whatever store holds them.
static OPEN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// This process' lock for each database file.
static HERE: LazyLock<Mutex<HashMap<PathBuf, Weak<Presence>>>> = LazyLock::new(Mutex::default);

/// Before this stands the database file's name, after it the process' name.
const MARK: &str = "-postrider-";
/// How many files beside the database are looked at for locks that nobody holds any more.
const SWEPT_MAX: usize = 1_000;

/// A claim's token for as long as the claim lives. Dropping it ends the claim for this process at once.
#[derive(Debug)]
pub(super) struct Token(pub(super) String);

impl Token {
    pub(super) fn new() -> Self {
        let token = Uuid::now_v7().to_string();
        open().insert(token.clone());
        Self(token)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        open().remove(&self.0);
    }
}

pub(super) fn is_open(token: &str) -> bool {
    open().contains(token)
}

fn open() -> std::sync::MutexGuard<'static, HashSet<String>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A locked file that says that this process lives.
#[derive(Debug)]
pub(super) struct Presence {
    /// What claims name this process by.
    pub(super) name: String,
    path: PathBuf,
    /// Whether this process has looked for what others left behind.
    swept: AtomicBool,
    _locked: File,
}

impl Presence {
    /// This process' own, beside the database file; made when it is first asked for.
    pub(super) fn here(database: &Path) -> std::io::Result<Arc<Self>> {
        let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(presence) = here.get(database).and_then(Weak::upgrade) {
            return Ok(presence);
        }
        let name = Uuid::now_v7().simple().to_string();
        let path = lock_path(database, &name);
        // Locked before it has its name: whoever finds it unlocked knows that its process is gone.
        let unnamed = lock_path(database, &format!("{name}.new"));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&unnamed)?;
        file.lock()?;
        std::fs::rename(&unnamed, &path)?;
        let presence = Arc::new(Self {
            name,
            path,
            swept: AtomicBool::new(false),
            _locked: file,
        });
        here.insert(database.to_owned(), Arc::downgrade(&presence));
        Ok(presence)
    }

    /// True the first time that it is asked.
    pub(super) fn may_sweep(&self) -> bool {
        !self.swept.swap(true, Ordering::Relaxed)
    }
}

/// Removes the lock files of processes that ended without a word, but for those that a claim still names: nothing else
/// proves to others that they are gone.
pub(super) fn sweep(database: &Path, named: &HashSet<String>) {
    let (Some(folder), Some(file)) = (database.parent(), database.file_name()) else {
        return;
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let prefix = format!("{}{MARK}", file.to_string_lossy());
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten().take(SWEPT_MAX) {
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        let left = name.filter(|name| !named.contains(*name) && is_gone(database, name));
        if let Some(name) = left {
            forget(&lock_path(database, name));
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        forget(&self.path);
    }
}

/// Whether a process that left a lock file is gone for certain. A file that cannot be looked at proves nothing: then its
/// claims end with their time.
pub(super) fn is_gone(database: &Path, name: &str) -> bool {
    // From the table, so never to be trusted as part of a path.
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return false;
    }
    let Ok(file) = File::open(lock_path(database, name)) else {
        return false;
    };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

fn forget(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "a lock file is left behind");
    }
}

fn lock_path(database: &Path, name: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(format!("{MARK}{name}"));
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unlocked_file_proves_that_its_process_is_gone() {
        let folder = std::env::temp_dir().join(Uuid::now_v7().to_string());
        std::fs::create_dir(&folder).unwrap();
        let database = folder.join("x.db");
        let here = Presence::here(&database).unwrap();
        assert!(!is_gone(&database, &here.name), "this process lives");
        assert!(!is_gone(&database, "nobody"), "no file proves nothing");
        assert!(!is_gone(&database, "../x"), "not a name");
        File::create(lock_path(&database, "dead")).unwrap();
        assert!(is_gone(&database, "dead"));
        sweep(&database, &HashSet::from(["dead".to_owned()]));
        assert!(is_gone(&database, "dead"), "a claim names it");
        sweep(&database, &HashSet::new());
        assert!(!is_gone(&database, "dead"), "its file is gone too");
        assert!(lock_path(&database, &here.name).exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_token_is_open_for_as_long_as_it_lives() {
        let token = Token::new();
        let text = token.0.clone();
        assert!(is_open(&text));
        drop(token);
        assert!(!is_open(&text));
    }
}
