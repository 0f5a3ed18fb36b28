//! The pause after secondary rate limits, which grows while they go on.
//!
//! GitHub asks callers who are refused again after the time it named to wait ever longer. The pause
//! binds all calls of the gateway, because these limits do.

use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::GitHubError;

/// Pause after the second refusal in a row; it doubles with each further one.
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(60 * 60);

#[derive(Default)]
pub(super) struct SecondaryPause {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Refusals in a row, those of calls that were under way together counted once.
    refusals: u32,
    refused_at: Option<Instant>,
    until: Option<Instant>,
}

impl SecondaryPause {
    /// Refuses calls during the pause.
    pub(super) fn check(&self) -> Result<(), GitHubError> {
        let until = self.state.lock().until;
        let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
        match rest.filter(|rest| !rest.is_zero()) {
            None => Ok(()),
            Some(rest) => Err(GitHubError::Throttled {
                until: SystemTime::now() + rest,
                refused: None,
            }),
        }
    }

    /// Takes over how a call ended that began at `began`; a refusal is given the time of the pause.
    pub(super) fn note<T>(
        &self,
        began: Instant,
        called: Result<T, GitHubError>,
    ) -> Result<T, GitHubError> {
        let mut state = self.state.lock();
        match called {
            Ok(done) => {
                // What began before the refusal says nothing about the time after it.
                if state.refused_at.is_none_or(|at| began > at) {
                    *state = State::default();
                }
                Ok(done)
            }
            Err(GitHubError::RateLimited {
                until,
                secondary: true,
            }) => {
                let named = until.duration_since(SystemTime::now()).unwrap_or_default();
                let until = SystemTime::now() + state.refused(began, named);
                Err(GitHubError::RateLimited {
                    until,
                    secondary: true,
                })
            }
            Err(error) => Err(error),
        }
    }
}

impl State {
    /// How long the pause lasts from now.
    fn refused(&mut self, began: Instant, named: Duration) -> Duration {
        let now = Instant::now();
        if self.refused_at.is_none_or(|at| began > at) {
            self.refusals = self.refusals.saturating_add(1);
            self.refused_at = Some(now);
        }
        let grown = match self.refusals {
            0 | 1 => Duration::ZERO,
            more => FIRST.saturating_mul(1 << (more - 2).min(8)).min(LONGEST),
        };
        let pause = named.max(grown);
        self.until = self.until.max(Some(now + pause));
        if self.refusals > 1 {
            let (refusals, pause_s) = (self.refusals, pause.as_secs());
            tracing::warn!(
                refusals,
                pause_s,
                "pausing longer for a secondary rate limit"
            );
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(named_s: u64) -> Result<(), GitHubError> {
        Err(GitHubError::RateLimited {
            until: SystemTime::now() + Duration::from_secs(named_s),
            secondary: true,
        })
    }

    fn wait_s(pause: &SecondaryPause) -> u64 {
        match pause.check() {
            Err(GitHubError::Throttled { until, .. }) => {
                let wait = until.duration_since(SystemTime::now()).unwrap();
                wait.as_secs_f64().round() as u64
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_doubles_while_refusals_go_on_and_ends_with_a_success() {
        let pause = SecondaryPause::default();
        for expected in [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600] {
            tokio::time::advance(Duration::from_secs(1)).await;
            let began = Instant::now();
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(pause.note(began, refused(30)).is_err());
            assert_eq!(wait_s(&pause), expected);
            // Those that were under way with it count as one.
            assert!(pause.note(began, refused(30)).is_err());
            assert_eq!(wait_s(&pause), expected);
            tokio::time::advance(Duration::from_secs(expected)).await;
            assert!(pause.check().is_ok());
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(pause.note(Instant::now(), Ok(())).is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(pause.note(Instant::now(), refused(30)).is_err());
        assert_eq!(wait_s(&pause), 30);
    }
}
