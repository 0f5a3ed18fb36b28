//! Names of this node's repositories in the database.
//!
//! Two nodes that share a database may host the same repository in different states, so the name
//! of the node is part of the name wherever nodes have one.

use grip_types::{Identifier, RepoAddr};

const SOURCE: &str = "hosted";

pub(super) struct Names {
    source: String,
    /// Empty, or the node and a slash.
    prefix: String,
}

impl Names {
    pub(super) fn new(node: &str) -> Self {
        let (source, prefix) = match node {
            "" => (SOURCE.to_owned(), String::new()),
            node => (format!("{SOURCE}@{node}"), format!("{node}/")),
        };
        Self { source, prefix }
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn write(&self, repo: &RepoAddr) -> String {
        format!("{}{repo}", self.prefix)
    }

    pub(super) fn read(&self, name: &str) -> Option<RepoAddr> {
        let (npub, identifier) = name.strip_prefix(&self.prefix)?.split_once('/')?;
        let identifier = Identifier::parse(identifier).ok()?;
        Some(RepoAddr::new(RepoAddr::parse_npub(npub)?, identifier))
    }
}
