//! The hosted repositories as they are followed on other relays (G02-10).

use std::{collections::HashSet, error::Error, pin::Pin};

use grip_nostr::{
    Announcement, EventId, Filter, FollowedRepositories, FollowedRepository, FollowedState,
    PublicKey, RepoAddr, State,
};
use grip_purgatory::CompactEvent;

use crate::{
    Grasp, RepositoryStatus,
    admission::{Announcements, View, ViewError, effective_state},
    grasp::Core,
    release::served_states,
};

/// Relays of one repository that are handed out, and clone URLs.
const MAX_SERVERS: usize = 32;

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

    fn state(&self, repo: &RepoAddr) -> Result<Option<State>, Box<dyn Error + Send + Sync>> {
        let core = &self.core;
        if core.hosted.status(repo) != Some(RepositoryStatus::Served) {
            return Ok(None);
        }
        let look = |view: &dyn View| {
            let announcements = Announcements::load(&repo.identifier, view, &core.policy.load())?;
            let states = served_states(&repo.identifier, view)?;
            Ok(effective_state(&announcements.set_of(&repo.owner), &states).cloned())
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
        let is_served = |status: &RepositoryStatus| *status == RepositoryStatus::Served;
        let states = if repositories.iter().any(|(_, status)| is_served(status)) {
            served_states(&first.identifier, view)?
        } else {
            Vec::new()
        };
        for (addr, status) in repositories {
            let set = announcements.set_of(&addr.owner);
            let others = set.iter().filter(|key| **key != addr.owner);
            let members: Vec<PublicKey> = std::iter::once(&addr.owner)
                .chain(others)
                .copied()
                .collect();
            let listed = |keys: &[PublicKey], servers: fn(&Announcement) -> &Vec<String>| {
                let known = keys.iter().filter_map(|key| announcements.of(key));
                let lists: Vec<&Vec<String>> = known.map(|(it, _)| servers(it)).collect();
                in_turns(&lists)
            };
            let invited: Vec<PublicKey> = set.invited().copied().collect();
            let state = effective_state(&set, &states).filter(|_| is_served(status));
            followed.push(FollowedRepository {
                relays: listed(&members, |announcement| &announcement.relays),
                relays_of_invited: listed(&invited, |announcement| &announcement.relays),
                clones: listed(&members, |announcement| &announcement.clone),
                state: state.map(|state| FollowedState {
                    id: state.event.id,
                    created_at: state.event.created_at,
                }),
                members,
                is_served: is_served(status),
                addr: addr.clone(),
            });
        }
        Ok(())
    }
}

/// One server of each list after the other, each once, so that no list pushes out another.
fn in_turns(lists: &[&Vec<String>]) -> Vec<String> {
    let longest = lists
        .iter()
        .map(|list| list.len())
        .max()
        .unwrap_or_default();
    let turns = (0..longest).flat_map(|at| lists.iter().filter_map(move |list| list.get(at)));
    let mut seen = HashSet::new();
    let different = turns.filter(|server| seen.insert(server.as_str()));
    different.take(MAX_SERVERS).cloned().collect()
}

/// Reads the tags only where the rest matches and there is a condition on them.
fn matches(filter: &Filter, event: &CompactEvent) -> bool {
    let (id, author) = (event.id(), event.author());
    let kind = event.kind().as_u16();
    filter.matches_head(id.as_bytes(), author.as_bytes(), kind, event.created_at())
        && (filter.tags.is_empty() || filter.matches(&event.unpack()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_list_of_one_maintainer_pushes_out_nobody_elses() {
        let long: Vec<String> = (0..100).map(|n| format!("wss://a{n}.example")).collect();
        let short = ["wss://a0.example", "wss://b.example", "wss://c.example"];
        let short = short.map(str::to_owned).to_vec();
        let taken = in_turns(&[&long, &short]);
        assert_eq!(taken.len(), MAX_SERVERS);
        let first = ["wss://a0.example", "wss://a1.example", "wss://b.example"];
        assert_eq!(taken[..3], first);
        assert!(taken.contains(&short[2]));
        let different: HashSet<&String> = taken.iter().collect();
        assert_eq!(different.len(), taken.len());
    }
}
