//! Creates and changes the tables. `migrate up` applies what is missing, `migrate down` takes the latest back, `migrate
//! status` lists both. `migrate claim-index` makes the index that a large backlog wants, which is not part of the locked
//! schema. `migrate print` shows the SQL and needs no database.

use anyhow::bail;
use example_packfinderz::migrations::{self, CLAIM_INDEX, MIGRATIONS, Migration};
use example_packfinderz::process;
use example_packfinderz::settings::{self, DATABASE_URL};
use postrider::stores::postgres;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let verb = std::env::args().nth(1);
    let verb = verb.as_deref().unwrap_or_default();
    if !["up", "down", "status", "claim-index", "print"].contains(&verb) {
        bail!("usage: migrate up|down|status|claim-index|print");
    }
    if verb == "print" {
        for migration in &MIGRATIONS {
            println!("-- {}\n{}", name(migration), migration.up());
        }
        return Ok(());
    }
    let pool = postgres::connect(&settings::needed(&process::variable, DATABASE_URL)?, 1)?;
    match verb {
        "up" => {
            for migration in migrations::up(&pool).await? {
                println!("applied {}", name(migration));
            }
        }
        "down" => match migrations::down(&pool).await? {
            Some(migration) => println!("took back {}", name(migration)),
            None => println!("nothing is applied"),
        },
        "claim-index" => {
            if CLAIM_INDEX.apply(&pool).await? {
                println!("applied {}", name(&CLAIM_INDEX));
            }
        }
        _ => {
            for (migration, since) in migrations::status(&pool).await? {
                let since = since.unwrap_or_else(|| "not applied".to_owned());
                println!("{:30} {since}", name(migration));
            }
        }
    }
    pool.close().await;
    Ok(())
}

fn name(migration: &Migration) -> String {
    format!("{:05}_{}", migration.version, migration.name)
}
