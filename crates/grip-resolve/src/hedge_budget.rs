//! Budget of hedges: requests beyond those that are needed.
//!
//! Invariant: within any window of [`WINDOW`] (less a twentieth, the grain of the count), hedges ≤
//! burst + percent of all requests. So under overload, when every response is late, the load on
//! others grows by no more than that.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Window in which requests count.
pub const WINDOW: Duration = Duration::from_secs(10);
/// Buckets of the window.
const BUCKETS: u32 = 20;

/// Requests and hedges of the current window.
#[derive(Default)]
pub(crate) struct HedgeBudget {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Oldest first; at most [`BUCKETS`] and one.
    buckets: VecDeque<Bucket>,
    requests: u64,
    hedges: u64,
}

struct Bucket {
    began: Instant,
    requests: u64,
    hedges: u64,
}

impl HedgeBudget {
    /// Counts a request that is no hedge.
    pub fn count(&self, now: Instant) {
        let mut state = self.state.lock();
        state.bucket(now).requests += 1;
        state.requests += 1;
    }

    /// Takes one hedge if the budget allows; it counts as a request as well.
    pub fn take(&self, percent: u32, burst: u32, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.bucket(now);
        let allowed = u64::from(burst) * 100 + (state.requests + 1) * u64::from(percent);
        if (state.hedges + 1) * 100 > allowed {
            return false;
        }
        let bucket = state.bucket(now);
        bucket.requests += 1;
        bucket.hedges += 1;
        state.requests += 1;
        state.hedges += 1;
        true
    }
}

impl State {
    /// The current bucket, once the old ones are dropped.
    fn bucket(&mut self, now: Instant) -> &mut Bucket {
        while let Some(oldest) = self.buckets.front()
            && now.saturating_duration_since(oldest.began) >= WINDOW
        {
            self.requests -= oldest.requests;
            self.hedges -= oldest.hedges;
            self.buckets.pop_front();
        }
        let length = WINDOW / BUCKETS;
        let is_over = |bucket: &Bucket| now.saturating_duration_since(bucket.began) >= length;
        if self.buckets.back().is_none_or(is_over) {
            self.buckets.push_back(Bucket {
                began: now,
                requests: 0,
                hedges: 0,
            });
        }
        self.buckets
            .back_mut()
            .expect("because one was just put there")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quiet_node_hedges_as_often_as_the_burst_allows() {
        let budget = HedgeBudget::default();
        let now = Instant::now();
        assert_eq!((0..20).filter(|_| budget.take(5, 10, now)).count(), 10);
        assert!(!budget.take(5, 10, now + WINDOW / 2));
        assert!(budget.take(5, 10, now + WINDOW));
    }

    #[test]
    fn without_budget_there_is_no_hedge() {
        let budget = HedgeBudget::default();
        (0..1_000).for_each(|_| budget.count(Instant::now()));
        assert!(!budget.take(0, 0, Instant::now()));
    }

    proptest! {
        #[test]
        fn hedges_stay_within_their_share_of_every_window(
            steps in prop::collection::vec((0..400_u64, any::<bool>()), 0..600),
            percent in 0..20_u32,
            burst in 0..5_u32,
        ) {
            let budget = HedgeBudget::default();
            let mut now = Instant::now();
            let mut asked: Vec<(Instant, bool)> = Vec::new();
            for (ms, wants_hedge) in steps {
                now += Duration::from_millis(ms);
                if !wants_hedge {
                    budget.count(now);
                    asked.push((now, false));
                } else if budget.take(percent, burst, now) {
                    asked.push((now, true));
                    // A bucket may be dropped early, never late.
                    let since = now.checked_sub(WINDOW - WINDOW / BUCKETS).unwrap_or(now);
                    let recent = asked.iter().filter(|(at, _)| *at >= since);
                    let hedges = recent.filter(|(_, hedge)| *hedge).count() as u64;
                    let all = asked.iter().filter(|(at, _)| now - *at <= WINDOW + WINDOW / BUCKETS);
                    let all = all.count() as u64;
                    prop_assert!(hedges * 100 <= u64::from(burst) * 100 + all * u64::from(percent));
                }
            }
        }
    }
}
