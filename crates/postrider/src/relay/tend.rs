//! Lets the store keep its claims cheap.

use postrider_core::OutboxStore;
use postrider_core::text::chain;
use tokio_util::sync::CancellationToken;

use super::Config;
use super::steps::answered;

/// Tends the store as often as it asks for, until it needs no more or `shutdown`. Claims are right without it, so
/// trouble is told once, and tried again like an outage.
pub(crate) async fn tend(
    name: &str,
    store: &dyn OutboxStore,
    config: &Config,
    shutdown: &CancellationToken,
) {
    let mut errors_in_a_row = 0;
    loop {
        let tended = tokio::select! {
            tended = answered(config, "tend the outbox", store.tend()) => tended,
            // A stop need not wait for it.
            () = shutdown.cancelled() => return,
        };
        let pause = match tended {
            Ok(None) => return,
            Ok(Some(pause)) => {
                errors_in_a_row = 0;
                pause
            }
            Err(error) => {
                errors_in_a_row += 1;
                if errors_in_a_row == 1 {
                    tracing::warn!(
                        outbox = name,
                        reason = chain(&error),
                        "the outbox could not be tended: claims may be slow until it is"
                    );
                }
                config.outage_backoff.random_delay(errors_in_a_row)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => return,
        }
    }
}
