//! Threads of low priority.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// How much they give way to the other threads: as much as the children of git that pages ask.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Threads for blocking work that gives way to everything else that wants a processor.
///
/// They are apart from those of the runtime: a thread cannot take a priority back without privileges.
pub struct LowPriorityThreads(Option<Runtime>);

impl LowPriorityThreads {
    /// At most `most` of them, each started when there is work for it; what comes in the meantime waits.
    pub fn new(most: usize) -> io::Result<Self> {
        let mut threads = Builder::new_current_thread();
        threads.max_blocking_threads(most);
        threads.thread_name("low-priority");
        threads.on_thread_start(lower_priority);
        threads.build().map(|runtime| Self(Some(runtime)))
    }

    pub(crate) fn spawn(
        &self,
        work: impl FnOnce() + Send + 'static,
    ) -> tokio::task::JoinHandle<()> {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.spawn_blocking(work)
    }
}

impl Drop for LowPriorityThreads {
    fn drop(&mut self) {
        // The group that owns the work waits for it; here there may be a runtime, which must not block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Of the calling thread; elsewhere than on Linux priorities are those of whole processes.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let lowered = getpriority_process(None)
            .and_then(|present| setpriority_process(None, present + NICENESS));
        if let Err(error) = lowered {
            tracing::debug!(%error, "a thread keeps its priority");
        }
    }
}
