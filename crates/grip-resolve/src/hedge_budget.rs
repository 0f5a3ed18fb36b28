//! How much more than needed may be asked.
//!
//! Invariant: within any window of [`WINDOW`] (less a twentieth, the grain of the count), hedges ≤
//! burst + percent of all requests. So under overload, when every answer is late, the load on
//! others grows by no more than that.

use std::{collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How far back requests count.
pub const WINDOW: Duration = Duration::from_secs(10);
/// The window is counted in parts.
const PARTS: u32 = 20;

/// Counts requests and hedges of the last moments.
#[derive(Default)]
pub(crate) struct HedgeBudget {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Oldest first; at most [`PARTS`] and one.
    parts: VecDeque<Part>,
    requests: u64,
    hedges: u64,
}

struct Part {
    began: Instant,
    requests: u64,
    hedges: u64,
}

impl HedgeBudget {
    /// Counts a request that is no hedge.
    pub fn count(&self, now: Instant) {
        let mut state = self.state.lock();
        state.part(now).requests += 1;
        state.requests += 1;
    }

    /// Takes leave for one hedge, which counts as a request as well.
    pub fn take(&self, percent: u32, burst: u32, now: Instant) -> bool {
        let mut state = self.state.lock();
        state.part(now);
        let allowed = u64::from(burst) * 100 + (state.requests + 1) * u64::from(percent);
        if (state.hedges + 1) * 100 > allowed {
            return false;
        }
        let part = state.part(now);
        part.requests += 1;
        part.hedges += 1;
        state.requests += 1;
        state.hedges += 1;
        true
    }
}

impl State {
    /// The part of now, once the old ones are forgotten.
    fn part(&mut self, now: Instant) -> &mut Part {
        while let Some(oldest) = self.parts.front()
            && now.saturating_duration_since(oldest.began) >= WINDOW
        {
            self.requests -= oldest.requests;
            self.hedges -= oldest.hedges;
            self.parts.pop_front();
        }
        let length = WINDOW / PARTS;
        let is_over = |part: &Part| now.saturating_duration_since(part.began) >= length;
        if self.parts.back().is_none_or(is_over) {
            self.parts.push_back(Part {
                began: now,
                requests: 0,
                hedges: 0,
            });
        }
        self.parts
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
                    // A part of the window may be forgotten early, never late.
                    let since = now.checked_sub(WINDOW - WINDOW / PARTS).unwrap_or(now);
                    let recent = asked.iter().filter(|(at, _)| *at >= since);
                    let hedges = recent.filter(|(_, hedge)| *hedge).count() as u64;
                    let all = asked.iter().filter(|(at, _)| now - *at <= WINDOW + WINDOW / PARTS);
                    let all = all.count() as u64;
                    prop_assert!(hedges * 100 <= u64::from(burst) * 100 + all * u64::from(percent));
                }
            }
        }
    }
}
