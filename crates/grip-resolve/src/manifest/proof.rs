//! Proof that the author of a state is a maintainer.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use grip_nostr::{
    Announcement, Event, EventId, MaintainerRule, PublicKey, Timestamp, maintainer_set,
};

use super::{InvalidManifest, MAX_VIA};

/// The announcements between the owner and `author`: the shortest way, and of several the one
/// through the lowest keys. Empty where the owner is the author or lists him.
///
/// Of several announcements of one key only the newest counts.
pub(super) fn chain(
    owner: &Announcement,
    others: Vec<Announcement>,
    author: &PublicKey,
) -> Result<Vec<Announcement>, InvalidManifest> {
    let mut by_author = newest_by_author(others);
    by_author.remove(&owner.owner());
    let way = shortest_way(owner, &by_author, author).ok_or(InvalidManifest::NotAMaintainer)?;
    let taken = way.iter().filter_map(|key| by_author.remove(key));
    let via: Vec<Announcement> = taken.collect();
    let mut proof: BTreeMap<PublicKey, &Announcement> =
        via.iter().map(|via| (via.owner(), via)).collect();
    proof.insert(owner.owner(), owner);
    // The same bounds as in the authorisation of pushes.
    let set = maintainer_set(MaintainerRule::Legacy, &owner.owner(), |key| {
        proof.get(key).copied()
    });
    let is_shown = set.contains(author) && via.len() <= MAX_VIA;
    is_shown
        .then_some(via)
        .ok_or(InvalidManifest::NotAMaintainer)
}

/// The order of versions of one event, the newest last: NIP-01's, and of one event that was signed
/// twice the lowest signature, so that no two different ones are equal.
pub(super) fn rank(event: &Event) -> (Timestamp, Reverse<EventId>, Reverse<[u8; 64]>) {
    let signature = event.sig.to_bytes();
    (event.created_at, Reverse(event.id), Reverse(signature))
}

pub(super) fn newest_by_author(
    announcements: Vec<Announcement>,
) -> BTreeMap<PublicKey, Announcement> {
    let mut newest: BTreeMap<PublicKey, Announcement> = BTreeMap::new();
    for announcement in announcements {
        let known = newest.get(&announcement.owner());
        if known.is_none_or(|known| rank(&announcement.event) > rank(&known.event)) {
            newest.insert(announcement.owner(), announcement);
        }
    }
    newest
}

/// The keys between the owner and `author`, without either.
fn shortest_way(
    owner: &Announcement,
    by_author: &BTreeMap<PublicKey, Announcement>,
    author: &PublicKey,
) -> Option<Vec<PublicKey>> {
    if owner.owner() == *author {
        return Some(Vec::new());
    }
    let mut seen = BTreeSet::from([owner.owner()]);
    // Ways by length; those of one length in the order of their keys.
    let mut ways: Vec<(Vec<PublicKey>, &Announcement)> = vec![(Vec::new(), owner)];
    while !ways.is_empty() {
        let found = ways
            .iter()
            .find(|(_, last)| last.maintainers.contains(author));
        if let Some((way, _)) = found {
            return Some(way.clone());
        }
        let mut longer = Vec::new();
        for (way, last) in &ways {
            let listed: BTreeSet<&PublicKey> = last.maintainers.iter().collect();
            for key in listed {
                let Some(announcement) = by_author.get(key) else {
                    continue;
                };
                if seen.insert(*key) {
                    longer.push(([way.as_slice(), &[*key]].concat(), announcement));
                }
            }
        }
        ways = longer;
    }
    None
}
