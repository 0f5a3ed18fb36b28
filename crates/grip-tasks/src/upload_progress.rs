//! Progress of an upload: the recent rate of its sender, and whether it has to make room.
//!
//! An upload holds a permit, a process and memory for as long as its sender takes. That is nobody's loss
//! while there is enough; where others wait, the slow ones make room. What counts is the last few seconds:
//! by its average, an upload that sends a hundred megabytes in one go could rest for an hour after it. The
//! time in which nobody reads is not the sender's. The longer an upload goes on, the quicker it has to be,
//! so that many that are just quick enough do not keep everything for as long as they like.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Slower uploads make room for others, in their first minute.
pub const SLOW_BYTES_PER_SECOND: u64 = 32 << 10;
/// Seconds over which the rate is taken, and before the end of which no upload is called slow.
const WINDOW: usize = 5;
/// With each of these an upload has to be quicker by as much as at first, until it is a quarter of a
/// mebibyte a second: large pushes of maintainers over a slow line go on.
const STEP: Duration = Duration::from_secs(60);
const MAX_STEPS: u64 = 8;

/// A transfer that can be made to end, so that others have what it holds.
pub trait MakesRoom: Send + Sync {
    /// How quick its client is, if so slow that it is to make room; none if it is not.
    fn slow_bytes_per_second(&self) -> Option<u64>;
    /// Ends it. False if it goes on.
    fn make_room(&self) -> bool;
}

/// The progress of one upload, shared by those who read it and those who may need its place.
#[derive(Default)]
pub struct UploadProgress {
    pace: Mutex<Pace>,
    displaced: CancellationToken,
}

#[derive(Default)]
struct Pace {
    /// How long its sender was waited for, without the present wait.
    waited: Duration,
    waiting_since: Option<Instant>,
    received_bytes: u64,
    /// What came in each of the last seconds of that time, in a ring.
    seconds: [u64; WINDOW],
    /// The second that is counted now.
    second: u64,
    /// All of the body is here: what takes time now is not its sender.
    has_ended: bool,
    is_whole: bool,
}

impl UploadProgress {
    /// The longest time before a slow upload is known as one.
    pub const GRACE: Duration = Duration::from_secs(WINDOW as u64);

    /// Notes that its sender is waited for.
    pub fn waiting(&self) {
        let mut pace = self.pace.lock();
        pace.waiting_since.get_or_insert_with(Instant::now);
    }

    /// Notes that so many bytes came.
    pub fn received(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut pace = self.pace.lock();
        pace.advance();
        pace.waited = pace.waited_now();
        pace.waiting_since = None;
        pace.received_bytes = pace.received_bytes.saturating_add(bytes);
        let second = pace.place();
        pace.seconds[second] = pace.seconds[second].saturating_add(bytes);
    }

    /// Notes the end of the body. From here on the upload is not slow, however long the node takes.
    pub fn ended(&self) {
        self.pace.lock().has_ended = true;
    }

    pub fn received_bytes(&self) -> u64 {
        self.pace.lock().received_bytes
    }

    /// What came recently.
    pub fn bytes_per_second(&self) -> u64 {
        let mut pace = self.pace.lock();
        pace.advance();
        let seconds = pace.waited_now().as_secs().clamp(1, WINDOW as u64);
        pace.recent_bytes() / seconds
    }

    /// Says whether it is to make room where somebody waits.
    pub fn is_slow(&self) -> bool {
        let mut pace = self.pace.lock();
        pace.advance();
        let waited = pace.waited_now();
        let steps = (1 + waited.as_secs() / STEP.as_secs()).min(MAX_STEPS);
        let least = SLOW_BYTES_PER_SECOND * steps * WINDOW as u64;
        !pace.has_ended && waited >= Self::GRACE && pace.recent_bytes() < least
    }

    pub fn is_whole(&self) -> bool {
        self.pace.lock().is_whole
    }

    /// Notes that the upload is complete, and makes room for nobody any more. False if it had to before.
    pub fn complete(&self) -> bool {
        let mut pace = self.pace.lock();
        let is_displaced = self.displaced.is_cancelled();
        pace.is_whole |= !is_displaced;
        !is_displaced
    }

    /// Has it make room for another. False if it is complete.
    pub fn displace(&self) -> bool {
        let pace = self.pace.lock();
        if !pace.is_whole {
            self.displaced.cancel();
        }
        !pace.is_whole
    }

    pub fn is_displaced(&self) -> bool {
        self.displaced.is_cancelled()
    }

    /// Resolves when it must make room. Cancel safe.
    pub async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl MakesRoom for UploadProgress {
    fn slow_bytes_per_second(&self) -> Option<u64> {
        let may_go = !self.is_displaced() && !self.is_whole() && self.is_slow();
        may_go.then(|| self.bytes_per_second())
    }

    fn make_room(&self) -> bool {
        self.displace()
    }
}

impl Pace {
    fn waited_now(&self) -> Duration {
        let now = self.waiting_since.map_or(Duration::ZERO, |at| at.elapsed());
        self.waited + now
    }

    /// Comes to the present second; those in which nothing came are empty.
    fn advance(&mut self) {
        let now = self.waited_now().as_secs();
        if now - self.second >= WINDOW as u64 {
            self.seconds = [0; WINDOW];
            self.second = now;
        }
        while self.second < now {
            self.second += 1;
            let second = self.place();
            self.seconds[second] = 0;
        }
    }

    fn place(&self) -> usize {
        (self.second % WINDOW as u64) as usize
    }

    fn recent_bytes(&self) -> u64 {
        self.seconds
            .iter()
            .fold(0, |sum, it| sum.saturating_add(*it))
    }
}

/// Notes the progress of what is read.
pub struct WatchedUpload<R> {
    reader: R,
    progress: Arc<UploadProgress>,
}

impl<R> WatchedUpload<R> {
    pub fn new(reader: R, progress: Arc<UploadProgress>) -> Self {
        Self { reader, progress }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for WatchedUpload<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(cx, buf);
        if read.is_pending() {
            self.progress.waiting();
            return read;
        }
        let bytes = buf.filled().len() - before;
        self.progress.received(bytes);
        if bytes == 0 && buf.remaining() > 0 {
            self.progress.ended();
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SLOW: usize = SLOW_BYTES_PER_SECOND as usize;

    /// Sends so much every second.
    async fn send(progress: &UploadProgress, bytes: usize, seconds: usize) {
        for _ in 0..seconds {
            progress.waiting();
            advance(SECOND).await;
            progress.received(bytes);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_rests_after_a_quick_start_is_slow_within_the_window() {
        let progress = UploadProgress::default();
        progress.received(100 << 20);
        assert!(!progress.is_slow());
        progress.waiting();
        advance(UploadProgress::GRACE - SECOND / 2).await;
        assert!(!progress.is_slow());
        advance(SECOND / 2).await;
        assert!(progress.is_slow());
        assert_eq!(progress.bytes_per_second(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_in_one_go_count_for_the_window_and_no_longer() {
        let progress = UploadProgress::default();
        for _ in 0..10 {
            send(&progress, 0, 2).await;
            send(&progress, 5 * SLOW, 1).await;
            send(&progress, 0, 1).await;
            assert!(!progress.is_slow());
        }
        send(&progress, 0, 8).await;
        assert!(progress.is_slow());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_reader_is_not_the_senders() {
        let progress = UploadProgress::default();
        send(&progress, 2 * SLOW, 6).await;
        advance(STEP * 60).await;
        assert!(!progress.is_slow());
        send(&progress, 2 * SLOW, 2).await;
        assert!(!progress.is_slow());
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_on_for_long_has_to_be_quicker() {
        let progress = UploadProgress::default();
        send(&progress, SLOW + 1, 59).await;
        assert!(!progress.is_slow());
        send(&progress, SLOW + 1, 2).await;
        assert!(progress.is_slow());
        send(&progress, 3 * SLOW, 5).await;
        assert!(!progress.is_slow());
        send(&progress, 3 * SLOW, 120).await;
        assert!(progress.is_slow());
        send(&progress, 8 * SLOW, 3_600).await;
        assert!(!progress.is_slow());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_here_to_its_end_is_not_slow_while_it_is_checked() {
        let progress = Arc::<UploadProgress>::default();
        send(&progress, 1, 10).await;
        assert!(progress.is_slow());
        let mut upload = WatchedUpload::new(&b"end"[..], Arc::clone(&progress));
        let mut read = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut upload, &mut read)
            .await
            .unwrap();
        assert_eq!(read, b"end");
        assert!(!progress.is_slow());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_complete_makes_room_for_nobody() {
        let (whole, displaced) = (UploadProgress::default(), UploadProgress::default());
        assert!(whole.complete());
        assert!(!whole.displace() && !whole.is_displaced());
        assert!(displaced.displace());
        displaced.displaced().await;
        assert!(!displaced.complete());
    }
}
