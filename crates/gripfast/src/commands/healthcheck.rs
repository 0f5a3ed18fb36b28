//! `gripfast healthcheck`: for containers, where no curl is at hand.

use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::json;

use crate::{
    cli::NodeRequest,
    commands::client::{fetch, place},
    config::ProcessEnvironment,
};

/// Longer than a node that is well ever needs to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Succeeds when the node says that it is ready.
pub(crate) fn run(request: &NodeRequest) -> anyhow::Result<()> {
    let base = place(request, &ProcessEnvironment)?.url;
    let url = format!("{base}/readyz");
    let answer = fetch(&url, PATIENCE).with_context(|| format!("no response from {url}"))?;
    let (is_ready, said) = (answer.status == 200, answer.body.trim());
    if request.json {
        let report = json!({ "url": base, "is_ready": is_ready, "answer": said });
        anstream::println!("{report:#}");
    } else if is_ready {
        anstream::println!("ready");
    }
    if !is_ready {
        bail!("{url} says {}: {said}", answer.status);
    }
    Ok(())
}
