//! Waiting for a state with a deadline.

use std::{future::Future, time::Duration};

use anyhow::{Context as _, Result};

/// How long anything may take before a test gives up: generous, because machines are shared.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How often a state is looked at.
const STEP: Duration = Duration::from_millis(10);

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
    tokio::time::timeout(DEADLINE, looking)
        .await
        .with_context(|| format!("waited in vain: {what}"))
}

/// Runs `future` to its end, at most [`DEADLINE`] long.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(DEADLINE, future)
        .await
        .with_context(|| format!("waited in vain: {what}"))
}
