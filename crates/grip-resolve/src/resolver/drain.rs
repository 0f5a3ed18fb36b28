//! Drain: how resolutions in flight end when the node stops.
//!
//! Callers stop coming first. What is in flight then has until its own deadline, or until shortly
//! before the drain deadline of the node if that is earlier: so that a caller is answered, and is not
//! cut off with its connection.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::Core;

/// How long before the drain deadline of the node the last resolutions end, at least and at most:
/// their responses are still to be written.
const MARGIN: std::ops::Range<Duration> = Duration::from_millis(50)..Duration::from_millis(500);

/// Waits for the signal to drain, then ends what takes too long, and says which way it ended.
pub(super) async fn run(core: Arc<Core>) {
    let stop = core.group.token();
    if stop
        .run_until_cancelled(core.draining.cancelled())
        .await
        .is_none()
    {
        return;
    }
    let options = core.options.get();
    let under_way = core.flights.in_flight();
    let time = time(options.deadline, options.drain);
    tokio::select! {
        () = stop.cancelled() => {
            let left = core.flights.in_flight();
            tracing::info!(under_way, left, "drained resolutions");
        }
        () = sleep_until(Instant::now() + time) => {
            let left = core.flights.in_flight();
            core.cut.cancel();
            if left > 0 {
                tracing::warn!(under_way, left, ?time, "aborted resolutions at the drain deadline");
            } else {
                tracing::info!(under_way, left, "drained resolutions");
            }
        }
    }
}

/// How long resolutions may go on: as long as a resolution may, and shorter than the node drains.
fn time(deadline: Duration, drain: Duration) -> Duration {
    let margin = (drain / 10).clamp(MARGIN.start, MARGIN.end);
    deadline.min(drain.saturating_sub(margin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolution_may_go_on_to_its_deadline_unless_the_node_drains_for_a_shorter_time() {
        let ms = Duration::from_millis;
        assert_eq!(time(ms(1_200), ms(5_000)), ms(1_200));
        assert_eq!(time(ms(8_000), ms(5_000)), ms(4_500));
        assert_eq!(time(ms(1_200), ms(1_000)), ms(900));
        assert_eq!(time(ms(1_200), ms(20)), ms(0));
    }
}
