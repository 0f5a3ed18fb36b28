//! Waiting for a state with a deadline.

use std::{
    future::{Future, ready},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

/// How long anything may take before a test gives up: generous, because machines are shared.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How often a state is looked at.
pub(crate) const STEP: Duration = Duration::from_millis(10);

/// Looks until `probe` gives a value, at most [`DEADLINE`] long.
pub async fn until<T, F, P>(what: &str, mut probe: P) -> Result<T>
where
    P: FnMut() -> F,
    F: Future<Output = Option<T>>,
{
    let looking = async {
        loop {
            if let Some(found) = probe().await {
                return found;
            }
            tokio::time::sleep(STEP).await;
        }
    };
    within(what, looking).await
}

/// Looks until `is_so` holds.
pub async fn until_true(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    until(what, || ready(is_so().then_some(()))).await
}

/// Waits for something long, as long as it advances: `look` says how far it is, or nothing once it
/// has ended.
pub async fn while_advancing(
    what: &str,
    stalled: Duration,
    mut look: impl AsyncFnMut() -> Result<Option<u64>>,
) -> Result<()> {
    let (mut last, mut since) = (None, Instant::now());
    while let Some(now) = look().await? {
        if last != Some(now) {
            (last, since) = (Some(now), Instant::now());
        }
        ensure!(since.elapsed() < stalled, "{what} is stuck at {now}");
        tokio::time::sleep(10 * STEP).await;
    }
    Ok(())
}

/// [`until`] for probes that may fail: they are repeated, and the last error is reported.
pub async fn until_ok<T>(
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let mut last_error = None;
    let looking = async {
        loop {
            match probe().await {
                Ok(Some(found)) => return found,
                Ok(None) => last_error = None,
                Err(error) => last_error = Some(error),
            }
            tokio::time::sleep(STEP).await;
        }
    };
    let found = within(what, looking).await;
    found.map_err(|timeout| match last_error {
        Some(error) => error.context(timeout.to_string()),
        None => timeout,
    })
}

/// Runs `future` to its end, at most [`DEADLINE`] long.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    let finished = tokio::time::timeout(DEADLINE, future).await;
    finished.with_context(|| format!("timed out: {what}"))
}
