//! A relay as a process of its own, for a service's outbox of PolyShop's layout:
//!
//! ```sh
//! DATABASE_URL=postgres://localhost/shop BROKER=kafka KAFKA=127.0.0.1:9092 TOPIC=orders \
//!   cargo run -p postrider --all-features --example relay
//! ```

mod shop;

use std::sync::Arc;

use postrider::stores::postgres;
use shop::{Broker, Failure, setting};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    shop::log();
    let shutdown = shop::shutdown()?;
    let pool = postgres::connect(&setting("DATABASE_URL")?, 8)?;
    let relay = shop::relay(pool, &Broker::from_settings()?, Arc::default())?;
    relay.run(shutdown).await?;
    Ok(())
}
