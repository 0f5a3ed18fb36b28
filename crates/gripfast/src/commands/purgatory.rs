//! `gripfast purgatory ls|retry|drop`.

mod render;

use anyhow::Context as _;
use grip_grasp::{Explanation, Status, WaitingFacts};
use grip_web::api_types::WaitingEvents;
use reqwest::Method;

use crate::{
    cli::{NodeRequest, PurgatoryAction, WaitingEvent},
    commands::{client::Node, explain, table, when::Now},
};

const PATH: [&str; 3] = ["api", "v1", "purgatory"];
/// How many events are listed.
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
    /// None beyond what a list has.
    facts: Option<WaitingFacts>,
}

/// Finds the one event that is named, whole or by its beginning, and waits.
fn find(node: &Node<'_>, text: &str) -> anyhow::Result<NamedEvent> {
    let Explanation {
        status,
        summary,
        event,
        ..
    } = explain::event(node, text)?;
    let waits = matches!(status, Status::Held | Status::Wanted);
    let event = event.filter(|_| waits).with_context(|| {
        format!("`{text}` names no event that waits: {summary}; `gripfast purgatory ls` lists them")
    })?;
    let listed: WaitingEvents = node.data(&PATH, &[("limit", &LISTED.to_string())])?;
    let facts = listed.waiting.into_iter().find(|it| it.id == event.id);
    Ok(NamedEvent {
        id: event.id,
        facts,
    })
}
