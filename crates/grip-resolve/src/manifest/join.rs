//! Join of several manifests of one name.

use std::cmp::Reverse;

use grip_nostr::{Announcement, State};

use super::{
    Manifest,
    proof::{newest_by_author, rank},
};

impl Manifest {
    /// The newest announcement of both, and the newest state of both that it authorises.
    ///
    /// Both speak of the same repository; if not, this one stands.
    pub fn join(&self, other: &Self) -> Self {
        if self.id() == other.id() || self.name() != other.name() {
            return self.clone();
        }
        let joint = Self::join_all([self.clone(), other.clone()]);
        joint.expect("because two manifests were given")
    }

    /// The newest announcement of all, and the newest state of all that it authorises.
    ///
    /// A function of the set: order and repetition change nothing. All speak of the repository of
    /// the first; those that do not are left out. None if there are none.
    pub fn join_all(manifests: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all: Vec<Self> = manifests.into_iter().collect();
        let name = all.first()?.name();
        all.retain(|manifest| manifest.name() == name);
        let announcements = all.iter().map(Self::announcement);
        let newest = announcements.max_by_key(|a| rank(&a.event))?.clone();
        let others = all.iter().flat_map(|manifest| manifest.via().to_vec());
        let others: Vec<Announcement> = newest_by_author(others.collect()).into_values().collect();
        let mut states: Vec<&State> = all.iter().filter_map(Self::state).collect();
        states.sort_by_key(|state| Reverse(rank(&state.event)));
        states.dedup_by(|a, b| a.event.id == b.event.id);
        let authorised = states.into_iter().find_map(|state| {
            Self::assemble(newest.clone(), others.clone(), Some(state.clone())).ok()
        });
        let joint = authorised.or_else(|| Self::assemble(newest, Vec::new(), None).ok())?;
        // The same bytes are kept once.
        let known = all.into_iter().find(|manifest| *manifest == joint);
        Some(known.unwrap_or(joint))
    }
}
