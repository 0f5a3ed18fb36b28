//! `gripfast sync status|now`.

mod render;

use anyhow::bail;
use reqwest::Method;

pub(crate) use self::render::{Tried, tried};
use crate::{
    cli::{NodeRequest, SyncAction},
    commands::{client::Node, when::Now},
};

/// How much of each list is shown.
const LISTED: usize = 20;

/// Shows or steers the search for missing data.
pub(crate) fn run(request: NodeRequest, action: SyncAction) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    match action {
        SyncAction::Status => status(&node, request.json),
        SyncAction::Now(subject) => now(&node, request.json, &subject),
    }
}

fn status(node: &Node<'_>, json: bool) -> anyhow::Result<()> {
    if json {
        let answer = node.get(&["api", "v1", "sync"])?;
        node.check(&answer)?;
        anstream::println!("{}", answer.body.trim_end());
        return Ok(());
    }
    let status = node.data(&["api", "v1", "sync"], LISTED)?;
    anstream::print!("{}", render::page(&status, Now::new()));
    Ok(())
}

fn now(node: &Node<'_>, json: bool, subject: &str) -> anyhow::Result<()> {
    let identifier = identifier(subject)?;
    let answer = node.change(Method::POST, &["api", "v1", "sync", identifier, "now"])?;
    match json {
        true => anstream::println!("{}", answer.body.trim_end()),
        false => anstream::println!(
            "data of {identifier} is looked for now; `gripfast sync status` shows how it goes"
        ),
    }
    Ok(())
}

/// The identifier of a subject: data is fetched for all owners of one together.
fn identifier(subject: &str) -> anyhow::Result<&str> {
    let identifier = match subject.split_once('/') {
        Some((owner, rest)) if owner.starts_with("npub1") => rest,
        Some(_) => bail!("`{subject}` is neither an identifier nor npub/identifier"),
        None => subject,
    };
    let identifier = identifier.strip_suffix(".git").unwrap_or(identifier);
    if identifier.is_empty() || identifier.contains('/') {
        bail!("`{subject}` is neither an identifier nor npub/identifier");
    }
    Ok(identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_named_with_or_without_its_owner() {
        for text in ["tides", "npub1x/tides", "npub1x/tides.git"] {
            assert_eq!(identifier(text).unwrap(), "tides", "{text}");
        }
        for text in ["", "a/b", "npub1x/", "npub1x/a/b"] {
            assert!(identifier(text).is_err(), "{text}");
        }
    }
}
