//! Interval and batch size change while the binary runs.

use rustix::process::Signal;

use crate::binary::{SettingsOnDisk, Talkie};
use crate::world::World;

/// S2-33: with an interval of an hour nothing would leave before the test is over; after SIGHUP it does. A file that
/// makes no sense changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_signal_reads_the_interval_and_the_batch_size_again() {
    let world = World::new().await;
    let settings = SettingsOnDisk::new("interval_ms = 3_600_000");
    let talkie = Talkie::start(&world, &settings, &["publisher"]).await;

    settings.write("interval_ms = 20\nbatch = 0");
    talkie.signal(Signal::HUP);
    talkie.logged("batch = 0 must be 1 at the least").await;

    settings.write("interval_ms = 20\nbatch = 7");
    talkie.signal(Signal::HUP);
    let line = talkie.logged("outbox adjusted").await;
    assert!(line.contains("batch=7 interval=20ms"), "{line}");
    for room in ["one", "two"] {
        world.post(room).await;
        world.until_state(room, "published 0").await;
    }
    assert_eq!(talkie.interrupt().await, Some(0));
}
