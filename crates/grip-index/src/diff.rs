//! Comparison of listed tags with the stored ones: new, moved, gone. Pure.

use std::cmp::Ordering;

use grip_go::tag::{self, VersionTag};
use grip_types::Oid;

use crate::{TagAt, claim_rules, store::TagRow};

/// A tag as the source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Under which it is kept.
    pub(crate) name: String,
    pub(crate) object: Oid,
    pub(crate) commit: Oid,
    /// Whether that is not its own name.
    pub(crate) is_strange: bool,
}

impl Seen {
    fn new(tag: TagAt) -> Self {
        let kept = claim_rules::kept_name(&tag.name);
        let is_strange = *kept != *tag.name;
        Self {
            name: if is_strange {
                kept.into_owned()
            } else {
                tag.name
            },
            object: tag.object,
            commit: tag.commit,
            is_strange,
        }
    }

    /// The version its name says.
    pub(crate) fn version(&self) -> Option<VersionTag> {
        if self.is_strange {
            None
        } else {
            tag::read(&self.name)
        }
    }

    pub(crate) fn at(&self) -> TagAt {
        TagAt {
            name: self.name.clone(),
            object: self.object,
            commit: self.commit,
        }
    }
}

/// The tags of a source by name, each once.
pub(crate) fn sorted(tags: Vec<TagAt>) -> Vec<Seen> {
    let mut seen: Vec<_> = tags.into_iter().map(Seen::new).collect();
    seen.sort_by(|a, b| a.name.cmp(&b.name));
    seen.dedup_by(|later, first| later.name == first.name);
    seen
}

/// What is to be done about the tags of a repository.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// The positions of tags to be judged, with what is kept of each.
    pub(crate) look: Vec<(usize, Option<TagRow>)>,
    /// What is kept of tags that are no more.
    pub(crate) gone: Vec<TagRow>,
}

/// Goes through what is kept, page by page in the order of names, beside what was seen.
pub(crate) struct Merge<'a> {
    seen: &'a [Seen],
    at: usize,
    /// Whether all of them are to be judged again.
    again: bool,
    found: Differences,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(seen: &'a [Seen], again: bool) -> Self {
        Self {
            seen,
            at: 0,
            again,
            found: Differences::default(),
        }
    }

    pub(crate) fn page(&mut self, kept: Vec<TagRow>) {
        for row in kept {
            self.row(row);
        }
    }

    fn row(&mut self, row: TagRow) {
        while let Some(seen) = self.seen.get(self.at) {
            match seen.name.cmp(&row.tag_name) {
                Ordering::Greater => break,
                Ordering::Less => self.found.look.push((self.at, None)),
                Ordering::Equal => {
                    if self.again || differs(seen, &row) {
                        self.found.look.push((self.at, Some(row)));
                    }
                    self.at += 1;
                    return;
                }
            }
            self.at += 1;
        }
        self.found.gone.push(row);
    }

    pub(crate) fn end(mut self) -> Differences {
        let rest = self.at..self.seen.len();
        self.found.look.extend(rest.map(|at| (at, None)));
        self.found
    }
}

fn differs(seen: &Seen, row: &TagRow) -> bool {
    row.settled == 0
        || row.object_oid != seen.object.to_hex()
        || row.commit_oid != seen.commit.to_hex()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn oid(n: u8) -> Oid {
        Oid::from_bytes(&[n; 20]).unwrap()
    }

    fn tag(name: &str, n: u8) -> TagAt {
        TagAt {
            name: name.into(),
            object: oid(n),
            commit: oid(n),
        }
    }

    fn row(name: &str, n: u8, settled: bool) -> TagRow {
        TagRow {
            tag_name: name.into(),
            object_oid: oid(n).to_hex(),
            commit_oid: oid(n).to_hex(),
            created: None,
            path: None,
            version: None,
            proven: 0,
            why: None,
            settled: settled.into(),
        }
    }

    #[test]
    fn a_tag_that_is_listed_twice_counts_once() {
        let seen = sorted(vec![tag("b", 1), tag("a", 2), tag("b", 3)]);
        assert_eq!(seen.len(), 2);
        assert_eq!((&*seen[1].name, seen[1].commit), ("b", oid(1)));
    }

    #[test]
    fn strange_names_say_no_version() {
        let seen = sorted(vec![tag("v1.0.0\n", 1), tag("v1.0.0", 1)]);
        let versions: Vec<_> = seen.iter().map(|seen| seen.version().is_some()).collect();
        assert_eq!(versions, [true, false]);
    }

    #[test]
    fn what_was_not_settled_is_looked_at_again() {
        let seen = sorted(vec![tag("a", 1), tag("b", 1)]);
        let mut merge = Merge::new(&seen, false);
        merge.page(vec![row("a", 1, true), row("b", 1, false)]);
        let found = merge.end();
        assert_eq!(found.look, [(1, Some(row("b", 1, false)))]);
    }

    proptest! {
        #[test]
        fn only_what_differs_is_looked_at(
            kept in prop::collection::btree_map("[a-e]{1,2}", 0_u8..3, 0..20),
            now in prop::collection::btree_map("[a-e]{1,2}", 0_u8..3, 0..20),
            page in 1_usize..5,
        ) {
            let seen = sorted(now.iter().map(|(name, n)| tag(name, *n)).collect());
            let rows: Vec<_> = kept.iter().map(|(name, n)| row(name, *n, true)).collect();
            let mut merge = Merge::new(&seen, false);
            for rows in rows.chunks(page) {
                merge.page(rows.to_vec());
            }
            let found = merge.end();
            let looked: BTreeMap<_, _> = found
                .look
                .iter()
                .map(|(at, row)| (seen[*at].name.clone(), row.clone()))
                .collect();
            for (name, n) in &now {
                let same = kept.get(name) == Some(n);
                prop_assert_eq!(looked.contains_key(name), !same);
                if let Some(before) = looked.get(name) {
                    let expected = kept.get(name).map(|n| row(name, *n, true));
                    prop_assert_eq!(before, &expected);
                }
            }
            let gone: Vec<_> = found.gone.iter().map(|row| row.tag_name.clone()).collect();
            let expected: Vec<_> = kept.keys().filter(|k| !now.contains_key(*k)).cloned().collect();
            prop_assert_eq!(gone, expected);
        }
    }
}
