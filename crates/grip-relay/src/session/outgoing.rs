//! The sending loop.

use futures_util::{Sink, SinkExt as _, stream::SplitSink};
use grip_nostr::Timestamp;

use crate::{Frame, outbox::Outbox};

/// Room is given back in steps of this size.
const STEP_BYTES: usize = 64 << 10;

/// Sends what is queued until the queue is closed or the socket fails.
pub(super) async fn run<S: Sink<Frame>>(mut sink: SplitSink<S, Frame>, outbox: &Outbox) {
    // An error means that the other side is gone, which is all there is to know.
    while let Some(batch) = outbox.take(|| Timestamp::now().as_secs()).await {
        let mut left = batch.bytes;
        let mut fed = 0;
        for frame in batch.frames {
            fed += match &frame {
                Frame::Text(text) => text.len(),
                _ => 0,
            };
            if sink.feed(frame).await.is_err() {
                return;
            }
            if fed >= STEP_BYTES {
                let step = fed.min(left);
                outbox.sent(step);
                left -= step;
                fed = 0;
            }
        }
        if sink.flush().await.is_err() {
            return;
        }
        outbox.sent(left);
    }
    let _ = sink.close().await;
}
