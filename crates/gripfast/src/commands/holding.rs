//! `gripfast holding ls|restore|purge`: what was taken out of service and is kept.

use anyhow::{Context as _, bail};
use grip_web::api_types::{HeldBackFacts, HeldBackList};
use reqwest::Method;

use crate::{
    cli::{HeldRepository, HoldingAction, NodeRequest},
    commands::{
        client::Node,
        table::{Table, counted, more},
        when::Now,
    },
};

const PATH: [&str; 3] = ["api", "v1", "holding"];

/// Lists what is kept, brings it back, or destroys it.
pub(crate) fn run(request: &NodeRequest, action: HoldingAction) -> anyhow::Result<()> {
    let node = Node::new(request)?;
    match action {
        HoldingAction::Ls => {
            let limit = request.limit.map(|limit| limit.to_string());
            let parameters = limit.as_deref().map(|limit| ("limit", limit));
            let text = node.change(Method::POST, &PATH, parameters.as_slice())?;
            node.show_text(text, render)
        }
        HoldingAction::Restore(HeldRepository { name }) => {
            let (npub, identifier) = split(&name)?;
            let path = [&PATH[..], &[npub, identifier, "restore"]].concat();
            let answer = node.change(Method::POST, &path, &[])?;
            let restored = count(&answer, "restored")?;
            if restored == 0 {
                // Kept by the rules, or never there.
                kept(&node, &name)?;
            }
            let events = counted(restored, "event");
            say(
                request,
                &answer,
                &format!("brought back {events} of {name}"),
            );
            Ok(())
        }
        HoldingAction::Purge { repository, yes } => purge(&node, request, &repository.name, yes),
    }
}

fn purge(node: &Node<'_>, request: &NodeRequest, name: &str, yes: bool) -> anyhow::Result<()> {
    let (npub, identifier) = split(name)?;
    if yes {
        let path = [&PATH[..], &[npub, identifier]].concat();
        let answer = node.change(Method::DELETE, &path, &[])?;
        let (events, archives) = (count(&answer, "events")?, count(&answer, "archives")?);
        if events + archives == 0 {
            bail!("{}", nothing(name));
        }
        let (events, archives) = (counted(events, "event"), counted(archives, "archive"));
        say(
            request,
            &answer,
            &format!("destroyed {events} and {archives} of {name}"),
        );
        return Ok(());
    }
    let (events, archives) = kept(node, name)?
        .iter()
        .fold((0, 0), |(e, a), it| (e + it.events, a + it.archives));
    if request.json {
        let plan = serde_json::json!({ "events": events, "archives": archives, "dry_run": true });
        anstream::println!("{plan}");
    } else {
        let (events, archives) = (counted(events, "event"), counted(archives, "archive"));
        anstream::println!(
            "{events} and {archives} of {name} would be destroyed; --yes destroys them"
        );
    }
    Ok(())
}

/// What is kept of a repository; fails if that is nothing.
fn kept(node: &Node<'_>, name: &str) -> anyhow::Result<Vec<HeldBackFacts>> {
    let listed = node.change(Method::POST, &PATH, &[])?;
    let listed: HeldBackList =
        serde_json::from_str(&listed).context("the answer cannot be read")?;
    let mut held = listed.held;
    held.retain(|it| it.repository.as_deref() == Some(name));
    if held.is_empty() {
        bail!("{}", nothing(name));
    }
    Ok(held)
}

fn nothing(name: &str) -> String {
    format!("nothing is kept of {name}; `gripfast holding ls` lists what is")
}

/// A number in an answer.
fn count(answer: &str, what: &str) -> anyhow::Result<u64> {
    let done: serde_json::Value =
        serde_json::from_str(answer).context("the answer cannot be read")?;
    Ok(done[what].as_u64().unwrap_or_default())
}

/// Says what was done: the answer itself for `--json`.
fn say(request: &NodeRequest, answer: &str, text: &str) {
    let said = if request.json { answer } else { text };
    anstream::println!("{said}");
}

/// The owner and the identifier of a repository.
fn split(name: &str) -> anyhow::Result<(&str, &str)> {
    let split = name.split_once('/');
    let split =
        split.filter(|(npub, identifier)| npub.starts_with("npub1") && !identifier.is_empty());
    split.with_context(|| format!("`{name}` is no repository: write npub1…/identifier"))
}

fn render(list: &HeldBackList, now: Now) -> String {
    if list.held.is_empty() {
        return "nothing is kept\n".to_owned();
    }
    let mut table = Table::new(["repository", "reason", "events", "archives", "until"], 0);
    for facts in &list.held {
        let repository = facts.repository.as_deref().unwrap_or("-");
        let until = now.millis(facts.until);
        table.row([
            &repository,
            &facts.reason,
            &facts.events,
            &facts.archives,
            &until,
        ]);
    }
    let mut out = table.render();
    more(&mut out, list.total, list.held.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_repository_reason_and_end() {
        let list = HeldBackList {
            total: 3,
            held: vec![HeldBackFacts {
                repository: Some("npub1x/boats".into()),
                reason: "nip09".into(),
                events: 3,
                archives: 1,
                until: 90 * 24 * 3600 * 1000,
            }],
        };
        let text = render(&list, Now::at(0));
        assert!(
            text.contains("npub1x/boats") && text.contains("nip09") && text.contains("in 90d"),
            "{text}"
        );
        assert!(text.contains("and 2 more"), "{text}");
        assert_eq!(
            render(&HeldBackList::default(), Now::at(0)),
            "nothing is kept\n"
        );
        assert!(split("boats").is_err() && split("npub1x/boats").is_ok());
    }
}
