//! Room on the disk for what comes in, by whether its author maintains something that is served here.
//!
//! Strangers have a floor of their own above that of all: however patient they are, what is between the two is
//! left to maintainers.

use std::sync::Arc;

use grip_git::DiskUser;
use grip_nostr::{Address, Event, RepoAddr, kinds, references};
use grip_types::Identifier;

use crate::{
    RepositoryStatus,
    admission::{Announcements, View, ViewError, own_identifier},
    error::GraspError,
    grasp::Core,
};

/// Repositories named by one event whose maintainers are looked up.
const MAX_NAMED: usize = 4;

impl Core {
    /// Says whether the disk has room for an event. Blocks.
    pub(crate) fn has_room(&self, event: &Event, view: &dyn View) -> Result<(), GraspError> {
        match self.repositories.check_free_space(DiskUser::Stranger) {
            // Who has a grant is looked up where it matters alone.
            Err(full)
                if full.disk_user == DiskUser::Stranger && self.is_granted(event, view)? =>
            {
                Ok(())
            }
            checked => Ok(checked?),
        }
    }

    /// The same for an event that is deferred; a deletion makes room, or leads to it.
    pub(crate) async fn has_room_for(self: &Arc<Self>, event: &Event) -> Result<(), GraspError> {
        if kinds::is_request(event.kind) {
            return Ok(());
        }
        let look = |core: &Self| core.repositories.check_free_space(DiskUser::Stranger);
        if self.blocking("grasp.look", look).await?.is_ok() {
            return Ok(());
        }
        let event = event.clone();
        let look = move |core: &Self| core.look(|view| Ok(core.has_room(&event, view)));
        self.blocking("grasp.look", look).await??
    }

    /// Whose bytes a push to `addr` brings.
    pub(crate) fn disk_user(&self, addr: &RepoAddr, moves_state_refs: bool) -> DiskUser {
        let is_served = self.hosted.status(addr) == Some(RepositoryStatus::Served);
        if moves_state_refs && is_served {
            DiskUser::Maintainer
        } else {
            DiskUser::Stranger
        }
    }

    /// Says whether the author of an event owns something that is served, or maintains what it is about.
    fn is_granted(&self, event: &Event, view: &dyn View) -> Result<bool, ViewError> {
        if self.hosted.has_served(&event.pubkey) {
            return Ok(true);
        }
        for identifier in named(event) {
            let owners = self.hosted.owners(&identifier).into_iter();
            let mut served = owners
                .filter(|(_, status)| *status == RepositoryStatus::Served)
                .peekable();
            if served.peek().is_none() {
                continue;
            }
            let announcements = Announcements::load(&identifier, view, &self.policy.load())?;
            if served.any(|(owner, _)| announcements.set_of(&owner).contains(&event.pubkey)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The identifiers of the repositories that an event is about.
fn named(event: &Event) -> Vec<Identifier> {
    if [kinds::ANNOUNCEMENT, kinds::STATE].contains(&event.kind) {
        return own_identifier(event).into_iter().collect();
    }
    let addresses = references(event).addresses;
    let repositories = addresses.iter().filter_map(Address::repository);
    let identifiers = repositories.map(|repository| repository.identifier);
    identifiers.take(MAX_NAMED).collect()
}
