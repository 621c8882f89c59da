//! Sending, with the progress to look at, signals to stop by, and the command that continues.

use std::process::ExitCode;
use std::time::Duration;

use postrider::Replay;
use postrider::replay::{Progress, ReplayState};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::caller;
use super::super::signals::Signals;
use super::{Args, command};
use crate::config::{Config, Outbox};
use crate::wiring::{self, Store};
use crate::{output, progress};

/// The least often that the progress is told, so that a wait is seen too.
const TELL_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn send(
    args: &Args,
    config: &Config,
    outbox: &Outbox,
    store: Store,
) -> anyhow::Result<ExitCode> {
    let publisher = wiring::publisher_of(config, outbox)?;
    let router = wiring::router(outbox);
    let replay = Replay::new(store, publisher, router, args.options(outbox));
    let mut shown = progress::Progress::new(args.json);
    let ended = watched(replay, &mut shown).await?;
    shown.end();
    report(args, &ended)
}

/// Runs it, tells how it stands, and stops it at the first signal. A second one does not wait for the batch.
async fn watched(replay: Replay, shown: &mut progress::Progress) -> anyhow::Result<Progress> {
    let (stop, mut signals) = (CancellationToken::new(), Signals::listen()?);
    let mut progress = replay.progress();
    let by = caller::actor();
    let running = replay.run(&by, stop.clone());
    tokio::pin!(running);
    loop {
        tokio::select! {
            ended = &mut running => return Ok(ended),
            _ = signals.next() => {
                if stop.is_cancelled() {
                    let now = progress.borrow().clone();
                    return Ok(Progress { state: ReplayState::Stopped, ..now });
                }
                shown.note("stopping after this batch; a second signal stops at once");
                stop.cancel();
            }
            Ok(()) = progress.changed() => {}
            () = tokio::time::sleep(TELL_EVERY) => {}
        }
        let now = progress.borrow_and_update().clone();
        let passed = now.sent + now.skipped;
        shown.tell("sending", passed, now.total, now.waiting.as_deref());
    }
}

fn report(args: &Args, ended: &Progress) -> anyhow::Result<ExitCode> {
    let done = ended.state == ReplayState::Done;
    let next = (!done).then(|| command::continuing(args, ended.resume.as_ref()));
    if args.json {
        output::json(&json!({
            "state": ended.state.as_str(),
            "sent": ended.sent,
            "left_out": ended.skipped,
            "total": ended.total,
            "error": ended.error,
            "continue": next,
        }))?;
    } else {
        let (sent, total) = (ended.sent, ended.total);
        output::text(&format!("{sent} of {total} records sent again\n"))?;
    }
    match (&ended.error, ended.state) {
        (Some(error), ReplayState::Failed) => output::note(&format!("error: {error}")),
        (Some(error), _) => {
            output::note(&format!(
                "{} were left out, the last: {error}",
                ended.skipped
            ));
        }
        (None, _) => {}
    }
    if let Some(next) = next {
        output::note(&format!(
            "the replay {} before its end; this goes on:\n  {next}",
            ended.state.as_str()
        ));
    }
    let whole = done && ended.skipped == 0 && args.found_all(ended.total);
    Ok(output::verdict(whole))
}
