//! `gripfast purgatory ls|retry|drop`.

mod render;

use anyhow::bail;
use grip_grasp::WaitingFacts;
use grip_web::api_types::WaitingEvents;
use reqwest::Method;

use crate::{
    cli::{NodeRequest, PurgatoryAction, WaitingEvent},
    commands::{client::Node, table, when::Now},
};

const PATH: [&str; 3] = ["api", "v1", "purgatory"];
/// How many events are listed, and looked through for one that is named by its beginning.
const LISTED: usize = 1000;

/// Lists waiting events, fetches the data of one at once, or drops it.
pub(crate) fn run(request: NodeRequest, action: PurgatoryAction) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    match action {
        PurgatoryAction::Ls => {
            let limit = request.limit(LISTED);
            node.show(&PATH, &[("limit", &limit)], render::list)
        }
        PurgatoryAction::Retry(WaitingEvent { id }) => {
            let event = find(&node, &id)?;
            let path = [&PATH[..], &[&event.id, "retry"]].concat();
            let done = format!(
                "fetching data of {} now; `gripfast explain {}` shows progress",
                event.name(),
                event.short()
            );
            node.order(Method::POST, &path, &[], &done)
        }
        PurgatoryAction::Drop { event, yes } => forget(&node, request.json, &event.id, yes),
    }
}

fn forget(node: &Node<'_>, json: bool, id: &str, yes: bool) -> anyhow::Result<()> {
    let event = find(node, id)?;
    if yes {
        let path = [&PATH[..], &[&event.id]].concat();
        let done = format!("dropped {}", event.name());
        return node.order(Method::DELETE, &path, &[], &done);
    }
    if json {
        let plan = serde_json::json!({ "event": event.id, "dropped": false, "dry_run": true });
        anstream::println!("{plan}");
    } else {
        table::print(&render::plan(&event, Now::new()));
    }
    Ok(())
}

/// An event that was named, with what is known of it.
#[derive(Debug)]
struct NamedEvent {
    id: String,
    facts: Option<WaitingFacts>,
}

/// Finds the one event that is named, whole or by its beginning.
fn find(node: &Node<'_>, id: &str) -> anyhow::Result<NamedEvent> {
    let list: WaitingEvents = node.data(&PATH, &[("limit", &LISTED.to_string())])?;
    let named = list.waiting.into_iter().map(|facts| NamedEvent {
        id: facts.id.clone(),
        facts: Some(facts),
    });
    pick(named, id)
}

fn pick(waiting: impl Iterator<Item = NamedEvent>, id: &str) -> anyhow::Result<NamedEvent> {
    let wanted = id.to_ascii_lowercase();
    if wanted.is_empty() || !wanted.bytes().all(|b| b.is_ascii_hexdigit()) {
        bail!("`{id}` is no event id; `gripfast purgatory ls` lists them");
    }
    let mut found = waiting.filter(|event| event.id.starts_with(&wanted));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => bail!("several waiting events begin with `{id}`: name more of it"),
        // One beyond the list can still be named whole.
        (None, _) if wanted.len() == 64 => Ok(NamedEvent {
            id: wanted,
            facts: None,
        }),
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
        let event = |id: &str| NamedEvent {
            id: id.into(),
            facts: None,
        };
        let all = || ["ab12", "ab34", "cd56"].map(event).into_iter();
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
