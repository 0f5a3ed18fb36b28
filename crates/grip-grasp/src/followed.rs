//! The hosted repositories as they are followed on other relays (G02-10).

use std::{error::Error, pin::Pin};

use grip_nostr::{EventId, Filter, FollowedRepositories, FollowedRepository, PublicKey, RepoAddr};
use grip_purgatory::CompactEvent;

use crate::{
    Grasp, RepositoryStatus,
    admission::{Announcements, View, ViewError},
    grasp::Core,
};

/// Relays of one repository that are handed out.
const MAX_RELAYS: usize = 32;

impl FollowedRepositories for Grasp {
    fn followed(&self) -> Result<Vec<FollowedRepository>, Box<dyn Error + Send + Sync>> {
        let core = &self.core;
        let mut hosted = core.hosted.all();
        hosted.sort_by(|(a, _), (b, _)| a.identifier.cmp(&b.identifier));
        let of_one_name = hosted.chunk_by(|(a, _), (b, _)| a.identifier == b.identifier);
        let look = |view: &dyn View| {
            let mut followed = Vec::new();
            for repositories in of_one_name {
                core.add_followed(repositories, view, &mut followed)?;
            }
            Ok(followed)
        };
        Ok(core.look(look)?)
    }

    fn held(&self, filter: &Filter) -> Vec<(u64, [u8; 32])> {
        let purgatory = self.core.purgatory.lock();
        let events = purgatory.waiting().map(|waiting| &waiting.held().event);
        let events = events.filter(|event| matches(filter, event));
        events
            .map(|event| (event.created_at().as_secs(), event.id().to_bytes()))
            .collect()
    }

    fn is_held(&self, id: &EventId) -> bool {
        let purgatory = self.core.purgatory.lock();
        purgatory.find_waiting(id).is_some() || purgatory.was_expired(id)
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.core.hosted.followed.notified())
    }
}

impl Core {
    /// Adds repositories of one identifier with the relays of their maintainers.
    fn add_followed(
        &self,
        repositories: &[(RepoAddr, RepositoryStatus)],
        view: &dyn View,
        followed: &mut Vec<FollowedRepository>,
    ) -> Result<(), ViewError> {
        let Some((first, _)) = repositories.first() else {
            return Ok(());
        };
        let policy = self.policy.load();
        let announcements = Announcements::load(&first.identifier, view, &policy)?;
        for (addr, status) in repositories {
            let set = announcements.set_of(&addr.owner);
            let others = set.iter().filter(|key| **key != addr.owner);
            let members: Vec<PublicKey> = std::iter::once(&addr.owner)
                .chain(others)
                .copied()
                .collect();
            let relays = members
                .iter()
                .filter_map(|key| announcements.of(key))
                .flat_map(|(announcement, _)| announcement.relays.iter().cloned());
            followed.push(FollowedRepository {
                relays: relays.take(MAX_RELAYS).collect(),
                members,
                is_served: *status == RepositoryStatus::Served,
                addr: addr.clone(),
            });
        }
        Ok(())
    }
}

/// Reads the tags only where the rest matches and there is a condition on them.
fn matches(filter: &Filter, event: &CompactEvent) -> bool {
    let (id, author) = (event.id(), event.author());
    let kind = event.kind().as_u16();
    filter.matches_head(id.as_bytes(), author.as_bytes(), kind, event.created_at())
        && (filter.tags.is_empty() || filter.matches(&event.unpack()))
}
