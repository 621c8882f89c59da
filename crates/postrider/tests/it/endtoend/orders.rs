//! The shop's writers: business transactions that lock a customer and write orders, some of which are rolled back.

use std::time::{Duration, Instant};

use postrider::core::Event;
use serde_json::json;

use super::arena::{Arena, CUSTOMERS};

const WRITERS: usize = 5;

impl Arena {
    /// Writes for `time`, each writer with a rest of up to `rest` between two transactions.
    pub(crate) async fn write(&self, time: Duration, rest: Duration) {
        let until = Instant::now() + time;
        let writer = async || {
            while Instant::now() < until {
                let customer = format!("customer-{}", fastrand::usize(1..=CUSTOMERS));
                self.transaction(&customer, fastrand::u32(..10) > 0)
                    .await
                    .expect("a business transaction failed");
                tokio::time::sleep(rest.mul_f64(fastrand::f64())).await;
            }
        };
        futures::future::join_all((0..WRITERS).map(|_| writer())).await;
    }

    /// One more order of each customer. When it has its effect, all earlier ones are through, duplicates too.
    pub(crate) async fn write_last(&self) {
        for customer in 1..=CUSTOMERS {
            let written = self
                .transaction(&format!("customer-{customer}"), true)
                .await;
            written.unwrap();
        }
    }

    /// One business transaction, with one to three orders.
    async fn transaction(
        &self,
        customer: &str,
        commits: bool,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let mut tx = self.shop.pool.begin().await?;
        sqlx::query("SELECT 1 FROM customers WHERE customer = $1 FOR UPDATE")
            .bind(customer)
            .execute(&mut *tx)
            .await?;
        for _ in 0..fastrand::u32(1..=3) {
            let number: i64 = sqlx::query_scalar("SELECT nextval('numbers')")
                .fetch_one(&mut *tx)
                .await?;
            let payload = json!({ "customer": customer, "number": number });
            let event = Event::json("order.placed", &payload)?.aggregate_id(customer);
            sqlx::query("INSERT INTO orders VALUES ($1, $2, $3)")
                .bind(event.id.as_str())
                .bind(customer)
                .bind(number)
                .execute(&mut *tx)
                .await?;
            self.outbox.emit(&mut tx, event).await?;
        }
        match commits {
            true => tx.commit().await?,
            false => tx.rollback().await?,
        }
        Ok(())
    }
}
