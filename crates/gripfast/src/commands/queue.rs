//! `gripfast queue ls|causes|retry|revive|drop`.

mod render;

use grip_queue::JobFacts;
use reqwest::Method;
use serde_json::json;

use crate::{
    cli::{JobName, NodeRequest, QueueAction},
    commands::{client::Node, table, when::Now},
};

const PATH: [&str; 3] = ["api", "v1", "queue"];
/// How many jobs are listed.
const LISTED: usize = 1000;

/// Lists jobs and what they failed for, runs them now, or drops one.
pub(crate) fn run(request: NodeRequest, action: QueueAction) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    match action {
        QueueAction::Ls { kind, state } => {
            let limit = request.limit(LISTED);
            let mut parameters = vec![("limit", limit.as_str())];
            parameters.extend(kind.as_deref().map(|kind| ("kind", kind)));
            parameters.extend(state.as_deref().map(|state| ("state", state)));
            let is_narrowed = kind.is_some() || state.is_some();
            node.show(&PATH, &parameters, |jobs, now| {
                render::list(jobs, is_narrowed, now)
            })
        }
        QueueAction::Retry(JobName { kind, key }) => {
            let path = [&PATH[..], &[&kind, &key, "retry"]].concat();
            let done = format!(
                "{kind} {key} is due now; `gripfast queue ls --kind {kind}` shows progress"
            );
            node.order(Method::POST, &path, &[], &done)
        }
        QueueAction::Causes { kind } => {
            let path = [&PATH[..], &["causes"]].concat();
            let parameters: Vec<_> = kind.iter().map(|kind| ("kind", &**kind)).collect();
            node.show(&path, &parameters, render::causes)
        }
        QueueAction::Revive { kind, cause } => {
            let path = [&PATH[..], &["revive"]].concat();
            let kind = kind.iter().map(|kind| ("kind", &**kind));
            let cause = cause.iter().map(|cause| ("cause", &**cause));
            let parameters: Vec<_> = kind.chain(cause).collect();
            node.order_shown(Method::POST, &path, &parameters, render::revived)
        }
        QueueAction::Drop { job, yes } => forget(&node, request.json, &job, yes),
    }
}

fn forget(node: &Node<'_>, json: bool, job: &JobName, yes: bool) -> anyhow::Result<()> {
    let JobName { kind, key } = job;
    let path = [&PATH[..], &[kind, key]].concat();
    if yes {
        let done = format!("dropped {kind} {key}");
        return node.order(Method::DELETE, &path, &[], &done);
    }
    let found: JobFacts = node.data(&path, &[])?;
    if json {
        let plan = json!({ "kind": kind, "key": key, "dropped": false, "dry_run": true });
        anstream::println!("{plan}");
    } else {
        table::print(&render::plan(&found, Now::new()));
    }
    Ok(())
}
