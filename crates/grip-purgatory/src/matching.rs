//! Comparing what states want with what was pushed, at the moment data arrives.

use std::collections::{BTreeMap, HashMap, HashSet};

use grip_nostr::Event;
use grip_types::{ObjectFormat, Oid, RefName};

/// A ref and the object it names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RefPair {
    pub ref_name: RefName,
    /// A commit, or an annotated tag.
    pub object: Oid,
}

/// One command of a push. Git writes the zero id for "no object".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    pub old_oid: Oid,
    pub new_oid: Oid,
    pub ref_name: RefName,
}

impl RefUpdate {
    pub fn is_delete(&self) -> bool {
        self.new_oid.is_zero()
    }
}

/// Reads the branches and tags a state names; the first of a name counts (G01-38).
///
/// Peeled lines (`^{}`), symbolic values and what is no ref or object id are left out.
pub fn extract_refs_from_state(event: &Event) -> Vec<RefPair> {
    let mut seen = HashSet::new();
    let pair = |(name, value): (&str, &str)| {
        let ref_name = RefName::parse(name).ok()?;
        let object = value.parse().ok()?;
        Some(RefPair { ref_name, object })
    };
    let named = event.tags.iter().filter_map(|tag| {
        let name = tag.kind();
        let is_ref = name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
        is_ref.then_some((name, tag.content()?))
    });
    named
        .filter_map(pair)
        .filter(|pair| seen.insert(pair.ref_name.clone()))
        .collect()
}

/// Says whether an object of this name can ever be here: repositories are SHA-1 ones. What cannot
/// is not looked for.
pub fn can_be_here(oid: &Oid) -> bool {
    oid.format() == ObjectFormat::Sha1
}

/// Says whether a push makes a state true: every ref of the state is as the push or, where that
/// is silent, the repository has it; and the push brings at least one of them.
pub fn can_satisfy_state(
    state_refs: &[RefPair],
    pushed_refs: &[RefPair],
    local_refs: &BTreeMap<RefName, Oid>,
) -> bool {
    let pushed = index(pushed_refs);
    let satisfied = |pair: &RefPair| match pushed.get(&pair.ref_name) {
        Some(object) => *object == pair.object,
        None => local_refs.get(&pair.ref_name) == Some(&pair.object),
    };
    let brings = |pair: &RefPair| pushed.contains_key(&pair.ref_name);
    state_refs.iter().any(brings) && state_refs.iter().all(satisfied)
}

/// The refs of a state that the push does not bring.
pub fn get_unpushed_refs(state_refs: &[RefPair], pushed_refs: &[RefPair]) -> Vec<RefPair> {
    let pushed = index(pushed_refs);
    let missing = |pair: &&RefPair| pushed.get(&pair.ref_name) != Some(&pair.object);
    state_refs.iter().filter(missing).cloned().collect()
}

fn index(refs: &[RefPair]) -> HashMap<&RefName, Oid> {
    refs.iter()
        .map(|pair| (&pair.ref_name, pair.object))
        .collect()
}

/// A push, prepared for the comparison with any number of states.
pub(crate) struct Push {
    pushed: Vec<RefPair>,
    /// What the repository has besides, without what the push deletes.
    local: BTreeMap<RefName, Oid>,
}

impl Push {
    pub(crate) fn new(updates: &[RefUpdate], local_refs: &BTreeMap<RefName, Oid>) -> Self {
        let mut push = Self {
            pushed: Vec::new(),
            local: local_refs.clone(),
        };
        for update in updates {
            if update.is_delete() {
                push.local.remove(&update.ref_name);
            } else {
                push.pushed.push(RefPair {
                    ref_name: update.ref_name.clone(),
                    object: update.new_oid,
                });
            }
        }
        push
    }

    pub(crate) fn satisfies(&self, state: &Event) -> bool {
        let refs = extract_refs_from_state(state);
        can_satisfy_state(&refs, &self.pushed, &self.local)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, digit: char) -> RefPair {
        RefPair {
            ref_name: RefName::parse(name).unwrap(),
            object: oid(digit),
        }
    }

    fn oid(digit: char) -> Oid {
        digit.to_string().repeat(40).parse().unwrap()
    }

    #[test]
    fn every_ref_must_be_pushed_or_there_and_one_at_least_pushed() {
        let (main, dev) = (pair("refs/heads/main", 'a'), pair("refs/heads/dev", 'b'));
        let wanted = [main.clone(), dev.clone()];
        let none = BTreeMap::new();
        let has_dev = BTreeMap::from([(dev.ref_name.clone(), dev.object)]);
        let has_other_dev = BTreeMap::from([(dev.ref_name.clone(), oid('c'))]);
        let pushes_main = std::slice::from_ref(&main);
        assert!(can_satisfy_state(&wanted, &wanted, &none));
        assert!(can_satisfy_state(&wanted, pushes_main, &has_dev));
        assert!(!can_satisfy_state(&wanted, pushes_main, &none));
        assert!(!can_satisfy_state(&wanted, pushes_main, &has_other_dev));
        assert!(!can_satisfy_state(&[dev], pushes_main, &has_dev));
        assert!(!can_satisfy_state(&[], pushes_main, &none));
    }

    #[test]
    fn a_push_overrides_what_is_there() {
        let wanted = [pair("refs/heads/main", 'a')];
        let local = BTreeMap::from([(wanted[0].ref_name.clone(), wanted[0].object)]);
        let pushed = [pair("refs/heads/main", 'b')];
        assert!(!can_satisfy_state(&wanted, &pushed, &local));
        assert_eq!(get_unpushed_refs(&wanted, &pushed), wanted);
        assert!(get_unpushed_refs(&wanted, &wanted).is_empty());
    }

    #[test]
    fn g01_38_peeled_symbolic_and_repeated_lines_are_left_out() {
        use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};

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
            ["refs/heads/short", "abc"],
        ];
        let event = EventBuilder::new(grip_nostr::kinds::STATE, "")
            .tags(tags.map(|tag| Tag::parse(tag).unwrap()))
            .finalize(&Keys::generate())
            .unwrap();
        assert_eq!(
            extract_refs_from_state(&event),
            [pair("refs/heads/main", 'a'), pair("refs/tags/v1", 'b')]
        );
    }
}
