//! Maintainer sets: the authors who may move a repository's refs (G01-26 … G01-29).

use std::collections::BTreeSet;

use nostr::prelude::PublicKey;

use crate::Announcement;

/// How far a chain of maintainers is followed.
const MAX_DEPTH: usize = 8;
/// How many keys a set may hold.
const MAX_KEYS: usize = 64;

/// How keys get into a maintainer set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaintainerRule {
    /// Everyone a maintainer lists is one (published GRASP-01).
    #[default]
    Legacy,
    /// A listed key counts once its own announcement lists somebody already confirmed.
    Reciprocal,
}

/// The keys whose states move one owner's refs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintainerSet {
    keys: BTreeSet<PublicKey>,
}

impl MaintainerSet {
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// A repository whose owner has announced nothing has no set.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Computes the set of `owner`, where `newest` finds the newest announcement that an author made of
/// one identifier. Only those of the set and of whom it names are looked at.
pub fn maintainer_set<'a>(
    rule: MaintainerRule,
    owner: &PublicKey,
    newest: impl Fn(&PublicKey) -> Option<&'a Announcement>,
) -> MaintainerSet {
    if newest(owner).is_none() {
        return MaintainerSet::default();
    }
    let keys = match rule {
        MaintainerRule::Legacy => legacy(owner, newest),
        MaintainerRule::Reciprocal => reciprocal(owner, newest),
    };
    MaintainerSet { keys }
}

fn legacy<'a>(
    owner: &PublicKey,
    newest: impl Fn(&PublicKey) -> Option<&'a Announcement>,
) -> BTreeSet<PublicKey> {
    let mut set = BTreeSet::from([*owner]);
    let mut frontier = vec![*owner];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for key in frontier {
            let Some(announcement) = newest(&key) else {
                continue;
            };
            for listed in &announcement.maintainers {
                if set.len() < MAX_KEYS && set.insert(*listed) {
                    next.push(*listed);
                }
            }
        }
        frontier = next;
    }
    set
}

fn reciprocal<'a>(
    owner: &PublicKey,
    newest: impl Fn(&PublicKey) -> Option<&'a Announcement>,
) -> BTreeSet<PublicKey> {
    let roster = |key: &PublicKey| newest(key).map(Roster::read);
    let mut set = BTreeSet::from([*owner]);
    for _ in 0..MAX_DEPTH {
        let invited: Vec<PublicKey> = set
            .iter()
            .filter_map(roster)
            .flat_map(|roster| roster.maintainers)
            .filter(|key| !set.contains(key))
            .collect();
        let before = set.len();
        for key in invited {
            let accepts = roster(&key).is_some_and(|roster| {
                !roster.declined && roster.maintainers.iter().any(|named| set.contains(named))
            });
            if accepts && set.len() < MAX_KEYS {
                set.insert(key);
            }
        }
        if set.len() == before {
            break;
        }
    }
    set
}

/// Whom one announcement names, by role tags where there are any.
struct Roster {
    maintainers: BTreeSet<PublicKey>,
    /// The author gives itself roles, none of them an active maintainer's.
    declined: bool,
}

impl Roster {
    fn read(announcement: &Announcement) -> Self {
        let author = announcement.owner();
        let mut roles = false;
        let mut own_roles = false;
        let mut own_active = false;
        let mut maintainers = BTreeSet::new();
        for tag in announcement.event.tags.iter().map(|tag| tag.as_slice()) {
            let [role, key, boundaries @ ..] = tag else {
                continue;
            };
            if !matches!(role.as_str(), "M" | "m" | "o") {
                continue;
            }
            roles = true;
            let Some(key) = crate::tags::hex32(key).and_then(|k| PublicKey::from_slice(&k).ok())
            else {
                continue;
            };
            let active = role != "o" && is_active(boundaries);
            if key == author {
                own_roles = true;
                own_active |= active;
            } else if active {
                maintainers.insert(key);
            }
        }
        if !roles {
            maintainers = announcement.maintainers.iter().copied().collect();
            maintainers.remove(&author);
        }
        Self {
            maintainers,
            declined: own_roles && !own_active,
        }
    }
}

/// Active with no boundaries or an odd number of them; `defer` and `open` may only end the list
/// and mean inactive; any other word voids the entry.
fn is_active(boundaries: &[String]) -> bool {
    let Some((last, first)) = boundaries.split_last() else {
        return true;
    };
    if first.iter().any(|b| b.parse::<u64>().is_err()) || last.parse::<u64>().is_err() {
        return false;
    }
    boundaries.len() % 2 == 1
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};

    use super::*;
    use crate::kinds;

    fn announce(keys: &Keys, tags: Vec<Vec<String>>) -> Announcement {
        let mut all = vec![Tag::parse(["d", "x"]).unwrap()];
        all.extend(tags.into_iter().map(|tag| Tag::parse(tag).unwrap()));
        let event = EventBuilder::new(kinds::ANNOUNCEMENT, "")
            .tags(all)
            .finalize(keys)
            .unwrap();
        Announcement::parse(event).unwrap()
    }

    fn lists(keys: &Keys, others: &[&Keys]) -> Announcement {
        let mut tag = vec!["maintainers".to_owned()];
        tag.extend(others.iter().map(|k| k.public_key().to_hex()));
        announce(keys, vec![tag])
    }

    fn set(rule: MaintainerRule, owner: &Keys, all: &[&Announcement]) -> MaintainerSet {
        let of = |author: &PublicKey| all.iter().copied().find(|a| a.owner() == *author);
        maintainer_set(rule, &owner.public_key(), of)
    }

    #[test]
    fn g01_26_a_listed_key_counts_without_an_announcement_of_its_own() {
        let (owner, m, stranger) = (Keys::generate(), Keys::generate(), Keys::generate());
        let set = set(MaintainerRule::Legacy, &owner, &[&lists(&owner, &[&m])]);
        assert!(set.contains(&owner.public_key()) && set.contains(&m.public_key()));
        assert!(!set.contains(&stranger.public_key()));
    }

    #[test]
    fn g01_26_recursion_follows_the_chain_and_survives_cycles() {
        let (a, b, c) = (Keys::generate(), Keys::generate(), Keys::generate());
        let all = [lists(&a, &[&b]), lists(&b, &[&c]), lists(&c, &[&a])];
        let all: Vec<_> = all.iter().collect();
        assert_eq!(set(MaintainerRule::Legacy, &a, &all).len(), 3);
    }

    #[test]
    fn g01_29_being_listed_gives_no_right_over_the_listed_ones_repository() {
        let (o1, o2) = (Keys::generate(), Keys::generate());
        let all = [lists(&o1, &[&o2]), lists(&o2, &[])];
        let all: Vec<_> = all.iter().collect();
        assert!(set(MaintainerRule::Legacy, &o1, &all).contains(&o2.public_key()));
        assert!(!set(MaintainerRule::Legacy, &o2, &all).contains(&o1.public_key()));
    }

    #[test]
    fn g01_27_an_invited_key_is_confirmed_only_by_naming_someone_back() {
        let (owner, m) = (Keys::generate(), Keys::generate());
        let invite = lists(&owner, &[&m]);
        let aloof = lists(&m, &[]);
        let back = lists(&m, &[&owner]);
        let rule = MaintainerRule::Reciprocal;
        assert!(!set(rule, &owner, &[&invite]).contains(&m.public_key()));
        assert!(!set(rule, &owner, &[&invite, &aloof]).contains(&m.public_key()));
        assert!(set(rule, &owner, &[&invite, &back]).contains(&m.public_key()));
    }

    #[test]
    fn g01_27_ended_and_deferred_roles_do_not_authorise() {
        let active = |b: &[&str]| is_active(&b.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert!(active(&[]) && active(&["100"]) && active(&["100", "200", "300"]));
        assert!(!active(&["100", "200"]) && !active(&["100", "defer"]) && !active(&["open"]));
        assert!(!active(&["soon", "200", "300"]));
    }

    #[test]
    fn the_set_is_bounded() {
        let owner = Keys::generate();
        let many: Vec<Keys> = (0..100).map(|_| Keys::generate()).collect();
        let announcement = lists(&owner, &many.iter().collect::<Vec<_>>());
        assert_eq!(
            set(MaintainerRule::Legacy, &owner, &[&announcement]).len(),
            MAX_KEYS
        );
    }

    #[test]
    fn an_owner_without_announcement_has_no_set() {
        assert!(set(MaintainerRule::Legacy, &Keys::generate(), &[]).is_empty());
    }
}
