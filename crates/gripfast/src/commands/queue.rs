//! `gripfast queue ls|retry|drop`.

mod render;

use reqwest::Method;
use serde_json::json;

use self::render::{Job, List};
use crate::{
    cli::{JobName, NodeRequest, QueueAction},
    commands::{client::Node, when::Now},
};

const PATH: [&str; 3] = ["api", "v1", "queue"];
/// How many jobs are listed.
const LISTED: &str = "1000";

/// Shows or steers what is due later.
pub(crate) fn run(request: NodeRequest, action: QueueAction) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    match action {
        QueueAction::Ls { kind, state } => {
            list(&node, request.json, kind.as_deref(), state.as_deref())
        }
        QueueAction::Retry(job) => retry(&node, request.json, &job),
        QueueAction::Drop { job, yes } => forget(&node, request.json, &job, yes),
    }
}

fn list(
    node: &Node<'_>,
    json: bool,
    kind: Option<&str>,
    state: Option<&str>,
) -> anyhow::Result<()> {
    let mut parameters = vec![("limit", LISTED)];
    parameters.extend(kind.map(|kind| ("kind", kind)));
    parameters.extend(state.map(|state| ("state", state)));
    if json {
        let all: serde_json::Value = node.data_where(&PATH, &parameters)?;
        anstream::println!("{all:#}");
        return Ok(());
    }
    let list: List = node.data_where(&PATH, &parameters)?;
    let is_narrowed = kind.is_some() || state.is_some();
    anstream::print!("{}", render::list(&list, is_narrowed, Now::new()));
    Ok(())
}

fn retry(node: &Node<'_>, json: bool, job: &JobName) -> anyhow::Result<()> {
    let path = [&PATH[..], &[&job.kind, &job.key, "retry"]].concat();
    let answer = node.change(Method::POST, &path)?;
    match json {
        true => anstream::println!("{}", answer.body.trim_end()),
        false => anstream::println!(
            "{} {} is due now; `gripfast queue ls --kind {}` shows how it goes",
            job.kind,
            job.key,
            job.kind
        ),
    }
    Ok(())
}

fn forget(node: &Node<'_>, json: bool, job: &JobName, yes: bool) -> anyhow::Result<()> {
    let JobName { kind, key } = job;
    if !yes {
        let found: Job = node.data_where(&[&PATH[..], &[kind, key]].concat(), &[])?;
        if json {
            let plan = json!({ "kind": kind, "key": key, "dropped": false, "dry_run": true });
            anstream::println!("{plan}");
        } else {
            anstream::print!("{}", render::plan(&found, Now::new()));
        }
        return Ok(());
    }
    let answer = node.change(Method::DELETE, &[&PATH[..], &[kind, key]].concat())?;
    match json {
        true => anstream::println!("{}", answer.body.trim_end()),
        false => anstream::println!("dropped {kind} {key}"),
    }
    Ok(())
}
