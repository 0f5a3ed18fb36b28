//! Panics of futures as values, so that they are reported in one place.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

pub(crate) type Payload = Box<dyn Any + Send>;

/// Runs `future`; a panic inside it becomes an error.
///
/// The future is never polled again after a panic, which is what makes the unwind safe.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, Payload> {
    let mut future = pin!(future);
    poll_fn(
        |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(payload) => Poll::Ready(Err(payload)),
        },
    )
    .await
}

/// What the panic said.
pub(crate) fn message(payload: &Payload) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}
