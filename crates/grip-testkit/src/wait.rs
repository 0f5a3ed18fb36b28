//! Waiting for a state with a deadline.

use std::{
    future::{Future, ready},
    time::Duration,
};

use anyhow::{Context as _, Result};

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
