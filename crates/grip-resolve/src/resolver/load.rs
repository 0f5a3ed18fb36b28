//! Expected wait for a worker, from how long resolutions have taken.
//!
//! A resolution whose turn would come too late for its deadline is refused at once: its caller is
//! told so in a millisecond instead of after the whole deadline, and the queue stays short.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// The weight of the latest resolution in the averages: an eighth.
const WEIGHT: u64 = 8;

/// Moving averages of the workers' times. Nothing is expected before a first resolution ended.
#[derive(Default)]
pub(super) struct Load {
    /// How long a resolution occupies its worker, whatever its end.
    occupied_us: AtomicU64,
    /// How long one takes that is answered in time.
    answered_us: AtomicU64,
}

impl Load {
    /// Notes the end of a resolution.
    pub fn note(&self, took: Duration, is_in_time: bool) {
        average(&self.occupied_us, took);
        if is_in_time {
            average(&self.answered_us, took);
        }
    }

    /// How long a resolution waits that has `ahead` others before it, with the workers or waiting.
    pub fn expected_wait(&self, ahead: usize, workers: usize) -> Duration {
        let Some(before) = (ahead + 1).checked_sub(workers.max(1)) else {
            return Duration::ZERO;
        };
        let turns = before as f64 / workers.max(1) as f64;
        Duration::from_micros(self.occupied_us.load(Relaxed)).mul_f64(turns)
    }

    /// The wait, if it leaves too little of `budget` for an answer.
    pub fn too_long_wait(
        &self,
        ahead: usize,
        workers: usize,
        budget: Duration,
    ) -> Option<Duration> {
        let wait = self.expected_wait(ahead, workers);
        let needed = Duration::from_micros(self.answered_us.load(Relaxed));
        (!wait.is_zero() && wait + needed >= budget).then_some(wait)
    }
}

/// Two at the same time may lose one of the samples: it is an estimate.
fn average(average_us: &AtomicU64, took: Duration) {
    let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let before = average_us.load(Relaxed);
    let now = match before {
        0 => took,
        before => before - before / WEIGHT + took / WEIGHT,
    };
    average_us.store(now.max(1), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_millis(1_200);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn nothing_is_expected_before_the_first_end_and_while_a_worker_is_free() {
        let load = Load::default();
        assert_eq!(load.too_long_wait(500, 1, BUDGET), None);
        load.note(ms(2_000), true);
        assert_eq!(load.expected_wait(3, 4), ms(0));
        assert_eq!(load.too_long_wait(3, 4, BUDGET), None);
    }

    #[test]
    fn a_turn_that_comes_too_late_is_known_beforehand() {
        let load = Load::default();
        for _ in 0..50 {
            load.note(ms(100), true);
        }
        // Four workers finish forty in a second; the fiftieth waits 1.2 s and takes 0.1 s more.
        assert_eq!(load.expected_wait(4 + 39, 4), ms(1_000));
        assert_eq!(load.too_long_wait(4 + 39, 4, BUDGET), None);
        assert_eq!(load.too_long_wait(4 + 47, 4, BUDGET), Some(ms(1_200)));
    }

    #[test]
    fn silent_peers_make_waits_longer_and_answers_no_slower() {
        let load = Load::default();
        for _ in 0..80 {
            load.note(ms(1_200), false);
        }
        load.note(ms(50), true);
        // One turn of 64 workers is 1.2 s: half of it may be waited.
        let wait = load.expected_wait(64 + 31, 64);
        assert!(wait > ms(500) && wait < ms(600), "{wait:?}");
        assert_eq!(load.too_long_wait(64 + 31, 64, BUDGET), None);
        assert!(load.too_long_wait(64 + 70, 64, BUDGET).is_some());
    }

    #[test]
    fn the_averages_follow_a_change_within_a_few_dozen_resolutions() {
        let load = Load::default();
        (0..50).for_each(|_| load.note(ms(1_200), false));
        (0..50).for_each(|_| load.note(ms(10), true));
        let wait = load.expected_wait(1, 1);
        assert!(wait < ms(20), "{wait:?}");
    }
}
