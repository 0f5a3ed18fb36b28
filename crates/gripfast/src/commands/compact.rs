//! `gripfast compact`.

use anyhow::Context as _;
use grip_web::api_types::CompactionReport;
use reqwest::Method;

use crate::{
    cli::NodeRequest,
    commands::{
        client::Node,
        progress::{Progress, size},
    },
};

const PATH: [&str; 4] = ["api", "v1", "events", "compact"];

/// Compacts the event store of the running node, which goes on to the end even if this command does not.
pub(crate) fn run(request: &NodeRequest) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    // Asked first, so that a node that does not run is named before a token that is missing.
    node.get(&["healthz"])?;
    let mut progress = Progress::bytes("compact", 0);
    let (answer, report) = loop {
        let answer = node.change_slowly(Method::POST, &PATH, &[])?;
        let report: CompactionReport =
            serde_json::from_str(&answer).context("the answer cannot be read")?;
        let total = report
            .total_bytes
            .or(report.bytes_after)
            .unwrap_or_default();
        let written = report.copied_bytes.or(report.bytes_after);
        progress.set(written.unwrap_or_default(), total);
        if report.compacted {
            break (answer, report);
        }
    };
    progress.finish();
    if request.json {
        anstream::println!("{}", answer.trim_end());
    } else {
        let [before, after] =
            [report.bytes_before, report.bytes_after].map(|it| size(it.unwrap_or(0)));
        anstream::println!("compacted the event store: {before} before, {after} now");
    }
    Ok(())
}
