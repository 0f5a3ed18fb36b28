//! `gripfast ingest status|gaps|backfill|reextract|retention`.

mod backfill;
mod render;

use reqwest::Method;
use serde::de::DeserializeOwned;

use self::render::{Gaps, Retention, Status};
use crate::{
    cli::{IngestAction, NodeRequest},
    commands::{client::Node, when::Now},
};

const PATH: [&str; 3] = ["api", "v1", "github"];
/// How many gaps are listed.
const LISTED: &str = "500";

/// Shows or steers what is taken in from GitHub.
pub(crate) fn run(request: NodeRequest, action: IngestAction) -> anyhow::Result<()> {
    if let IngestAction::Backfill(files) = action {
        return backfill::run(&request, &files);
    }
    let node = Node::new(&request)?;
    let json = request.json;
    match action {
        IngestAction::Status => {
            let render = |status: Status, now| render::status(&status, now);
            show(&node, json, "status", &[], render)
        }
        IngestAction::Gaps { all } => {
            let open = if all { "false" } else { "true" };
            let parameters = [("limit", LISTED), ("open", open)];
            let render = |gaps: Gaps, now| render::gaps(&gaps, all, now);
            show(&node, json, "gaps", &parameters, render)
        }
        IngestAction::Reextract => {
            let said = order(&node, "reextract", &[])?;
            match json {
                true => anstream::println!("{said}"),
                false => anstream::println!(
                    "everything is read again; `gripfast ingest status` shows how far it is"
                ),
            }
            Ok(())
        }
        IngestAction::Retention { yes } => {
            let dry_run = if yes { "false" } else { "true" };
            let said = order(&node, "retention", &[("dry_run", dry_run)])?;
            match json {
                true => anstream::println!("{said}"),
                false => {
                    let retention: Retention = serde_json::from_str(&said)?;
                    anstream::print!("{}", render::retention(&retention));
                }
            }
            Ok(())
        }
        IngestAction::Backfill(_) => unreachable!("because it was done above"),
    }
}

fn show<T: DeserializeOwned>(
    node: &Node<'_>,
    json: bool,
    what: &str,
    parameters: &[(&str, &str)],
    render: impl FnOnce(T, Now) -> String,
) -> anyhow::Result<()> {
    let path = [&PATH[..], &[what]].concat();
    if json {
        let answer: serde_json::Value = node.data_where(&path, parameters)?;
        anstream::println!("{answer:#}");
        return Ok(());
    }
    let answer = node.data_where(&path, parameters)?;
    anstream::print!("{}", render(answer, Now::new()));
    Ok(())
}

fn order(node: &Node<'_>, what: &str, parameters: &[(&str, &str)]) -> anyhow::Result<String> {
    let path = [&PATH[..], &[what]].concat();
    let answer = node.change_where(Method::POST, &path, parameters)?;
    Ok(answer.body.trim_end().to_owned())
}
