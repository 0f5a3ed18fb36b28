//! How long a walk waits.

use std::{ops::Range, time::Duration};

use tokio::time::{Instant, sleep_until};

use crate::Options;

/// How long before its deadline a walk ends at least, if it has found something, and at most.
/// Timers know nothing shorter than a millisecond.
const MARGIN: Range<Duration> = Duration::from_millis(2)..Duration::from_millis(25);

/// Until when more is waited for where there is an answer already: those who were asked at once
/// have had their time.
pub(crate) fn soon(options: &Options, began: Instant, deadline: Instant) -> Instant {
    (began + options.question).min(last(began, deadline))
}

/// When to hand over what was found, so that whoever has the same deadline still hears it.
pub(super) fn last(began: Instant, deadline: Instant) -> Instant {
    let rest = deadline.saturating_duration_since(began);
    let margin = (rest / 20).clamp(MARGIN.start, MARGIN.end);
    deadline - margin.min(rest)
}

/// Comes at the moment, or never.
pub(super) async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Give or take a fifth, so that many nodes do not hedge as one.
pub(super) fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(rand::random_range(0.8..=1.2))
}
