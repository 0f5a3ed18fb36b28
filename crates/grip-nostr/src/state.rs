//! Kind 30618: repository states.

use std::collections::{BTreeMap, BTreeSet};

use grip_types::{Identifier, InvalidIdentifier, Oid, RefName};
use nostr::prelude::Event;

use crate::{kinds, tags};

/// What a state event says the branches and tags are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub event: Event,
    pub identifier: Identifier,
    /// Branches and tags, peeled lines and symbolic values left out; the first of a name counts.
    pub refs: BTreeMap<RefName, Oid>,
    /// Branches and tags whose value names no object that can be here. Such a state waits, but never
    /// matches.
    pub unresolvable: BTreeSet<RefName>,
    /// The branch HEAD names, if it is one of `refs`.
    pub head: Option<RefName>,
}

/// Why an event is no usable state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidState {
    #[error("kind {0} is no repository state")]
    Kind(u16),
    #[error("a state needs a `d` tag")]
    NoIdentifier,
    #[error(transparent)]
    Identifier(#[from] InvalidIdentifier),
    #[error("{0:?} cannot be a git ref, so this state could never be satisfied")]
    RefName(String),
    #[error("{0} and {1} cannot exist side by side in git")]
    Conflict(RefName, RefName),
}

impl State {
    pub fn parse(event: Event) -> Result<Self, InvalidState> {
        if event.kind != kinds::STATE {
            return Err(InvalidState::Kind(event.kind.as_u16()));
        }
        let d = tags::first_value(&event, "d").ok_or(InvalidState::NoIdentifier)?;
        let identifier = Identifier::parse(d)?;
        let (refs, unresolvable) = read_refs(&event)?;
        refuse_conflicts(&refs)?;
        let head = read_head(&event).filter(|head| refs.contains_key(head));
        Ok(Self {
            event,
            identifier,
            refs,
            unresolvable,
            head,
        })
    }

    /// Says whether every value is an object id, so that the state can be satisfied at all.
    pub fn is_satisfiable(&self) -> bool {
        self.unresolvable.is_empty()
    }

    /// The objects that must be here before this state may be served, each once.
    pub fn oids(&self) -> Vec<Oid> {
        let mut oids: Vec<Oid> = self.refs.values().copied().collect();
        oids.sort_unstable();
        oids.dedup();
        oids
    }
}

/// The refs by name, and the names whose value is no object id.
fn read_refs(event: &Event) -> Result<(BTreeMap<RefName, Oid>, BTreeSet<RefName>), InvalidState> {
    let (mut refs, mut unresolvable) = (BTreeMap::new(), BTreeSet::new());
    for tag in event.tags.iter() {
        let name = tag.kind();
        let is_ref = name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
        let Some(value) = tag.content().filter(|_| is_ref) else {
            continue;
        };
        if name.ends_with("^{}") || value.starts_with("ref: ") {
            continue;
        }
        let name = RefName::parse(name).map_err(|_| InvalidState::RefName(name.to_owned()))?;
        if refs.contains_key(&name) || unresolvable.contains(&name) {
            continue;
        }
        let oid = value.parse::<Oid>().ok().filter(can_be_here);
        if let Some(oid) = oid {
            refs.insert(name, oid);
        } else {
            unresolvable.insert(name);
        }
    }
    Ok((refs, unresolvable))
}

/// Repositories are SHA-1 ones, and no object has the id of zeros.
fn can_be_here(oid: &Oid) -> bool {
    oid.format() == grip_types::ObjectFormat::Sha1 && !oid.is_zero()
}

/// A branch cannot be a directory of other branches. Sorted order does not put `a` right before
/// `a/b` (`a-c` lies between), so every parent is looked up.
fn refuse_conflicts(refs: &BTreeMap<RefName, Oid>) -> Result<(), InvalidState> {
    for name in refs.keys() {
        for (slash, _) in name.as_str().match_indices('/').skip(2) {
            if let Some((parent, _)) = refs.get_key_value(&name.as_str()[..slash]) {
                return Err(InvalidState::Conflict(parent.clone(), name.clone()));
            }
        }
    }
    Ok(())
}

fn read_head(event: &Event) -> Option<RefName> {
    let value = tags::first_value(event, "HEAD")?;
    let target = value.strip_prefix("ref: ").unwrap_or(value).trim();
    RefName::parse(target).ok().filter(RefName::is_head)
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};

    use super::*;

    #[test]
    fn g01_38_peeled_symbolic_and_repeated_lines_are_left_out() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let tags = [
            ["d", "repo"],
            ["HEAD", "ref: refs/heads/main"],
            ["refs/heads/main", &a],
            ["refs/heads/main", &b],
            ["refs/tags/v1", &b],
            ["refs/tags/v1^{}", &a],
            ["refs/heads/alias", "ref: refs/heads/main"],
            ["refs/notes/x", &a],
        ];
        let event = EventBuilder::new(kinds::STATE, "")
            .tags(tags.map(|tag| Tag::parse(tag).unwrap()))
            .finalize(&Keys::generate())
            .unwrap();
        let state = State::parse(event).unwrap();
        let refs = state
            .refs
            .iter()
            .map(|(name, oid)| (name.as_str(), oid.to_hex()));
        let expected = [("refs/heads/main", a), ("refs/tags/v1", b)];
        assert_eq!(refs.collect::<Vec<_>>(), expected);
    }
}
