//! `gripfast ingest status|gaps|backfill|reextract|retention`.

mod backfill;
mod reextract;
mod render;

use reqwest::Method;

use crate::{
    cli::{IngestAction, NodeRequest},
    commands::{client::Node, table},
};

/// How many gaps are listed.
const LISTED: usize = 500;

/// Shows what is known of GitHub, reads files of events, or has stored events read again.
pub(crate) fn run(request: NodeRequest, action: IngestAction) -> anyhow::Result<()> {
    let node = || Node::new(&request);
    let path = |what| ["api", "v1", "github", what];
    match action {
        IngestAction::Backfill { files } => backfill::run(&request, &files),
        IngestAction::Status => node()?.show(&path("status"), &[], render::status),
        IngestAction::Gaps { all } => {
            let open = if all { "false" } else { "true" };
            let limit = request.limit(LISTED);
            let parameters = [("limit", limit.as_str()), ("open", open)];
            let render = |gaps: &_, now| render::gaps(gaps, all, now);
            node()?.show(&path("gaps"), &parameters, render)
        }
        IngestAction::Reextract => reextract::run(&node()?, &request),
        IngestAction::Retention { yes } => {
            let dry_run = if yes { "false" } else { "true" };
            let parameters = [("dry_run", dry_run)];
            let response = node()?.change(Method::POST, &path("retention"), &parameters)?;
            if request.json {
                anstream::println!("{response}");
            } else {
                let retention = serde_json::from_str(&response)?;
                table::print(&render::retention(&retention));
            }
            Ok(())
        }
    }
}
