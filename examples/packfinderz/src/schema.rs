//! The tables. Nothing is created but by `migrate`.

use postrider::core::Layout;
use postrider::core::layout::LayoutError;
use postrider::stores::postgres::{self, InitOptions, PgPool};

/// Licenses and notifications.
const DOMAIN: &str = include_str!("../schema.sql");

/// `outbox_events`, as PackFinderz has locked it.
pub fn outbox() -> Result<Layout, LayoutError> {
    Layout::preset("packfinderz")
}

/// What is created besides the locked table and its three indexes: nothing, or the index that a large backlog wants.
fn options(claim_index: bool) -> InitOptions {
    InitOptions {
        claim_index,
        notify: false,
    }
}

/// Creates what is missing, and leaves alone what is there.
pub async fn create(pool: &PgPool, claim_index: bool) -> anyhow::Result<()> {
    postgres::init(pool, &outbox()?, &options(claim_index)).await?;
    sqlx::raw_sql(DOMAIN).execute(pool).await?;
    Ok(())
}

/// The same as text.
pub fn print() -> anyhow::Result<String> {
    let outbox = postgres::ddl(&outbox()?, &options(false));
    let outbox: String = outbox.iter().map(|sql| format!("{sql};\n\n")).collect();
    Ok(outbox + DOMAIN)
}
