//! A database file and its connections: one that writes, and some that read.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use postrider_core::StoreError;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Sqlite, SqliteConnection, pool::PoolConnection};

use super::error::{is_busy, store_error};
use super::process::Presence;
use super::tx::Tx;

/// How long a transaction waits for another connection's, in this process and in others.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait before asking again after an answer that came too early.
const BUSY_AGAIN: Duration = Duration::from_millis(5);
/// A log that has grown over this is cut back to it at the next checkpoint.
pub const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A process' transactions take turns on one connection; each waits no longer than this for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);

/// A database file. Cheap to clone; clones share the connections.
///
/// One connection writes: SQLite has one writer at a time, and waiting for it here is fairer and cheaper than in the
/// file's lock. The file is in WAL mode from the first write on, and a commit is on disk before it returns
/// (`synchronous = FULL`; `?synchronous=normal` in the URL risks the last commits at a power cut, never the file).
#[derive(Debug, Clone)]
pub struct Database {
    writer: SqlitePool,
    readers: SqlitePool,
    path: Arc<Path>,
    /// Transactions that wait for their turn.
    waiting: Arc<AtomicUsize>,
    /// Held so that the lock file lives as long as the last clone.
    presence: Arc<std::sync::OnceLock<Arc<Presence>>>,
}

/// A database that is opened when it is first used, so a file that is missing is no error yet. Only a URL that cannot be
/// used is: `sqlite:path/to/file.db` or `sqlite:///path/to/file.db`.
pub fn connect(url: &str, readers: u32) -> Result<Database, StoreError> {
    let options = options(url)?;
    let path = full_path(options.get_filename());
    let writing = options
        .clone()
        .journal_mode(SqliteJournalMode::Wal)
        .pragma("journal_size_limit", LOG_BYTES_MAX.to_string());
    let pool = |connections| {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(TURN_TIMEOUT)
            .test_before_acquire(false)
            .max_lifetime(None)
            .idle_timeout(None)
    };
    Ok(Database {
        writer: pool(1).connect_lazy_with(writing),
        readers: pool(readers.max(1)).connect_lazy_with(options),
        path: path.into(),
        waiting: Arc::default(),
        presence: Arc::default(),
    })
}

fn options(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    let refused = |reason: String| StoreError::Refused {
        action: "connect",
        reason,
        source: None,
    };
    let (url, synchronous) = without_synchronous(url).map_err(refused)?;
    if url.contains(":memory:") || url.contains("mode=memory") {
        return Err(refused(
            "an outbox in memory would be lost with its process: name a file".into(),
        ));
    }
    let options = SqliteConnectOptions::from_str(&url).map_err(|error| {
        let error = postrider_core::text::chain(&error);
        refused(format!(
            "the database URL cannot be read: {error}; it is sqlite:path/to/file.db"
        ))
    })?;
    if options.get_filename().as_os_str().is_empty() {
        return Err(refused("the database URL names no file".into()));
    }
    Ok(options
        .foreign_keys(true)
        .synchronous(synchronous)
        .busy_timeout(BUSY_TIMEOUT)
        // The relay reports what fails; statement by statement would drown it.
        .disable_statement_logging())
}

/// Takes the one parameter out of the URL that the driver does not know.
fn without_synchronous(url: &str) -> Result<(String, SqliteSynchronous), String> {
    let Some((base, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), SqliteSynchronous::Full));
    };
    let mut synchronous = SqliteSynchronous::Full;
    let mut others = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("synchronous", "full")) => synchronous = SqliteSynchronous::Full,
            Some(("synchronous", "normal")) => synchronous = SqliteSynchronous::Normal,
            Some(("synchronous", "extra")) => synchronous = SqliteSynchronous::Extra,
            Some(("synchronous", other)) => {
                return Err(format!(
                    "synchronous={other} is none of normal, full and extra"
                ));
            }
            _ => others.push(parameter),
        }
    }
    let joint = if others.is_empty() { "" } else { "?" };
    Ok((format!("{base}{joint}{}", others.join("&")), synchronous))
}

/// The same for every way to name the file, as far as its folder is there.
fn full_path(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

impl Database {
    /// Begins a transaction that may write: `BEGIN IMMEDIATE`, in its turn. It is one writer of the file, so keep it
    /// short.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        self.begin_to("begin a transaction").await
    }

    /// Commits.
    pub async fn commit(&self, tx: Tx) -> Result<(), StoreError> {
        let committed = tx.commit().await;
        committed.map_err(store_error("commit a transaction", "the file"))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many transactions of this process wait for their turn to write.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The connections that read. What they are used for must not write: it would find the file locked.
    pub fn readers(&self) -> &SqlitePool {
        &self.readers
    }

    pub(super) async fn begin_to(&self, action: &'static str) -> Result<Tx, StoreError> {
        self.try_begin().await.map_err(store_error(action, "it"))
    }

    /// SQLite waits for a lock by itself, but not where two turn a new file to WAL mode at once: each holds what the other wants, and
    /// one is told at once that the file is busy.
    pub(super) async fn try_begin(&self) -> Result<Tx, sqlx::Error> {
        let _waits = Waits::new(&self.waiting);
        let until = Instant::now() + BUSY_TIMEOUT;
        loop {
            match Tx::begin(&self.writer).await {
                Err(error) if is_busy(&error) && Instant::now() < until => {
                    tokio::time::sleep(BUSY_AGAIN).await;
                }
                begun => return begun,
            }
        }
    }

    pub(super) async fn reader(&self) -> Result<PoolConnection<Sqlite>, sqlx::Error> {
        self.readers.acquire().await
    }

    /// A connection that reads, outside the pool.
    pub(super) async fn own_connection(&self) -> Result<SqliteConnection, sqlx::Error> {
        self.readers.connect_options().connect().await
    }

    /// Moves what the log holds into the file, and cuts the log back if nobody reads it at the moment. SQLite does the
    /// first by itself at every 1,000 pages; the second needs a moment without readers, which it does not wait for.
    pub(super) async fn checkpoint(&self) -> Result<(), sqlx::Error> {
        let mut writer = self.writer.acquire().await?;
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
            .execute(&mut *writer)
            .await
            .map(drop)
    }

    /// The same file, which is made if it is missing.
    pub(super) fn creating(&self) -> Self {
        let options = (*self.writer.connect_options()).clone();
        let writer = self
            .writer
            .options()
            .clone()
            .connect_lazy_with(options.create_if_missing(true));
        Self {
            writer,
            ..self.clone()
        }
    }

    /// What claims name this process by.
    pub(super) fn presence(&self) -> Result<Arc<Presence>, StoreError> {
        if let Some(presence) = self.presence.get() {
            return Ok(presence.clone());
        }
        let presence = Presence::here(&self.path).map_err(|error| StoreError::Unavailable {
            reason: format!(
                "cannot make a lock file beside {}: {error}; its folder must be writable for this user",
                self.path.display()
            ),
            source: Some(error.into()),
        })?;
        Ok(self.presence.get_or_init(|| presence).clone())
    }
}

struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
