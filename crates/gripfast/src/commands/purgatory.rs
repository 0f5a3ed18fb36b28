//! `gripfast purgatory ls|retry|drop`.

mod render;

use anyhow::bail;
use reqwest::Method;

use self::render::{List, Waiting};
use crate::{
    cli::{NodeRequest, PurgatoryAction},
    commands::{client::Node, when::Now},
};

const PATH: [&str; 3] = ["api", "v1", "purgatory"];
/// How many events are listed, and looked through for one that is named by its beginning.
const LISTED: usize = 1000;

/// Shows or steers what waits.
pub(crate) fn run(request: NodeRequest, action: PurgatoryAction) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    match action {
        PurgatoryAction::Ls => list(&node, request.json),
        PurgatoryAction::Retry(id) => retry(&node, request.json, &id),
        PurgatoryAction::Drop { id, yes } => forget(&node, request.json, &id, yes),
    }
}

fn list(node: &Node<'_>, json: bool) -> anyhow::Result<()> {
    if json {
        let all: serde_json::Value = node.data(&PATH, LISTED)?;
        anstream::println!("{all:#}");
        return Ok(());
    }
    let list: List = node.data(&PATH, LISTED)?;
    anstream::print!("{}", render::list(&list, Now::new()));
    Ok(())
}

fn retry(node: &Node<'_>, json: bool, id: &str) -> anyhow::Result<()> {
    let waiting = find(node, id)?;
    let answer = node.change(Method::POST, &[&PATH[..], &[&waiting.id, "retry"]].concat())?;
    match json {
        true => anstream::println!("{}", answer.body.trim_end()),
        false => anstream::println!(
            "data of {} is looked for now; `gripfast explain {}` shows how it goes",
            waiting.name(),
            waiting.short()
        ),
    }
    Ok(())
}

fn forget(node: &Node<'_>, json: bool, id: &str, yes: bool) -> anyhow::Result<()> {
    let waiting = find(node, id)?;
    if !yes {
        if json {
            let plan =
                serde_json::json!({ "event": waiting.id, "dropped": false, "dry_run": true });
            anstream::println!("{plan}");
        } else {
            anstream::print!("{}", render::plan(&waiting, Now::new()));
        }
        return Ok(());
    }
    let answer = node.change(Method::DELETE, &[&PATH[..], &[&waiting.id]].concat())?;
    match json {
        true => anstream::println!("{}", answer.body.trim_end()),
        false => anstream::println!("dropped {}", waiting.name()),
    }
    Ok(())
}

/// Finds the one event that is named, whole or by its beginning.
fn find(node: &Node<'_>, id: &str) -> anyhow::Result<Waiting> {
    let list: List = node.data(&PATH, LISTED)?;
    pick(list.waiting, id)
}

fn pick(waiting: Vec<Waiting>, id: &str) -> anyhow::Result<Waiting> {
    let wanted = id.to_ascii_lowercase();
    if wanted.is_empty() || !wanted.bytes().all(|b| b.is_ascii_hexdigit()) {
        bail!("`{id}` is no event id; `gripfast purgatory ls` lists them");
    }
    let mut found = waiting.into_iter().filter(|w| w.id.starts_with(&wanted));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => bail!("several waiting events begin with `{id}`: name more of it"),
        // One beyond the list can still be named whole.
        (None, _) if wanted.len() == 64 => Ok(Waiting::of(wanted)),
        (None, _) => {
            bail!("no waiting event begins with `{id}`; `gripfast purgatory ls` lists them")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_by_its_beginning_if_that_is_enough() {
        let all = || {
            ["ab12", "ab34", "cd56"]
                .map(|id| Waiting::of(id.into()))
                .into()
        };
        assert_eq!(pick(all(), "CD").unwrap().id, "cd56");
        assert!(
            pick(all(), "ab")
                .unwrap_err()
                .to_string()
                .contains("several")
        );
        assert!(pick(all(), "ff").is_err() && pick(all(), "").is_err());
        assert!(pick(all(), "note1").is_err());
        let whole = "f".repeat(64);
        assert_eq!(pick(all(), &whole).unwrap().id, whole);
    }
}
