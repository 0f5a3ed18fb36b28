//! Activity of a connection: tells one that keeps us waiting from one at work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::settings::Timeouts;

/// Marks of one connection, written by its stream and its requests, read by its watch.
///
/// Times are milliseconds since the connection began, plus one; 0 says "not now".
pub(crate) struct Activity {
    began: Instant,
    requests: AtomicUsize,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    /// Since when the answer under way is sent.
    answer_since: AtomicU64,
    blocked_since: AtomicU64,
    /// Milliseconds in which the client took nothing of the answer although there was something to take.
    blocked_total: AtomicU64,
    /// Of the answer: a quick one before it buys no slowness.
    written_bytes: AtomicU64,
}

/// A request under way, until its answer is sent.
pub(crate) struct Busy(Arc<Activity>);

/// What the watch of a connection should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is wrong; look again then.
    LookAt(Instant),
    /// The headers of a request did not come in time.
    SlowHead,
    /// No request came for long.
    Idle,
    /// The client takes nothing of our answer, or next to nothing for long, or took too long in all.
    Stuck,
    /// It has had the time of a connection beyond all bounds.
    Spent,
}

impl Activity {
    /// A connection just opened: its first request is due, so its time for the head runs.
    pub(crate) fn begin() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(1),
            head_since: AtomicU64::new(1),
            answer_since: AtomicU64::new(0),
            blocked_since: AtomicU64::new(0),
            blocked_total: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).map_or(u64::MAX, |ms| ms.saturating_add(1))
    }

    /// Notes that bytes came in; between requests they are the head of the next.
    pub(crate) fn read(&self) {
        if self.requests.load(Ordering::Acquire) == 0 {
            let now = self.now();
            let first = |old| (old == 0).then_some(now);
            let _ = self
                .head_since
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, first);
        }
    }

    /// Notes that the client took bytes.
    pub(crate) fn wrote(&self, bytes: usize) {
        let since = self.blocked_since.swap(0, Ordering::AcqRel);
        if since != 0 {
            let blocked = self.now().saturating_sub(since);
            self.blocked_total.fetch_add(blocked, Ordering::Relaxed);
        }
        self.written_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Says whether the client takes what we send too slowly on average, counting only the time in
    /// which we wait for it.
    fn is_too_slow(&self, now: u64, timeouts: &Timeouts) -> bool {
        let since = self.blocked_since.load(Ordering::Acquire);
        let current = if since == 0 {
            0
        } else {
            now.saturating_sub(since)
        };
        let blocked = Duration::from_millis(current + self.blocked_total.load(Ordering::Relaxed));
        timeouts.is_too_slow(blocked, self.written_bytes.load(Ordering::Relaxed))
    }

    /// Notes that the client takes nothing at the moment.
    pub(crate) fn blocked(&self) {
        let now = self.now();
        let first = |old| (old == 0).then_some(now);
        let _ = self
            .blocked_since
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, first);
    }

    /// Notes that a request is under way until the mark is dropped.
    pub(crate) fn request(self: &Arc<Self>) -> Busy {
        if self.requests.fetch_add(1, Ordering::AcqRel) == 0 {
            self.blocked_total.store(0, Ordering::Relaxed);
            self.written_bytes.store(0, Ordering::Relaxed);
        }
        self.head_since.store(0, Ordering::Release);
        Busy(Arc::clone(self))
    }

    pub(crate) fn check(&self, timeouts: &Timeouts) -> Verdict {
        let now = self.now();
        let over = |since: u64, allowed: Duration| {
            since != 0 && u128::from(now.saturating_sub(since)) >= allowed.as_millis()
        };
        if over(
            self.blocked_since.load(Ordering::Acquire),
            timeouts.write_stall,
        ) {
            return Verdict::Stuck;
        }
        if self.is_too_slow(now, timeouts)
            || over(self.answer_since.load(Ordering::Acquire), timeouts.transfer)
        {
            return Verdict::Stuck;
        }
        if self.requests.load(Ordering::Acquire) == 0 {
            if over(self.head_since.load(Ordering::Acquire), timeouts.header) {
                return Verdict::SlowHead;
            }
            if over(self.idle_since.load(Ordering::Acquire), timeouts.idle) {
                return Verdict::Idle;
            }
        }
        Verdict::LookAt(Instant::now() + self.soonest(now, timeouts))
    }

    /// How long nothing can become wrong. A head may begin at any time, so at most its time.
    fn soonest(&self, now: u64, timeouts: &Timeouts) -> Duration {
        let left = |since: u64, allowed: Duration| {
            let used = Duration::from_millis(now.saturating_sub(since));
            if since == 0 {
                allowed
            } else {
                allowed.saturating_sub(used)
            }
        };
        let head = left(self.head_since.load(Ordering::Acquire), timeouts.header);
        let blocked = left(
            self.blocked_since.load(Ordering::Acquire),
            timeouts.write_stall,
        );
        let answer = left(self.answer_since.load(Ordering::Acquire), timeouts.transfer);
        let idle = match self.requests.load(Ordering::Acquire) {
            0 => left(self.idle_since.load(Ordering::Acquire), timeouts.idle),
            _ => timeouts.idle,
        };
        // At least a millisecond, so that a watch never spins.
        let soonest = head.min(blocked).min(answer).min(idle);
        soonest.max(Duration::from_millis(1))
    }
}

impl Busy {
    /// Notes that its answer begins, which has the connection for itself.
    pub(crate) fn answers(&self) {
        self.0.answer_since.store(self.0.now(), Ordering::Release);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let now = self.0.now();
        self.0.idle_since.store(now, Ordering::Release);
        self.0.answer_since.store(0, Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn timeouts() -> Timeouts {
        Timeouts::default()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_cut_as_one_with_slow_headers() {
        let activity = Activity::begin();
        assert!(matches!(activity.check(&timeouts()), Verdict::LookAt(_)));
        advance(timeouts().header).await;
        assert_eq!(activity.check(&timeouts()), Verdict::SlowHead);
    }

    #[tokio::test(start_paused = true)]
    async fn trickling_bytes_do_not_buy_more_time_for_the_head() {
        let activity = Activity::begin();
        drop(activity.request());
        advance(timeouts().idle / 2).await;
        for _ in 0..9 {
            activity.read();
            advance(timeouts().header / 10).await;
            assert!(matches!(activity.check(&timeouts()), Verdict::LookAt(_)));
        }
        advance(timeouts().header / 10).await;
        assert_eq!(activity.check(&timeouts()), Verdict::SlowHead);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_is_no_idleness_and_the_time_counts_from_its_end() {
        let activity = Activity::begin();
        let busy = activity.request();
        advance(timeouts().idle * 10).await;
        assert!(matches!(activity.check(&timeouts()), Verdict::LookAt(_)));
        drop(busy);
        assert!(matches!(activity.check(&timeouts()), Verdict::LookAt(_)));
        advance(timeouts().idle).await;
        assert_eq!(activity.check(&timeouts()), Verdict::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_stuck() {
        let activity = Activity::begin();
        let _busy = activity.request();
        activity.blocked();
        advance(timeouts().write_stall / 2).await;
        activity.wrote(1 << 20);
        activity.blocked();
        advance(timeouts().write_stall / 2).await;
        assert!(matches!(activity.check(&timeouts()), Verdict::LookAt(_)));
        advance(timeouts().write_stall / 2).await;
        assert_eq!(activity.check(&timeouts()), Verdict::Stuck);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_byte_now_and_then_is_stuck_too() {
        let takes = |bytes: usize| async move {
            let activity = Activity::begin();
            let _busy = activity.request();
            for _ in 0..40 {
                activity.blocked();
                advance(Duration::from_secs(1)).await;
                activity.wrote(bytes);
            }
            activity.check(&timeouts())
        };
        assert_eq!(takes(1).await, Verdict::Stuck);
        assert!(matches!(takes(2 << 10).await, Verdict::LookAt(_)));
    }
    #[tokio::test(start_paused = true)]
    async fn a_quick_answer_buys_no_slowness_for_the_next() {
        let activity = Activity::begin();
        let quick = activity.request();
        activity.wrote(1 << 30);
        drop(quick);
        let _slow = activity.request();
        for _ in 0..40 {
            activity.blocked();
            advance(Duration::from_secs(1)).await;
            activity.wrote(1);
        }
        assert_eq!(activity.check(&timeouts()), Verdict::Stuck);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_read_quickly_enough_has_its_whole_time_and_no_more() {
        let activity = Activity::begin();
        for _ in 0..2 {
            let busy = activity.request();
            // What the client sends has a deadline of its own.
            advance(timeouts().transfer).await;
            busy.answers();
            activity.wrote(1 << 20);
            advance(timeouts().transfer - Duration::from_secs(1)).await;
            let soon = Instant::now() + Duration::from_secs(1);
            assert_eq!(activity.check(&timeouts()), Verdict::LookAt(soon));
            drop(busy);
        }
        let busy = activity.request();
        busy.answers();
        advance(timeouts().transfer).await;
        assert_eq!(activity.check(&timeouts()), Verdict::Stuck);
    }
}
