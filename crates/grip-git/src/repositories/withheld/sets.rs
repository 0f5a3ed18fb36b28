//! Sets of withheld objects, as they were walked last.
//!
//! Anybody may ask for objects by their ids. What that makes the node walk is kept until other tips are
//! withheld, shown or here, and walked by one of those who wait for it.
//!
//! Whose share is used up:
//!
//! | bound | counts against |
//! |---|---|
//! | [`MAX_BYTES`] | all repositories together; what was asked for longest ago goes first |
//! | a quarter of it | one repository; a larger set is not kept, but compared while it is walked |
//! | [`MAX_WAITING`] | those who wait for one repository; networks take turns |
//! | memory of git for a walk | the network whose fetch makes it, as for the answer; those who wait hold none |

use std::sync::Arc;

use grip_tasks::{Busy, Lanes, Turn};
use grip_types::{ByteLru, ObjectFormat, Oid, Owner, RepoAddr};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

/// Memory for all sets: more than three million objects.
const MAX_BYTES: usize = 64 << 20;
const MAX_WAITING: usize = 128;
/// Bytes of an id; there are no others in any store here.
const ID: usize = ObjectFormat::Sha1.len_bytes();

/// The last set of each repository.
pub(crate) struct WithheldSets {
    kept: Mutex<ByteLru<RepoAddr, Kept>>,
    max_objects: usize,
    walking: Lanes<RepoAddr>,
}

struct Kept {
    key: SetKey,
    set: Arc<WithheldSet>,
}

impl Default for WithheldSets {
    fn default() -> Self {
        Self::new(MAX_BYTES)
    }
}

impl WithheldSets {
    fn new(max_bytes: usize) -> Self {
        let weigh =
            |repo: &RepoAddr, kept: &Kept| repo.identifier.as_str().len() + kept.set.0.len();
        Self {
            kept: Mutex::new(ByteLru::new(max_bytes, weigh)),
            max_objects: max_bytes / 4 / ID,
            walking: Lanes::new(MAX_WAITING),
        }
    }

    /// The set of a repository, if it was walked for these tips last.
    pub(super) fn get(&self, repo: &RepoAddr, key: &SetKey) -> Option<Arc<WithheldSet>> {
        let mut kept = self.kept.lock();
        let kept = kept.get(repo).filter(|kept| kept.key == *key);
        kept.map(|kept| Arc::clone(&kept.set))
    }

    pub(super) fn put(&self, repo: &RepoAddr, key: SetKey, set: WithheldSet) {
        let set = Arc::new(set);
        let former = self.kept.lock().put(repo.clone(), Kept { key, set });
        // Outside the lock: it may be large.
        drop(former);
    }

    /// Waits for the turn to walk a repository; who has it looks whether somebody else has walked
    /// meanwhile. Cancel safe.
    pub(super) async fn enter(
        &self,
        repo: &RepoAddr,
        owner: Owner,
    ) -> Result<Turn<RepoAddr>, Busy> {
        self.walking.enter(repo, owner).await
    }

    pub(super) fn collect(&self) -> Walked {
        Walked {
            ids: Some(Vec::new()),
            max_objects: self.max_objects,
        }
    }
}

/// The name of a set: another one if anything that it is made of is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SetKey([u8; 32]);

impl SetKey {
    /// `withheld` says of each tip whether it is here: it may come later, and leads to more then.
    pub(super) fn new<'a>(
        withheld: impl Iterator<Item = (&'a Oid, bool)>,
        shown: impl Iterator<Item = &'a Oid>,
    ) -> Self {
        let mut digest = Sha256::new();
        for (oid, is_here) in withheld {
            digest.update([1, u8::from(is_here)]);
            digest.update(oid.as_bytes());
        }
        for oid in shown {
            digest.update([2]);
            digest.update(oid.as_bytes());
        }
        Self(digest.finalize().into())
    }
}

/// Ids of objects, in order, one behind the other.
pub(super) struct WithheldSet(Box<[u8]>);

impl WithheldSet {
    pub(super) fn contains(&self, oid: &Oid) -> bool {
        let (ids, _) = self.0.as_chunks::<ID>();
        ids.binary_search_by(|id| id[..].cmp(oid.as_bytes()))
            .is_ok()
    }
}

/// A set while it is walked.
pub(super) struct Walked {
    /// None once it is too large.
    ids: Option<Vec<[u8; ID]>>,
    max_objects: usize,
}

impl Walked {
    pub(super) fn add(&mut self, oid: &Oid) {
        let id = oid.as_bytes().try_into().ok();
        let ids = self.ids.take_if(|ids| ids.len() >= self.max_objects);
        // Gone at once: nobody needs it until the walk has ended.
        drop(ids);
        if let (Some(ids), Some(id)) = (&mut self.ids, id) {
            ids.push(id);
        }
    }

    /// The set, if it is small enough to be kept. Blocking: it may be large.
    pub(super) fn finish(self) -> Option<WithheldSet> {
        let mut ids = self.ids?;
        ids.sort_unstable();
        Some(WithheldSet(ids.into_flattened().into_boxed_slice()))
    }
}

#[cfg(test)]
mod tests {
    use grip_types::Identifier;

    use super::*;

    fn repo(name: &str) -> RepoAddr {
        let npub = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        RepoAddr::new(
            RepoAddr::parse_npub(npub).unwrap(),
            Identifier::parse(name).unwrap(),
        )
    }

    fn oid(n: u32) -> Oid {
        let mut id = [0; ID];
        // Not in the order of the numbers.
        id[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b9).to_be_bytes());
        Oid::from_bytes(&id).unwrap()
    }

    fn walk(sets: &WithheldSets, count: u32) -> Option<WithheldSet> {
        let mut walked = sets.collect();
        (0..count).for_each(|n| walked.add(&oid(n)));
        walked.finish()
    }

    fn key(tip: u32) -> SetKey {
        SetKey::new([(&oid(tip), true)].into_iter(), [].into_iter())
    }

    #[test]
    fn a_set_has_what_was_walked_and_nothing_else() {
        let set = walk(&WithheldSets::default(), 1_000).unwrap();
        assert!((0..1_000).all(|n| set.contains(&oid(n))));
        assert!((1_000..2_000).all(|n| !set.contains(&oid(n))));
        assert!(!set.contains(&"ab".repeat(32).parse().unwrap()));
    }

    #[test]
    fn a_set_is_found_for_its_own_tips_alone() {
        let sets = WithheldSets::default();
        sets.put(&repo("a"), key(1), walk(&sets, 3).unwrap());
        assert!(sets.get(&repo("a"), &key(1)).is_some());
        assert!(sets.get(&repo("a"), &key(2)).is_none());
        assert!(sets.get(&repo("b"), &key(1)).is_none());
        let (one, two) = (oid(1), oid(2));
        let keys = [
            SetKey::new([(&one, true)].into_iter(), [].into_iter()),
            SetKey::new([(&one, false)].into_iter(), [].into_iter()),
            SetKey::new([(&one, true), (&two, true)].into_iter(), [].into_iter()),
            SetKey::new([(&one, true)].into_iter(), [&two].into_iter()),
            SetKey::new([].into_iter(), [&one, &two].into_iter()),
        ];
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(n));
        }
    }

    #[test]
    fn the_set_asked_for_longest_ago_makes_room() {
        let sets = WithheldSets::new(100_000);
        for name in ["a", "b", "c"] {
            sets.put(&repo(name), key(1), walk(&sets, 1_200).unwrap());
        }
        assert!(sets.get(&repo("a"), &key(1)).is_some());
        for name in ["d", "e"] {
            sets.put(&repo(name), key(1), walk(&sets, 1_200).unwrap());
        }
        let is_kept = |name| sets.get(&repo(name), &key(1)).is_some();
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(is_kept),
            [true, false, true, true, true]
        );
        // A quarter is the most that one repository has.
        assert!(walk(&sets, 1_250).is_some());
        assert!(walk(&sets, 1_251).is_none());
    }
}
