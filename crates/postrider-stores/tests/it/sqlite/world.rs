//! An outbox of any layout in a file of its own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use postrider_core::{Event, ManagedStore};
use postrider_stores::sqlite::{self, InitOptions, Options, Outbox, SqliteStore, connect, init};
use postrider_testkit::sqlite::{SqliteFile, fresh_file};

use crate::world::{Backend, World, layout};

/// A file, and the connections that the tests emit with.
pub(crate) struct File {
    pub(crate) file: SqliteFile,
    pub(crate) database: sqlite::Database,
}

#[async_trait]
impl Backend for File {
    type Outbox = Outbox;

    async fn execute(&self, sql: &str) {
        self.file.execute(sql).await;
    }

    async fn text(&self, sql: &str) -> Option<String> {
        self.file.text(sql).await
    }

    fn ago(&self, ago: Duration) -> String {
        format!("(unixepoch('subsec') * 1000000 - {}000000)", ago.as_secs())
    }

    async fn refuse_changes(&self, table: &str) {
        let name = table.replace('"', "");
        for verb in ["UPDATE", "DELETE"] {
            let trigger = format!(
                "CREATE TRIGGER \"refuse {verb} {name}\" BEFORE {verb} ON {table} \
                 BEGIN SELECT RAISE(ABORT, 'refused'); END"
            );
            self.file.execute(&trigger).await;
        }
    }

    /// With connections of its own, as another process would have.
    fn relay(&self, url: &str, options: Options) -> Arc<dyn ManagedStore> {
        Arc::new(SqliteStore::new(connect(url, 4).unwrap(), options))
    }

    async fn emit(&self, outbox: &Outbox, event: Event) {
        let mut tx = self.database.begin().await.unwrap();
        outbox.emit(&mut tx, event).await.unwrap();
        self.database.commit(tx).await.unwrap();
    }
}

/// A preset with overrides, its tables and indexes made.
pub(crate) async fn world(preset: &str, overrides: &str) -> World<File> {
    world_with(preset, overrides, "").await
}

/// The same, with statements to run first: a table of the test's own, for one.
pub(crate) async fn world_with(preset: &str, overrides: &str, sql: &str) -> World<File> {
    let file = fresh_file();
    if !sql.is_empty() {
        file.execute(sql).await;
    }
    let layout = layout(preset, overrides);
    let database = connect(&file.url, 4).unwrap();
    let options = InitOptions { claim_index: true };
    init(&database, &layout, &options).await.unwrap();
    let url = file.url.clone();
    let outbox = Outbox::new(layout.clone());
    World::new(File { file, database }, &url, layout, outbox)
}

/// The store of a world, with connections of its own.
pub(crate) fn store(world: &World<File>) -> SqliteStore {
    let database = connect(&world.database.file.url, 2).unwrap();
    SqliteStore::new(database, Options::new(world.layout.clone()))
}
