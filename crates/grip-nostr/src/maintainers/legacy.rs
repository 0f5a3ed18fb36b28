//! The rule of the published GRASP-01: everybody whom the owner's announcement leads to (G01-26).

use std::collections::BTreeSet;

use nostr::prelude::PublicKey;

use super::{Link, LinkKind, MAX_KEYS, MaintainerSet, WhyEmpty};
use crate::Announcement;

/// How far a chain of maintainers is followed.
const MAX_DEPTH: usize = 8;

pub(super) fn set<'a>(
    owner: &PublicKey,
    newest: impl Fn(&PublicKey) -> Option<&'a Announcement>,
) -> MaintainerSet {
    if newest(owner).is_none() {
        return MaintainerSet::empty(WhyEmpty::Missing);
    }
    let mut keys = BTreeSet::from([*owner]);
    let mut links = Vec::new();
    let mut frontier = vec![*owner];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for by in frontier {
            let Some(announcement) = newest(&by) else {
                continue;
            };
            for key in &announcement.maintainers {
                if keys.len() < MAX_KEYS && keys.insert(*key) {
                    next.push(*key);
                    links.push(Link {
                        by,
                        key: *key,
                        kind: LinkKind::Listed,
                    });
                }
            }
        }
        frontier = next;
    }
    MaintainerSet {
        keys,
        links,
        lead: Some(*owner),
        ..MaintainerSet::default()
    }
}
