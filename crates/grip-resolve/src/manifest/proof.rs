//! Proof that the author of a state is a maintainer.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use grip_nostr::{
    Announcement, Event, EventId, LinkKind, MaintainerRule, PublicKey, Timestamp, maintainer_set,
};

use super::{InvalidManifest, MAX_VIA};

/// The announcements by which `author` is a maintainer of the owner's repository: those of the leads
/// that are pointed at, and of those who accepted an invitation on the way (G01-72, G01-74); none that is
/// not needed. Empty where the owner leads and is the author.
///
/// Of several announcements of one key only the newest counts.
pub(super) fn chain(
    owner: &Announcement,
    others: Vec<Announcement>,
    author: &PublicKey,
) -> Result<Vec<Announcement>, InvalidManifest> {
    let mut known = newest_by_author(others);
    known.remove(&owner.owner());
    let joined = |keys: &BTreeSet<PublicKey>| joined(owner, &known, keys, author);
    let all = known.keys().copied().collect();
    let everybody = joined(&all).ok_or(InvalidManifest::NotAMaintainer)?;
    let mut needed: BTreeSet<PublicKey> = everybody.iter().copied().collect();
    // Who joined last goes first, so that the shortest way stays.
    for key in everybody.iter().rev() {
        needed.remove(key);
        if joined(&needed).is_none() {
            needed.insert(*key);
        }
    }
    // In the order that follows from what is left alone: every reader finds the same.
    let order = joined(&needed).unwrap_or_default();
    let via: Vec<Announcement> = order.iter().filter_map(|key| known.remove(key)).collect();
    (via.len() <= MAX_VIA)
        .then_some(via)
        .ok_or(InvalidManifest::NotAMaintainer)
}

/// The leads and maintainers of the owner's repository in the order in which they are found, where
/// only announcements of `keys` count beside the owner's; none if `author` is no maintainer by them.
fn joined(
    owner: &Announcement,
    known: &BTreeMap<PublicKey, Announcement>,
    keys: &BTreeSet<PublicKey>,
    author: &PublicKey,
) -> Option<Vec<PublicKey>> {
    let newest = |key: &PublicKey| {
        if *key == owner.owner() {
            Some(owner)
        } else {
            known.get(key).filter(|_| keys.contains(key))
        }
    };
    // The rule and the bounds of the authorisation of pushes.
    let set = maintainer_set(MaintainerRule::Reciprocal, &owner.owner(), newest);
    let links = set.links().iter();
    let links = links.filter(|link| matches!(link.kind, LinkKind::Leads | LinkKind::Accepted));
    let mut found: Vec<PublicKey> = Vec::new();
    for link in links {
        if keys.contains(&link.key) && !found.contains(&link.key) {
            found.push(link.key);
        }
    }
    set.contains(author).then_some(found)
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
