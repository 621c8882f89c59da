//! Waiting for a condition with a deadline, never for a time.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long a condition may take before the test fails. Generous: CI machines stall.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until `probe` gives `Ok`, and fails with its last `Err` after a minute.
pub async fn eventually<T, E: Debug>(what: &str, probe: impl AsyncFnMut() -> Result<T, E>) -> T {
    eventually_within(PATIENCE, what, probe).await
}

/// The same with another deadline.
pub async fn eventually_within<T, E: Debug>(
    patience: Duration,
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(last) if start.elapsed() > patience => {
                panic!("not within {patience:?}: {what}; last seen: {last:?}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
