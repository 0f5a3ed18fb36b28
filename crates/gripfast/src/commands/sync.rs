//! `gripfast sync status|now`.

mod render;

use anyhow::bail;
use reqwest::Method;

pub(crate) use self::render::attempts;
use crate::{
    cli::{NodeRequest, SyncAction},
    commands::client::Node,
};

const PATH: [&str; 3] = ["api", "v1", "sync"];
/// How much of each list is shown.
const LISTED: usize = 20;

/// Shows the search for missing data, or fetches at once.
pub(crate) fn run(request: NodeRequest, action: SyncAction) -> anyhow::Result<()> {
    let node = Node::new(&request)?;
    match action {
        SyncAction::Status => {
            let limit = request.limit(LISTED);
            node.show(&PATH, &[("limit", &limit)], render::page)?;
        }
        SyncAction::Now { subject } => {
            let identifier = identifier(&subject)?;
            let path = [&PATH[..], &[identifier, "now"]].concat();
            let done = format!("fetching {identifier} now; `gripfast sync status` shows progress");
            node.order(Method::POST, &path, &[], &done)?;
        }
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
