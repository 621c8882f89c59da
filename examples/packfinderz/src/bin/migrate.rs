//! Creates the tables: `migrate up`. `migrate claim-index` also makes the index that a large backlog wants, which is
//! not part of the locked schema. `migrate print` shows the SQL and needs no database.

use anyhow::bail;
use example_packfinderz::settings::{self, DATABASE_URL};
use example_packfinderz::{process, schema};
use postrider::stores::postgres;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let verb = std::env::args().nth(1);
    let claim_index = match verb.as_deref() {
        Some("up") => false,
        Some("claim-index") => true,
        Some("print") => {
            println!("{}", schema::print()?);
            return Ok(());
        }
        _ => bail!("usage: migrate up|claim-index|print"),
    };
    let pool = postgres::connect(&settings::needed(&process::variable, DATABASE_URL)?, 1)?;
    schema::create(&pool, claim_index).await?;
    pool.close().await;
    Ok(())
}
