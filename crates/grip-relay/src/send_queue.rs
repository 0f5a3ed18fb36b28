//! Frames that wait to be sent to one connection, bounded in bytes, and the loop that sends them.
//!
//! Whose memory it is: the first of it belongs to the connection. Answers beyond take the quota of
//! its network before they are made; live events, which all their subscribers share, do once the
//! reader has been behind for a moment. From then on it delays the writer no more, either.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, stream::SplitSink};
use grip_nostr::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use crate::{Frame, Stats, quota::Held, reply};

/// Answers wait while more than this is queued, so that a reader who is behind is not sent more.
const COMFORTABLE_BYTES: usize = 512 << 10;
/// Bytes are freed in steps of this size while a batch is sent.
const STEP_BYTES: usize = 64 << 10;
/// What a queued frame costs besides its bytes.
pub(crate) const OVERHEAD_BYTES: usize = 64;
/// What every connection may have queued, whatever its network has.
const OWN_BYTES: usize = 64 << 10;
/// Answers that are made where the network has no quota left.
const SMALL_BYTES: usize = OWN_BYTES / 2;
/// A reader whose queue has not been empty for so long lags.
const LAG: Duration = Duration::from_secs(1);
/// How often it is looked whether the network has quota again.
const QUOTA_RETRY: Duration = Duration::from_millis(100);

/// The queue between the answers and live events for a connection and its socket.
///
/// Answers to the connection's own messages wait for room ([`SendQueue::reserve`]); live events do
/// not ([`SendQueue::offer`]): if one does not fit, the reader is too slow and is cut, because
/// leaving the event out would be a silent loss.
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

struct Queue {
    frames: VecDeque<Queued>,
    bytes: usize,
    /// Of those, what only this connection holds.
    answers: usize,
    /// Promised to answers that are being made.
    reserved: usize,
    /// What is taken of the quota of all.
    held: Held,
    /// Frames taken since the connection began, to see whether there is progress.
    taken: u64,
    /// Since when the queue has not been empty.
    behind_since: Option<Instant>,
    lags: bool,
    overflowed: bool,
    closed: bool,
}

impl Queue {
    /// A closed queue takes anything, and drops it.
    fn has_room(&self) -> bool {
        self.closed || self.bytes + self.reserved < COMFORTABLE_BYTES
    }

    /// Takes quota for what is queued and reserved, and `more`; gives back what is not needed.
    fn hold(&mut self, more: usize) -> bool {
        let live = if self.lags {
            self.bytes - self.answers
        } else {
            0
        };
        let needed = self.answers + self.reserved + live + more;
        let needed = needed
            .saturating_sub(OWN_BYTES)
            .next_multiple_of(STEP_BYTES);
        let is_spare = self.held.amount() > needed + 4 * STEP_BYTES || needed == 0;
        needed <= self.held.amount() && !is_spare || self.held.resize(needed)
    }
}

/// What is sent.
enum Message {
    Frame(Frame),
    /// An event with its head `["EVENT","…",`, joined when its turn comes: until then its JSON is
    /// shared by all subscribers.
    Event {
        head: Bytes,
        json: Bytes,
    },
}

impl Message {
    fn into_frame(self) -> Frame {
        match self {
            Self::Frame(frame) => frame,
            Self::Event { head, json } => Frame::Text(reply::event(&head, &json)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Frame(Frame::Text(bytes) | Frame::Ping(bytes) | Frame::Pong(bytes)) => {
                bytes.len()
            }
            Self::Frame(_) => 0,
            Self::Event { head, json } => head.len() + json.len(),
        }
    }
}

/// A message with the time after which it must not be sent (NIP-40).
struct Queued {
    message: Message,
    expires: u64,
}

impl Queued {
    fn size_bytes(&self) -> usize {
        OVERHEAD_BYTES + self.message.len()
    }

    fn is_live(&self) -> bool {
        matches!(self.message, Message::Event { .. })
    }
}

impl From<Frame> for Queued {
    fn from(frame: Frame) -> Self {
        Self {
            message: Message::Frame(frame),
            expires: NEVER,
        }
    }
}

/// The time of events that never expire.
pub(crate) const NEVER: u64 = u64::MAX;

/// Room for answers that are about to be made; free again on drop.
pub(crate) struct Room<'q> {
    send_queue: &'q SendQueue,
    bytes: usize,
}

impl Room<'_> {
    /// What the answers may measure, [`OVERHEAD_BYTES`] for each included.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Queues the answers.
    pub(crate) fn send(self, frames: impl IntoIterator<Item = Bytes>) {
        self.send_queue.answer(frames);
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let mut queue = self.send_queue.queue.lock();
        queue.reserved -= self.bytes;
        queue.hold(0);
    }
}

impl SendQueue {
    pub(crate) fn new(limit: usize, held: Held, stats: Arc<Stats>) -> Self {
        Self {
            queue: Mutex::new(Queue {
                frames: VecDeque::new(),
                bytes: 0,
                answers: 0,
                reserved: 0,
                held,
                taken: 0,
                behind_since: None,
                lags: false,
                overflowed: false,
                closed: false,
            }),
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

    /// Waits until the queue is short enough for another answer.
    pub(crate) async fn has_room(&self) {
        self.when_room(|_| Some(())).await;
    }

    /// Waits for room for answers of `bytes`, or for few where the network has no quota left.
    pub(crate) async fn reserve(&self, bytes: usize) -> Room<'_> {
        self.when_room(|queue| {
            if queue.hold(bytes) {
                Some(bytes)
            } else {
                (queue.bytes + queue.reserved == 0 || queue.closed).then_some(SMALL_BYTES)
            }
            .map(|bytes| self.promise(queue, bytes))
        })
        .await
    }

    /// Waits for room for an answer of `bytes` that cannot be made smaller, however long it takes.
    pub(crate) async fn reserve_whole(&self, bytes: usize) -> Room<'_> {
        let fits = |queue: &mut Queue| {
            let fits = bytes <= SMALL_BYTES || queue.closed || queue.hold(bytes);
            fits.then(|| self.promise(queue, bytes))
        };
        loop {
            // What frees the quota may be another connection, which tells nobody.
            if let Ok(room) = timeout(QUOTA_RETRY, self.when_room(fits)).await {
                return room;
            }
        }
    }

    fn promise<'q>(&'q self, queue: &mut Queue, bytes: usize) -> Room<'q> {
        queue.reserved += bytes;
        Room {
            send_queue: self,
            bytes,
        }
    }

    /// Waits until the queue is short and `take` gives something.
    async fn when_room<T>(&self, take: impl Fn(&mut Queue) -> Option<T>) -> T {
        loop {
            let room = self.room.notified();
            let mut room = std::pin::pin!(room);
            room.as_mut().enable();
            if let Some(taken) = self.take_room(&take) {
                return taken;
            }
            room.await;
        }
    }

    fn take_room<T>(&self, take: impl Fn(&mut Queue) -> Option<T>) -> Option<T> {
        let mut queue = self.queue.lock();
        if queue.has_room() {
            take(&mut queue)
        } else {
            None
        }
    }

    /// Queues small answers without waiting. Their number is bounded by messages that were read, and
    /// reading waits for room.
    pub(crate) fn answer(&self, frames: impl IntoIterator<Item = Bytes>) {
        let frames = frames.into_iter().map(Frame::Text);
        self.push(self.queue.lock(), frames.map(Queued::from), None);
    }

    /// Queues a live event unless the reader is too slow for it.
    pub(crate) fn offer(&self, head: &Bytes, json: &Bytes, expires: u64, now: Instant) -> bool {
        let mut queue = self.queue.lock();
        if queue.overflowed || queue.closed {
            return false;
        }
        self.note_lag(&mut queue, now);
        let bytes = head.len() + json.len();
        if queue.bytes + bytes > self.limit || queue.lags && !queue.hold(bytes) {
            queue.overflowed = true;
            drop(queue);
            self.overflow.notify_one();
            return false;
        }
        let message = Message::Event {
            head: head.clone(),
            json: json.clone(),
        };
        let queued = Queued { message, expires };
        self.push(queue, std::iter::once(queued), Some(now));
        true
    }

    /// Declares the reader too slow.
    pub(crate) fn overflow(&self) {
        self.queue.lock().overflowed = true;
        self.overflow.notify_one();
    }

    /// Queues a frame of the connection itself, without waiting.
    pub(crate) fn control(&self, frame: Frame) {
        self.push(self.queue.lock(), std::iter::once(frame.into()), None);
    }

    fn push(
        &self,
        mut queue: MutexGuard<'_, Queue>,
        frames: impl Iterator<Item = Queued>,
        now: Option<Instant>,
    ) {
        if queue.closed {
            return;
        }
        let was_empty = queue.frames.is_empty();
        let before = queue.bytes;
        for frame in frames {
            let size = frame.size_bytes();
            queue.bytes += size;
            if !frame.is_live() {
                queue.answers += size;
            }
            queue.frames.push_back(frame);
        }
        let more = (queue.bytes - before) as u64;
        self.stats.outbound_bytes.add(more);
        if queue.lags {
            self.stats.lagging_bytes.add(more);
        }
        if queue.behind_since.is_none() && more > 0 {
            queue.behind_since = Some(now.unwrap_or_else(Instant::now));
        }
        let wake = was_empty && !queue.frames.is_empty();
        drop(queue);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Finds out whether the reader has been behind for too long.
    fn note_lag(&self, queue: &mut Queue, now: Instant) {
        let lags = queue.behind_since.is_some_and(|since| now >= since + LAG);
        if lags && !queue.lags {
            queue.lags = true;
            self.stats.lagging_bytes.add(queue.bytes as u64);
        }
    }

    /// Sends what is queued until the queue is closed or the socket fails. One caller only.
    pub(crate) async fn run<S: Sink<Frame>>(&self, mut sink: SplitSink<S, Frame>) {
        // An error means that the other side is gone, which is all there is to know.
        while let Some(batch) = self.take(|| Timestamp::now().as_secs()).await {
            let sending = self.send_batch(&mut sink, batch);
            tokio::pin!(sending);
            let sent = tokio::select! {
                biased;
                sent = &mut sending => sent,
                () = sleep(LAG) => {
                    self.stalled();
                    sending.await
                }
            };
            if sent.is_err() {
                return;
            }
        }
        let _ = sink.close().await;
    }

    /// The reader takes its time: what it has counts as its network's from now on.
    fn stalled(&self) {
        let mut queue = self.queue.lock();
        self.note_lag(&mut queue, Instant::now());
        let is_beyond = queue.lags && !queue.hold(0);
        drop(queue);
        if is_beyond {
            self.overflow();
        }
    }

    async fn send_batch<S: Sink<Frame>>(
        &self,
        sink: &mut SplitSink<S, Frame>,
        batch: Batch,
    ) -> Result<(), S::Error> {
        let mut left = (batch.bytes, batch.answers);
        let (mut before, mut fed) = ((0, 0), (0, 0));
        for queued in batch.queued {
            let bytes = queued.size_bytes();
            let answers = if queued.is_live() { 0 } else { bytes };
            sink.feed(queued.message.into_frame()).await?;
            // The socket still has the last one; what was fed before it is on its way.
            fed = (fed.0 + before.0, fed.1 + before.1);
            before = (bytes, answers);
            if fed.0 >= STEP_BYTES {
                self.sent(fed.0, fed.1);
                left = (left.0 - fed.0, left.1 - fed.1);
                fed = (0, 0);
            }
        }
        sink.flush().await?;
        self.sent(left.0, left.1);
        Ok(())
    }

    /// Takes all that is queued, what expired meanwhile left out; waits if there is nothing.
    /// `None` once the queue is closed and empty. One caller only.
    async fn take(&self, now: impl Fn() -> u64) -> Option<Batch> {
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
        let mut queued = std::mem::take(&mut queue.frames);
        drop(queue);
        let bytes = queued.iter().map(Queued::size_bytes).sum();
        let answers = queued.iter().filter(|queued| !queued.is_live());
        let answers = answers.map(Queued::size_bytes).sum();
        let now = now();
        queued.retain(|queued| queued.expires > now);
        Some(Batch {
            queued,
            bytes,
            answers,
        })
    }

    /// Notes that a batch is on its way: only then does its room count as free.
    fn sent(&self, bytes: usize, answers: usize) {
        let mut queue = self.queue.lock();
        queue.taken += 1;
        self.remove(&mut queue, bytes, answers);
        if queue.bytes == 0 {
            queue.behind_since = None;
            queue.lags = false;
        }
        queue.hold(0);
        let has_room = queue.has_room();
        drop(queue);
        if has_room {
            self.room.notify_waiters();
        }
    }

    fn remove(&self, queue: &mut Queue, bytes: usize, answers: usize) {
        queue.bytes -= bytes;
        queue.answers -= answers;
        self.stats.outbound_bytes.sub(bytes as u64);
        if queue.lags {
            self.stats.lagging_bytes.sub(bytes as u64);
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

    /// Queues the last frames and lets [`SendQueue::run`] end after them. With `drop_queued` they
    /// take the place of what waits.
    pub(crate) fn close(&self, last: impl IntoIterator<Item = Frame>, drop_queued: bool) {
        let mut queue = self.queue.lock();
        if drop_queued {
            let dropped = std::mem::take(&mut queue.frames);
            let bytes = dropped.iter().map(Queued::size_bytes).sum();
            let answers = dropped.iter().filter(|queued| !queued.is_live());
            let answers = answers.map(Queued::size_bytes).sum();
            self.remove(&mut queue, bytes, answers);
            queue.hold(0);
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
        let queue = self.queue.get_mut();
        let left = queue.bytes as u64;
        self.stats.outbound_bytes.sub(left);
        if queue.lags {
            self.stats.lagging_bytes.sub(left);
        }
    }
}

/// What was taken from a [`SendQueue`]; its bytes are freed by [`SendQueue::sent`].
struct Batch {
    queued: VecDeque<Queued>,
    bytes: usize,
    answers: usize,
}

#[cfg(test)]
impl SendQueue {
    /// Takes what is queued as if it had been sent.
    pub(crate) async fn drain(&self, now: u64) -> Option<Vec<Frame>> {
        let batch = self.take(|| now).await?;
        self.sent(batch.bytes, batch.answers);
        let queued = batch.queued.into_iter();
        Some(queued.map(|queued| queued.message.into_frame()).collect())
    }
}

#[cfg(test)]
mod tests;
