//! A runtime for Google's client. The client goes on in the background with whatever it was given; ending its runtime
//! is the way to end that.

use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime may not be dropped where it could block, so this one is only told to end.
pub(super) struct OwnRuntime {
    pub(super) handle: Handle,
    runtime: Option<Runtime>,
}

impl OwnRuntime {
    pub(super) fn start(threads: usize) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("pubsub")
            .enable_all()
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
