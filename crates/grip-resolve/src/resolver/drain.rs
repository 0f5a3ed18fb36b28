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

/// Waits for the signal to drain or to stop, ends what takes too long, and says which way it ended.
///
/// The one place that cuts resolutions: what is left is counted before.
pub(super) async fn run(core: Arc<Core>) {
    let cut = core.cut.clone().drop_guard();
    let stop = core.group.token();
    stop.run_until_cancelled(core.draining.cancelled()).await;
    let options = core.options.get();
    let (began, under_way) = (Instant::now(), core.flights.in_flight());
    let time = time(options.deadline, options.drain);
    stop.run_until_cancelled(sleep_until(began + time)).await;
    log_end(under_way, core.flights.in_flight(), began.elapsed());
    drop(cut);
}

fn log_end(under_way: usize, left: usize, waited: Duration) {
    if left > 0 {
        tracing::warn!(under_way, left, ?waited, "aborted resolutions");
    } else {
        tracing::info!(under_way, ?waited, "drained resolutions");
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
