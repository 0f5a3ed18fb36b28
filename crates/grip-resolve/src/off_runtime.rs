//! Reading and proving of manifests without holding up the runtime.

use grip_tasks::TaskGroup;

/// What is shorter is proven where it is: that takes less time than a change of threads. Two
/// signatures and their JSON are some 200 µs.
const INLINE_BYTES: usize = 16 << 10;

/// Runs `work` on `bytes` of a stranger or of the event store, on a thread of its own where that may
/// take long; none if the node stops in the middle.
pub(crate) async fn run<T: Send + 'static>(
    group: &TaskGroup,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if bytes <= INLINE_BYTES {
        return Some(work());
    }
    group.spawn_blocking("resolve.decode", work).await.ok()
}
