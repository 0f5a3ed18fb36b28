//! `gripfast check`: the audit of the running node, page by page.

use anyhow::{Context as _, bail};
use grip_web::api_types::{CheckPage, DisagreementFacts};
use reqwest::Method;

use crate::{
    cli::NodeRequest,
    commands::{client::Node, table::Table},
};

const PATH: [&str; 3] = ["api", "v1", "check"];

/// Succeeds when relay and git agree about everything.
pub(crate) fn run(request: &NodeRequest, full: bool, repair: bool) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    let (mut identifiers, mut found) = (0, Vec::new());
    let mut after: Option<String> = None;
    loop {
        let mut parameters = Vec::new();
        parameters.extend(full.then_some(("full", "true")));
        parameters.extend(repair.then_some(("repair", "true")));
        parameters.extend(after.as_deref().map(|after| ("after", after)));
        let page = node.change(Method::POST, &PATH, &parameters)?;
        let page: CheckPage = serde_json::from_str(&page).context("the answer cannot be read")?;
        identifiers += page.identifiers;
        found.extend(page.disagreements);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if request.json {
        let all = serde_json::json!({ "identifiers": identifiers, "disagreements": found });
        anstream::println!("{all:#}");
    } else {
        anstream::print!("{}", render(&found));
    }
    if found.is_empty() {
        if !request.json {
            anstream::println!("{identifiers} identifiers: relay and git agree");
        }
        return Ok(());
    }
    let repaired = if repair {
        "; what could be repaired is"
    } else {
        ""
    };
    bail!(
        "{} disagreements in {identifiers} identifiers{repaired}",
        found.len()
    )
}

fn render(found: &[DisagreementFacts]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let mut table = Table::new(["repository", "kind", "what"], 2);
    for facts in found {
        table.row([&facts.repository, &facts.kind, &facts.text]);
    }
    table.render()
}
