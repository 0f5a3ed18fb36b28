//! The answer to a push, which may take its time.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::{
    io::AsyncRead,
    sync::oneshot,
    time::{self, Interval, MissedTickBehavior},
};

use super::upload;

/// How long the client hears nothing at most; some hang up after fifteen seconds.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The answer to a push.
pub struct PushReply {
    /// Comes in pieces: keep-alives while the push is carried out, then the report.
    pub body: BoxStream<'static, Bytes>,
    /// What the client of a refused push still sends. It is to be read first, so that the client comes
    /// to reading the reason; that takes a connection and nothing else.
    pub unread: Option<Unread>,
}

/// The rest of a refused upload.
pub struct Unread(Box<dyn AsyncRead + Send + Unpin>);

impl Unread {
    /// Reads and forgets it, within bounds of size and time.
    pub async fn drain(self) {
        upload::drain(self.0).await;
    }
}

impl PushReply {
    pub(super) fn whole(bytes: Bytes) -> Self {
        let pieces = (!bytes.is_empty()).then_some(bytes);
        Self {
            body: stream::iter(pieces).boxed(),
            unread: None,
        }
    }

    pub(super) fn refused(bytes: Bytes, upload: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self {
            unread: Some(Unread(Box::new(upload))),
            ..Self::whole(bytes)
        }
    }

    /// An answer that comes later. If it never does, the node is stopping: the body then ends
    /// without a report, which clients take for a failure.
    pub(super) fn later(answer: oneshot::Receiver<Bytes>, keep_alive: Option<Bytes>) -> Self {
        let mut pulse = time::interval_at(time::Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let waiting = Waiting {
            answer,
            keep_alive,
            pulse,
        };
        let body = stream::unfold(Some(waiting), |waiting| async move {
            let mut waiting = waiting?;
            let bytes = waiting.next().await?;
            Some(match bytes {
                Piece::KeepAlive(bytes) => (bytes, Some(waiting)),
                Piece::Report(bytes) => (bytes, None),
            })
        });
        Self {
            body: body.boxed(),
            unread: None,
        }
    }
}

struct Waiting {
    answer: oneshot::Receiver<Bytes>,
    /// None where the client could not tell it from the report.
    keep_alive: Option<Bytes>,
    pulse: Interval,
}

enum Piece {
    KeepAlive(Bytes),
    Report(Bytes),
}

impl Waiting {
    async fn next(&mut self) -> Option<Piece> {
        let Some(keep_alive) = self.keep_alive.clone() else {
            return (&mut self.answer).await.ok().map(Piece::Report);
        };
        tokio::select! {
            biased;
            answer = &mut self.answer => answer.ok().map(Piece::Report),
            _ = self.pulse.tick() => Some(Piece::KeepAlive(keep_alive)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn g01_42_a_waiting_client_hears_something_every_five_seconds() {
        let (answer, answered) = oneshot::channel();
        let mut body = PushReply::later(answered, Some(Bytes::from_static(b"0005\x01"))).body;
        let began = time::Instant::now();
        for n in 1..=3 {
            assert_eq!(body.next().await.unwrap(), &b"0005\x01"[..]);
            assert_eq!(began.elapsed(), KEEP_ALIVE * n);
        }
        answer.send(Bytes::from_static(b"report")).unwrap();
        assert_eq!(body.next().await.unwrap(), &b"report"[..]);
        assert!(body.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_without_side_band_gets_the_report_alone() {
        let (answer, answered) = oneshot::channel();
        let mut body = PushReply::later(answered, None).body;
        let waiting = time::timeout(KEEP_ALIVE * 4, body.next()).await;
        assert!(waiting.is_err(), "nothing may come before the report");
        answer.send(Bytes::from_static(b"report")).unwrap();
        assert_eq!(body.next().await.unwrap(), &b"report"[..]);
    }

    #[tokio::test]
    async fn a_push_that_was_aborted_ends_without_a_report() {
        let (answer, answered) = oneshot::channel::<Bytes>();
        drop(answer);
        assert!(PushReply::later(answered, None).body.next().await.is_none());
    }
}
