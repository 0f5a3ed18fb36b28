//! `gripfast repos ls|show|size|rm|block|unblock|blocks` and `gripfast events rm`.

mod render;

use anyhow::{Context as _, bail};
use grip_grasp::RepositoryFacts;
use grip_web::api_types::{RemovalReport, RepositoryList};
use reqwest::Method;
use serde::de::DeserializeOwned;

use crate::{
    cli::{EventsAction, NodeRequest, ReposAction},
    commands::{client::Node, explain, table},
};

const REPOS: [&str; 3] = ["api", "v1", "repos"];
const BLOCKS: [&str; 3] = ["api", "v1", "blocks"];

/// Lists, measures, removes and blocks repositories.
pub(crate) fn run(request: &NodeRequest, action: ReposAction) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    match action {
        ReposAction::Ls { limit } => {
            let limit = limit.to_string();
            node.show(&REPOS, &[("limit", &*limit)], |list: &RepositoryList, _| {
                render::list(list)
            })
        }
        ReposAction::Show { repository } => {
            let path = [&REPOS[..], &repository.split('/').collect::<Vec<_>>()].concat();
            node.show(&path, &[], |facts: &RepositoryFacts, _| render::one(facts))
        }
        ReposAction::Size { limit } => {
            let path = [&REPOS[..], &["sizes"]].concat();
            let limit = limit.to_string();
            let list: Answer<RepositoryList> =
                ask(&node, Method::GET, &path, &[("limit", &*limit)])?;
            list.show(request.json, render::sizes);
            Ok(())
        }
        ReposAction::Rm {
            repository,
            execute,
        } => remove(&node, request.json, ("repository", &*repository), execute),
        ReposAction::Block {
            subject,
            reason,
            execute,
        } => {
            let path = [&BLOCKS[..], &["add"]].concat();
            if !execute {
                return plan(request.json, &format!("block {subject}"), "blocked");
            }
            let parameters = [("subject", &*subject), ("reason", &*reason)];
            let done = format!("{subject} is blocked; `gripfast repos unblock` lifts it");
            node.order(Method::POST, &path, &parameters, &done)
        }
        ReposAction::Unblock { subject, execute } => {
            let path = [&BLOCKS[..], &["remove"]].concat();
            if !execute {
                return plan(request.json, &format!("unblock {subject}"), "unblocked");
            }
            let done = format!("{subject} is not blocked any more; what it had comes back");
            node.order(Method::POST, &path, &[("subject", &*subject)], &done)
        }
        ReposAction::Blocks => {
            let text = node.change(Method::GET, &BLOCKS, &[])?;
            node.show_text(text, render::blocks)
        }
    }
}

/// Removes events.
pub(crate) fn run_events(request: &NodeRequest, action: EventsAction) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let EventsAction::Rm {
        event,
        author,
        execute,
    } = action;
    match (event, author) {
        (Some(event), None) => {
            let id = explain::event_id(&node, &event)?;
            remove(&node, request.json, ("event", &*id), execute)
        }
        (None, Some(author)) => remove(&node, request.json, ("author", &*author), execute),
        _ => bail!("name an event, or an author with --author"),
    }
}

fn remove(node: &Node<'_>, json: bool, what: (&str, &str), execute: bool) -> anyhow::Result<()> {
    let path = match what.0 {
        "repository" => [&REPOS[..], &["remove"]].concat(),
        _ => vec!["api", "v1", "events", "remove"],
    };
    let mut parameters = vec![what];
    parameters.extend(execute.then_some(("execute", "true")));
    let report: Answer<RemovalReport> = ask(node, Method::POST, &path, &parameters)?;
    report.show(json, |report| render::removal(what.1, report));
    Ok(())
}

/// Says what an order without a plan of the node's own would do.
fn plan(json: bool, what: &str, key: &str) -> anyhow::Result<()> {
    if json {
        anstream::println!("{}", serde_json::json!({ "dry_run": true, key: false }));
    } else {
        table::print(&render::plan(what));
    }
    Ok(())
}

/// An answer as it came, and as data.
struct Answer<T> {
    text: String,
    data: T,
}

fn ask<T: DeserializeOwned>(
    node: &Node<'_>,
    method: Method,
    path: &[&str],
    parameters: &[(&str, &str)],
) -> anyhow::Result<Answer<T>> {
    let text = node.change(method, path, parameters)?;
    let data = serde_json::from_str(&text).context("the answer cannot be read")?;
    Ok(Answer { text, data })
}

impl<T> Answer<T> {
    fn show(&self, json: bool, render: impl FnOnce(&T) -> String) {
        if json {
            anstream::println!("{}", self.text);
        } else {
            table::print(&render(&self.data));
        }
    }
}
