//! Frames that wait to be sent to one connection, bounded in bytes, and the loop that sends them.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, stream::SplitSink};
use grip_nostr::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Frame, Stats};

/// Answers wait while more than this is queued, so that a reader who is behind is not sent more.
const COMFORTABLE_BYTES: usize = 512 << 10;
/// Bytes are freed in steps of this size while a batch is sent.
const STEP_BYTES: usize = 64 << 10;
/// What a queued frame costs besides its bytes.
const OVERHEAD_BYTES: usize = 64;

/// The queue between the answers and live events for a connection and its socket.
///
/// Answers to the connection's own messages wait for room ([`SendQueue::send`]); live events do not
/// ([`SendQueue::offer`]): if one does not fit, the reader is too slow and is cut, because leaving
/// the event out would be a silent loss.
pub(crate) struct SendQueue {
    queue: Mutex<Queue>,
    limit: usize,
    /// Something is to be sent, or the queue was closed.
    filled: Notify,
    /// The queue is short enough for answers again.
    room: Notify,
    /// The reader is too slow.
    overflow: Notify,
    stats: Arc<Stats>,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Queued>,
    bytes: usize,
    /// Frames taken since the connection began, to see whether there is progress.
    taken: u64,
    overflowed: bool,
    closed: bool,
}

impl Queue {
    /// A closed queue takes anything, and drops it.
    fn has_room(&self) -> bool {
        self.closed || self.bytes < COMFORTABLE_BYTES
    }
}

/// A frame with the time after which it must not be sent (NIP-40).
struct Queued {
    frame: Frame,
    expires: u64,
}

impl Queued {
    fn size_bytes(&self) -> usize {
        OVERHEAD_BYTES
            + match &self.frame {
                Frame::Text(bytes) | Frame::Ping(bytes) | Frame::Pong(bytes) => bytes.len(),
                Frame::Binary | Frame::TooLong | Frame::Close(..) => 0,
            }
    }
}

/// The time of events that never expire.
pub(crate) const NEVER: u64 = u64::MAX;

impl SendQueue {
    pub(crate) fn new(limit: usize, stats: Arc<Stats>) -> Self {
        Self {
            queue: Mutex::default(),
            limit,
            filled: Notify::new(),
            room: Notify::new(),
            overflow: Notify::new(),
            stats,
        }
    }

    /// What may wait here at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Queues answers as soon as there is room. Cancel safe: either all are queued or none.
    pub(crate) async fn send(&self, frames: impl IntoIterator<Item = Bytes>) {
        loop {
            let room = self.room.notified();
            let mut room = std::pin::pin!(room);
            room.as_mut().enable();
            if self.queue.lock().has_room() {
                break;
            }
            room.await;
        }
        self.push(frames.into_iter().map(|text| Queued {
            frame: Frame::Text(text),
            expires: NEVER,
        }));
    }

    /// Queues a live event unless the reader is too slow for it.
    pub(crate) fn offer(&self, text: Bytes, expires: u64) -> bool {
        let mut queue = self.queue.lock();
        if queue.overflowed || queue.closed {
            return false;
        }
        if queue.bytes + text.len() > self.limit {
            queue.overflowed = true;
            drop(queue);
            self.overflow.notify_one();
            return false;
        }
        drop(queue);
        self.push(std::iter::once(Queued {
            frame: Frame::Text(text),
            expires,
        }));
        true
    }

    /// Declares the reader too slow.
    pub(crate) fn overflow(&self) {
        self.queue.lock().overflowed = true;
        self.overflow.notify_one();
    }

    /// Queues a frame of the connection itself, without waiting.
    pub(crate) fn control(&self, frame: Frame) {
        self.push(std::iter::once(Queued {
            frame,
            expires: NEVER,
        }));
    }

    fn push(&self, frames: impl Iterator<Item = Queued>) {
        let mut queue = self.queue.lock();
        if queue.closed {
            return;
        }
        let was_empty = queue.frames.is_empty();
        let before = queue.bytes;
        for frame in frames {
            queue.bytes += frame.size_bytes();
            queue.frames.push_back(frame);
        }
        self.stats.outbound_bytes.add((queue.bytes - before) as u64);
        let wake = was_empty && !queue.frames.is_empty();
        drop(queue);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Sends what is queued until the queue is closed or the socket fails. One caller only.
    pub(crate) async fn run<S: Sink<Frame>>(&self, mut sink: SplitSink<S, Frame>) {
        // An error means that the other side is gone, which is all there is to know.
        while let Some(batch) = self.take(|| Timestamp::now().as_secs()).await {
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
                    self.sent(step);
                    left -= step;
                    fed = 0;
                }
            }
            if sink.flush().await.is_err() {
                return;
            }
            self.sent(left);
        }
        let _ = sink.close().await;
    }

    /// Takes all that is queued, what expired meanwhile left out; waits if there is nothing.
    /// `None` once the queue is closed and empty. One caller only.
    pub(crate) async fn take(&self, now: impl Fn() -> u64) -> Option<Batch> {
        loop {
            if let Some(batch) = self.take_ready(&now) {
                return Some(batch);
            }
            if self.queue.lock().closed {
                return None;
            }
            self.filled.notified().await;
        }
    }

    fn take_ready(&self, now: &impl Fn() -> u64) -> Option<Batch> {
        let mut queue = self.queue.lock();
        if queue.frames.is_empty() {
            return None;
        }
        let frames = std::mem::take(&mut queue.frames);
        drop(queue);
        let bytes = frames.iter().map(Queued::size_bytes).sum();
        let now = now();
        let frames = frames.into_iter().filter(|queued| queued.expires > now);
        Some(Batch {
            frames: frames.map(|queued| queued.frame).collect(),
            bytes,
        })
    }

    /// Notes that a batch is on its way: only then does its room count as free.
    pub(crate) fn sent(&self, batch_bytes: usize) {
        let mut queue = self.queue.lock();
        queue.bytes -= batch_bytes;
        queue.taken += 1;
        let has_room = queue.has_room();
        drop(queue);
        self.stats.outbound_bytes.sub(batch_bytes as u64);
        if has_room {
            self.room.notify_waiters();
        }
    }

    /// Waits until the reader turns out to be too slow.
    pub(crate) async fn overflowed(&self) {
        self.overflow.notified().await;
    }

    /// How many batches were sent, and whether something waits.
    pub(crate) fn progress(&self) -> (u64, bool) {
        let queue = self.queue.lock();
        (queue.taken, queue.bytes > 0)
    }

    /// Queues the last frames and lets [`SendQueue::take`] end after them. With `drop_queued` they
    /// take the place of what waits.
    pub(crate) fn close(&self, last: impl IntoIterator<Item = Frame>, drop_queued: bool) {
        let mut queue = self.queue.lock();
        if drop_queued {
            let dropped: usize = queue
                .frames
                .drain(..)
                .map(|queued| queued.size_bytes())
                .sum();
            queue.bytes -= dropped;
            self.stats.outbound_bytes.sub(dropped as u64);
        }
        drop(queue);
        last.into_iter().for_each(|frame| self.control(frame));
        self.queue.lock().closed = true;
        self.filled.notify_one();
        self.room.notify_waiters();
    }
}

impl Drop for SendQueue {
    fn drop(&mut self) {
        let left = self.queue.get_mut().bytes;
        self.stats.outbound_bytes.sub(left as u64);
    }
}

/// Frames taken from a [`SendQueue`], whose bytes are freed by [`SendQueue::sent`].
pub(crate) struct Batch {
    pub(crate) frames: Vec<Frame>,
    pub(crate) bytes: usize,
}

#[cfg(test)]
mod tests;
