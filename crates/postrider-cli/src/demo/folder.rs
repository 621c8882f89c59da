//! Where the demo keeps its files: a folder that is removed at the end, or one that was named and stays.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use postrider::core::EventId;

use super::settings::MARK;

const CONFIG: &str = "postrider.toml";
const DATABASE: &str = "demo.db";
const LOCK: &str = "demo.lock";
/// The config may hold a password.
const PRIVATE: u32 = 0o600;

pub(super) struct Folder {
    path: PathBuf,
    removed_at_end: bool,
    /// Held while the demo runs.
    _lock: File,
}

impl Folder {
    /// The folder that was named, made if it is missing, or a new one.
    pub(super) fn open(named: Option<&Path>) -> anyhow::Result<Self> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(new_name()),
        };
        DirBuilder::new()
            .recursive(named.is_some())
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("the folder {} cannot be made", path.display()))?;
        let path = path
            .canonicalize()
            .with_context(|| format!("the folder {} cannot be used", path.display()))?;
        Ok(Self {
            _lock: lock(&path)?,
            path,
            removed_at_end: named.is_none(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_removed_at_end(&self) -> bool {
        self.removed_at_end
    }

    /// The URL of the database file, whatever characters its path has.
    pub(super) fn database(&self) -> anyhow::Result<String> {
        let path = self.path.join(DATABASE);
        match url::Url::from_file_path(&path) {
            Ok(url) => Ok(format!("sqlite:{}", url.path())),
            Err(()) => anyhow::bail!("{} is no path for a database", path.display()),
        }
    }

    /// Writes the config file and says where. Somebody else's is left alone.
    pub(super) fn write_config(&self, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join(CONFIG);
        match std::fs::read_to_string(&path) {
            Ok(found) if !found.starts_with(MARK) => anyhow::bail!(
                "{} was not written by the demo and is left as it is; give --dir a folder of its own",
                path.display()
            ),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{} cannot be read", path.display()));
            }
            _ => {}
        }
        OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(PRIVATE)
            .open(&path)
            .and_then(|mut file| {
                // One that was there may have been opened up.
                file.set_permissions(Permissions::from_mode(PRIVATE))?;
                file.write_all(text.as_bytes())
            })
            .with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }

    /// Removes what was made for this start only.
    pub(super) fn close(self) -> anyhow::Result<()> {
        match self.removed_at_end {
            true => std::fs::remove_dir_all(&self.path)
                .with_context(|| format!("{} cannot be removed", self.path.display())),
            false => Ok(()),
        }
    }
}

/// After an error too. What cannot be removed then is not worth a second error.
impl Drop for Folder {
    fn drop(&mut self) {
        if self.removed_at_end {
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// Its last part is random, and short enough to be read.
fn new_name() -> String {
    const RANDOM_CHARS: usize = 8;
    let id = EventId::generate();
    let id = id.as_str();
    format!("postrider-demo-{}", &id[id.len() - RANDOM_CHARS..])
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .open(&path)
        .with_context(|| format!("{} cannot be made", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => anyhow::bail!(
            "another demo runs in {}; stop it, or give --dir another folder",
            folder.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", path.display()))
        }
    }
}
