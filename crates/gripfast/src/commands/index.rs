//! `gripfast index status|now|repo`.

mod render;

use reqwest::Method;
use serde::de::DeserializeOwned;

use self::render::{Repo, Status};
use crate::{
    cli::{IndexAction, NodeRequest},
    commands::{client::Node, when::Now},
};

const PATH: [&str; 3] = ["api", "v1", "index"];
/// How many tags of a repository are shown.
const LISTED: &str = "200";

/// Shows or steers the index.
pub(crate) fn run(request: NodeRequest, action: IndexAction) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    match action {
        IndexAction::Status => {
            let render = |status: Status, now| render::status(&status, now);
            show(&node, request.json, &PATH, &[], render)
        }
        IndexAction::Repo(name) => {
            let path = [&PATH[..], &["repos", &name]].concat();
            let render = |repo: Repo, now| render::repo(&repo, now);
            show(&node, request.json, &path, &[("limit", LISTED)], render)
        }
        IndexAction::Now(name) => now(&node, request.json, &name),
    }
}

fn show<T: DeserializeOwned>(
    node: &Node<'_>,
    json: bool,
    path: &[&str],
    parameters: &[(&str, &str)],
    render: impl FnOnce(T, Now) -> String,
) -> anyhow::Result<()> {
    if json {
        let answer: serde_json::Value = node.data_where(path, parameters)?;
        anstream::println!("{answer:#}");
        return Ok(());
    }
    let answer = node.data_where(path, parameters)?;
    anstream::print!("{}", render(answer, Now::new()));
    Ok(())
}

fn now(node: &Node<'_>, json: bool, name: &str) -> anyhow::Result<()> {
    let path = [&PATH[..], &["now"]].concat();
    let answer = node.change_where(Method::POST, &path, &[("name", name)])?;
    match json {
        true => anstream::println!("{}", answer.body.trim_end()),
        false => {
            anstream::println!("{name} is indexed now; `gripfast queue ls` shows how it goes");
        }
    }
    Ok(())
}
