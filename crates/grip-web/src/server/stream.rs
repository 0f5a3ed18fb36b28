//! One stream of an HTTP/2 connection.
//!
//! A client says how much it takes, stream by stream, and who takes nothing blocks no write of
//! ours: the watch of the connection cannot see it. So every answer notes when it was asked for
//! its next piece, and a stream whose client takes none is given up alone. Others on the same
//! connection may belong to other clients of a proxy.

use std::{pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::settings::Timeouts;

/// How often the average of a client is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

tokio::task_local! {
    static HANDED: Arc<Handed>;
}

/// How far the client of one answer has taken it.
#[derive(Default)]
pub(crate) struct Handed(Mutex<Progress>);

#[derive(Clone, Copy, Default)]
struct Progress {
    began: Option<Instant>,
    /// Since when a piece waits for the client; none while the client waits for us.
    since: Option<Instant>,
    /// The same before.
    waited: Duration,
    piece_bytes: usize,
    taken_bytes: u64,
}

/// The client took nothing, or too little, for too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stuck;

impl Handed {
    /// That of the stream whose task this is; none in HTTP/1, where the watch of the connection
    /// sees all.
    pub(crate) fn current() -> Option<Arc<Self>> {
        HANDED.try_with(Arc::clone).ok()
    }

    /// Notes that a piece was handed on.
    pub(crate) fn piece(&self, bytes: usize) {
        let now = Instant::now();
        let mut progress = self.0.lock();
        progress.began.get_or_insert(now);
        progress.since = Some(now);
        progress.piece_bytes = bytes;
    }

    /// Notes that the next piece is wanted, so that the one before has room.
    pub(crate) fn wanted(&self) {
        let mut progress = self.0.lock();
        if let Some(since) = progress.since.take() {
            progress.waited += since.elapsed();
            progress.taken_bytes += progress.piece_bytes as u64;
        }
    }

    async fn stuck(&self, timeouts: &Timeouts) {
        loop {
            let now = Instant::now();
            let progress = *self.0.lock();
            let piece_due = progress.since.unwrap_or(now) + timeouts.write_stall;
            let all_due = progress.began.unwrap_or(now) + timeouts.transfer;
            let until = piece_due.min(all_due);
            let waiting = progress.since.map_or(Duration::ZERO, |at| at.elapsed());
            let waited = progress.waited + waiting;
            // The piece under way counts: it may be all but taken.
            let bytes = progress.taken_bytes + progress.piece_bytes as u64;
            if until <= now || timeouts.is_too_slow(waited, bytes) {
                return;
            }
            sleep_until(until.min(now + LOOK_EVERY)).await;
        }
    }
}

/// Serves a stream to its end, or until its client has kept us waiting for too long.
pub(super) async fn serve(stream: impl Future, timeouts: Timeouts) -> Result<(), Stuck> {
    let handed = Arc::new(Handed::default());
    let serving = pin!(HANDED.scope(Arc::clone(&handed), stream));
    tokio::select! {
        _ = serving => Ok(()),
        () = handed.stuck(&timeouts) => Err(Stuck),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::settings::TRANSFER_GRACE;

    const STALL: Duration = Duration::from_secs(60);
    const PIECE: usize = 128 << 10;

    fn timeouts() -> Timeouts {
        Timeouts {
            write_stall: STALL,
            ..Timeouts::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up_on_time() {
        let began = Instant::now();
        let stream = async {
            sleep(STALL / 3).await;
            Handed::current().unwrap().piece(PIECE);
            std::future::pending::<()>().await;
        };
        assert_eq!(serve(stream, timeouts()).await, Err(Stuck));
        assert_eq!(began.elapsed(), STALL / 3 + STALL);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_and_a_slow_answer_are_waited_for() {
        let stream = async {
            let handed = Handed::current().unwrap();
            for _ in 0..5 {
                handed.piece(PIECE);
                sleep(STALL - Duration::from_millis(1)).await;
                handed.wanted();
                sleep(STALL * 3).await;
            }
        };
        assert_eq!(serve(stream, timeouts()).await, Ok(()));
        assert!(Handed::current().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_little_or_takes_too_long_in_all_is_given_up() {
        let reads = |bytes, pause| async move {
            let began = Instant::now();
            let stream = async {
                let handed = Handed::current().unwrap();
                loop {
                    handed.piece(bytes);
                    sleep(pause).await;
                    handed.wanted();
                }
            };
            assert_eq!(serve(stream, timeouts()).await, Err(Stuck));
            began.elapsed()
        };
        let slow = reads(1 << 10, Duration::from_secs(2)).await;
        assert!(slow <= TRANSFER_GRACE + LOOK_EVERY, "{slow:?}");
        let quick = reads(4 << 10, Duration::from_secs(2)).await;
        assert_eq!(quick, timeouts().transfer);
    }
}
