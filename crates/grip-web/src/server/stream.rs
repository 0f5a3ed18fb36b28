//! One stream of an HTTP/2 connection.
//!
//! A client says how much it takes, stream by stream, and who takes nothing blocks no write of
//! ours: the watch of the connection cannot see it. So every answer notes when it was asked for
//! its next piece, and a stream whose client takes none is given up alone. Others on the same
//! connection may belong to other clients of a proxy.

use std::{pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

tokio::task_local! {
    static HANDED: Arc<Handed>;
}

/// Since when a piece of an answer waits for its client; none while the client waits for us.
#[derive(Default)]
pub(crate) struct Handed(Mutex<Option<Instant>>);

/// The client took nothing for too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stuck;

impl Handed {
    /// That of the stream whose task this is; none in HTTP/1, where the watch of the connection
    /// sees all.
    pub(crate) fn current() -> Option<Arc<Self>> {
        HANDED.try_with(Arc::clone).ok()
    }

    /// Notes that a piece was handed on.
    pub(crate) fn piece(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// Notes that the next piece is wanted, so that the one before has room.
    pub(crate) fn wanted(&self) {
        *self.0.lock() = None;
    }

    async fn stuck(&self, stall: Duration) {
        loop {
            let now = Instant::now();
            let until = self.0.lock().unwrap_or(now) + stall;
            if until <= now {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// Serves a stream to its end, or until its client has taken nothing for `stall`.
pub(super) async fn serve(stream: impl Future, stall: Duration) -> Result<(), Stuck> {
    let handed = Arc::new(Handed::default());
    let serving = pin!(HANDED.scope(Arc::clone(&handed), stream));
    tokio::select! {
        _ = serving => Ok(()),
        () = handed.stuck(stall) => Err(Stuck),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const STALL: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_on_time() {
        let began = Instant::now();
        let stream = async {
            sleep(STALL / 3).await;
            Handed::current().unwrap().piece();
            std::future::pending::<()>().await;
        };
        assert_eq!(serve(stream, STALL).await, Err(Stuck));
        assert_eq!(began.elapsed(), STALL / 3 + STALL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_and_a_slow_answer_are_waited_for() {
        let stream = async {
            let handed = Handed::current().unwrap();
            for _ in 0..5 {
                handed.piece();
                sleep(STALL - Duration::from_millis(1)).await;
                handed.wanted();
                sleep(STALL * 3).await;
            }
        };
        assert_eq!(serve(stream, STALL).await, Ok(()));
        assert!(Handed::current().is_none());
    }
}
