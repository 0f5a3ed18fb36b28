//! The replicas of all repositories, and what changes what is known of them. Pure: times go in.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use grip_nostr::{EventId, FollowedState, PublicKey, RepoAddr, Timestamp};
use lru::LruCache;
use serde::{Deserialize, Serialize};

use super::{
    ReplicaKind, ReplicaReport, ReplicaStatus, ReplicationTotals,
    replica::{FIRST_CHECK, MAX_GIT_PAUSE, Place, Replica},
};
use crate::{RelayUrl, session::Item};

/// States of one relay that are remembered though they are not effective here yet.
const MAX_RECENT: usize = 1_024;
/// How long a delivery of a state that is known to be there tells nothing new.
const STILL_CURRENT: i64 = 3_600_000;

/// A repository with the servers that its announcements list.
pub(super) struct Listed {
    pub(super) addr: RepoAddr,
    pub(super) state: FollowedState,
    pub(super) places: Vec<Place>,
}

/// What a look at a clone URL found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// So many of all refs point where the state says.
    Refs {
        matching: usize,
        all: usize,
        found: usize,
    },
    Unreachable(String),
    /// It was not asked: it is at its limits.
    PutOff(i64),
}

#[derive(Clone, Debug)]
struct Repository {
    state: FollowedState,
    replicas: BTreeMap<Place, Replica>,
}

/// What is written of a repository.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    state: EventId,
    state_at: u64,
    replicas: Vec<(String, Replica)>,
}

#[derive(Default)]
pub(super) struct Replicas {
    repositories: BTreeMap<RepoAddr, Repository>,
    /// The effective states that each relay is listed for.
    expected: HashMap<RelayUrl, HashMap<EventId, Vec<RepoAddr>>>,
    /// States that relays delivered, newest last: they become effective when their data is here.
    pub(super) recent: HashMap<RelayUrl, LruCache<EventId, ()>>,
    /// What an earlier run knew of repositories that were not listed yet.
    pub(super) restored: HashMap<String, Saved>,
    changed: BTreeSet<RepoAddr>,
    gone: BTreeSet<String>,
    /// When a clone URL of each owner was asked last, so that one with many delays nobody.
    asked: HashMap<PublicKey, i64>,
}

impl Replicas {
    pub(super) fn update(&mut self, listed: Vec<Listed>, now: i64) {
        let mut known = std::mem::take(&mut self.repositories);
        self.expected.clear();
        for Listed {
            addr,
            state,
            places,
        } in listed
        {
            let before = known.remove(&addr);
            let before = before.or_else(|| self.restored.remove(&addr.path()).map(restored));
            let repository = self.listed(&addr, before, state, places, now);
            for place in repository.replicas.keys() {
                if let Place::Relay(relay) = place {
                    let of_relay = self.expected.entry(relay.clone()).or_default();
                    of_relay.entry(state.id).or_default().push(addr.clone());
                }
            }
            self.repositories.insert(addr, repository);
        }
        let restored = self.restored.drain().map(|(path, _)| path);
        self.gone.extend(restored);
        self.gone.extend(known.keys().map(RepoAddr::path));
        let owners: HashSet<PublicKey> = self.repositories.keys().map(|it| it.owner).collect();
        self.asked.retain(|owner, _| owners.contains(owner));
    }

    fn listed(
        &mut self,
        addr: &RepoAddr,
        before: Option<Repository>,
        state: FollowedState,
        places: Vec<Place>,
        now: i64,
    ) -> Repository {
        let is_same = before.as_ref().is_some_and(|it| it.state == state);
        let mut known = before.map(|it| it.replicas).unwrap_or_default();
        let mut has_changed = !is_same || known.len() != places.len();
        let mut replicas = BTreeMap::new();
        for place in places {
            let replica = known.remove(&place);
            has_changed |= replica.is_none();
            let mut replica = replica.unwrap_or_else(|| Replica::new(&place, now));
            if !is_same {
                replica.outdate(&place, now);
            }
            if let Place::Relay(relay) = &place
                && replica.status != ReplicaStatus::Current
                && self
                    .recent
                    .get(relay)
                    .is_some_and(|it| it.contains(&state.id))
            {
                has_changed = true;
                replica.is_there(&place, &state, now);
            }
            replicas.insert(place, replica);
        }
        if has_changed {
            self.changed.insert(addr.clone());
        }
        Repository { state, replicas }
    }

    pub(super) fn is_news(&self, relay: &RelayUrl, state: &EventId, now: i64) -> bool {
        let expected = self.expected.get(relay).and_then(|it| it.get(state));
        let place = Place::Relay(relay.clone());
        let is_news = |addr: &RepoAddr| {
            let replica = self.repositories.get(addr);
            let replica = replica.and_then(|it| it.replicas.get(&place));
            replica.is_some_and(|it| {
                let is_late = it.checked_at.is_none_or(|at| now - at > STILL_CURRENT);
                it.status != ReplicaStatus::Current || is_late
            })
        };
        expected.is_some_and(|addrs| addrs.iter().any(is_news))
    }

    pub(super) fn seen(&mut self, relay: &RelayUrl, states: &[EventId], now: i64) {
        let recent = self.recent.entry(relay.clone());
        let recent = recent.or_insert_with(LruCache::unbounded);
        for state in states {
            recent.put(*state, ());
            if recent.len() > MAX_RECENT {
                recent.pop_lru();
            }
        }
        for state in states {
            self.change(relay, state, |place, replica, state| {
                replica.is_there(place, state, now);
            });
        }
    }

    pub(super) fn expected(&self, relay: &RelayUrl) -> Vec<EventId> {
        let expected = self.expected.get(relay);
        expected
            .map(|it| it.keys().copied().collect())
            .unwrap_or_default()
    }

    /// Those of `states` that speak for a repository of one of these identifiers.
    pub(super) fn of_identifiers(
        &self,
        relay: &RelayUrl,
        states: &[EventId],
        identifiers: &HashSet<&str>,
    ) -> Vec<EventId> {
        let expected = self.expected.get(relay);
        let is_meant = |state: &&EventId| {
            let addrs = expected.and_then(|it| it.get(*state));
            let mut addrs = addrs.into_iter().flatten();
            addrs.any(|addr| identifiers.contains(addr.identifier.as_str()))
        };
        states.iter().filter(is_meant).copied().collect()
    }

    pub(super) fn compared(
        &mut self,
        relay: &RelayUrl,
        judged: &[EventId],
        lacking: &HashSet<[u8; 32]>,
        now: i64,
    ) {
        for state in judged {
            let is_there = !lacking.contains(&state.to_bytes());
            self.change(relay, state, |place, replica, state| {
                if is_there {
                    return replica.is_there(place, state, now);
                }
                let status = match replica.state_at {
                    Some(_) => ReplicaStatus::Behind,
                    None => ReplicaStatus::Absent,
                };
                replica.is_not_there(place, status, None, now);
            });
        }
    }

    /// Changes the replicas of a state at one relay, where it is still the effective one.
    fn change(
        &mut self,
        relay: &RelayUrl,
        state: &EventId,
        change: impl Fn(&Place, &mut Replica, &FollowedState),
    ) {
        let Some(addrs) = self.expected.get(relay).and_then(|it| it.get(state)) else {
            return;
        };
        let place = Place::Relay(relay.clone());
        for addr in addrs {
            let Some(repository) = self.repositories.get_mut(addr) else {
                continue;
            };
            if let Some(replica) = repository.replicas.get_mut(&place) {
                change(&place, replica, &repository.state);
                self.changed.insert(addr.clone());
            }
        }
    }

    pub(super) fn take_due(&mut self, relay: &RelayUrl, most: usize, now: i64) -> Vec<Item> {
        let Some(expected) = self.expected.get(relay) else {
            return Vec::new();
        };
        let place = Place::Relay(relay.clone());
        let mut due = Vec::new();
        for (state, addrs) in expected {
            let mut is_due = false;
            let mut made = Timestamp::zero();
            for addr in addrs {
                let Some(repository) = self.repositories.get_mut(addr) else {
                    continue;
                };
                made = repository.state.created_at;
                if let Some(replica) = repository.replicas.get_mut(&place)
                    && replica.next_check <= now
                {
                    is_due = true;
                    // An answer says more; without one it is asked again later.
                    replica.next_check = now + place.pause(replica.failures.max(1));
                }
            }
            if is_due {
                due.push((made.as_secs(), state.to_bytes()));
            }
            if due.len() == most {
                break;
            }
        }
        due
    }

    /// The clone URL to ask next, of the owner who has waited longest.
    pub(super) fn next_clone(&self, now: i64) -> Option<(RepoAddr, Arc<str>)> {
        let all = self.repositories.iter();
        let due = all.flat_map(|(addr, repository)| {
            let replicas = repository.replicas.iter();
            replicas.filter_map(move |(place, replica)| match place {
                Place::Git(url) if replica.next_check <= now => Some((addr, url, replica)),
                Place::Git(_) | Place::Relay(_) => None,
            })
        });
        let (addr, url, _) = due.min_by_key(|(addr, _, replica)| {
            (self.asked.get(&addr.owner).copied(), replica.next_check)
        })?;
        Some((addr.clone(), Arc::clone(url)))
    }

    /// Notes what a look at a clone URL found that was meant for `state`.
    pub(super) fn probed(
        &mut self,
        addr: &RepoAddr,
        url: &Arc<str>,
        state: Option<&EventId>,
        probe: Probe,
        now: i64,
    ) {
        self.asked.insert(addr.owner, now);
        let place = Place::Git(Arc::clone(url));
        let Some(repository) = self.repositories.get_mut(addr) else {
            return;
        };
        let effective = repository.state;
        let Some(replica) = repository.replicas.get_mut(&place) else {
            return;
        };
        if state != Some(&effective.id) {
            replica.next_check = now + place.gap();
            return;
        }
        match probe {
            Probe::PutOff(pause) => {
                replica.next_check = now + pause.clamp(FIRST_CHECK, MAX_GIT_PAUSE);
                return;
            }
            Probe::Refs { matching, all, .. } if matching == all => {
                replica.is_there(&place, &effective, now);
            }
            Probe::Refs {
                matching,
                all,
                found,
            } => {
                let status = if found == 0 {
                    ReplicaStatus::Absent
                } else {
                    ReplicaStatus::Behind
                };
                let note = format!("{matching} of {all} refs are as the state says");
                replica.is_not_there(&place, status, Some(note), now);
            }
            Probe::Unreachable(why) => {
                replica.is_not_there(&place, ReplicaStatus::Unreachable, Some(why), now);
            }
        }
        self.changed.insert(addr.clone());
    }

    pub(super) fn take_changes(&mut self) -> (Vec<(String, Saved)>, Vec<String>) {
        let changed = std::mem::take(&mut self.changed);
        let changed = changed.into_iter().filter_map(|addr| {
            let repository = self.repositories.get(&addr)?;
            let replicas = repository.replicas.iter();
            let replicas = replicas.map(|(place, it)| (place.as_str().to_owned(), it.clone()));
            let saved = Saved {
                state: repository.state.id,
                state_at: repository.state.created_at.as_secs(),
                replicas: replicas.collect(),
            };
            Some((addr.path(), saved))
        });
        let changed = changed.collect();
        (
            changed,
            std::mem::take(&mut self.gone).into_iter().collect(),
        )
    }

    /// Takes back what could not be written.
    pub(super) fn put_back(&mut self, changed: Vec<(String, Saved)>, gone: Vec<String>) {
        let known: HashSet<String> = changed.into_iter().map(|(path, _)| path).collect();
        let addrs = self.repositories.keys();
        let addrs = addrs.filter(|addr| known.contains(&addr.path())).cloned();
        self.changed.extend(addrs);
        self.gone.extend(gone);
    }

    pub(super) fn report(&self, addr: &RepoAddr, down: &Down<'_>) -> Vec<ReplicaReport> {
        let Some(repository) = self.repositories.get(addr) else {
            return Vec::new();
        };
        let made = repository.state.created_at.as_secs();
        let one = |(place, replica): (&Place, &Replica)| {
            let (status, since, note) = shown(place, replica, down);
            let is_behind = status == ReplicaStatus::Behind || status == ReplicaStatus::Unreachable;
            let older = replica.state_at.map(|at| made.saturating_sub(at));
            ReplicaReport {
                url: place.as_str().to_owned(),
                kind: match place {
                    Place::Relay(_) => ReplicaKind::Relay,
                    Place::Git(_) => ReplicaKind::Git,
                },
                status,
                since: since.filter(|_| status != ReplicaStatus::Unknown),
                checked_at: replica.checked_at,
                state_at: replica.state_at,
                behind_seconds: older.filter(|_| is_behind),
                note,
            }
        };
        repository.replicas.iter().map(one).collect()
    }

    pub(super) fn totals(&self, down: &Down<'_>, now: i64) -> ReplicationTotals {
        let mut totals = ReplicationTotals::default();
        for counts in [&mut totals.relays, &mut totals.git] {
            counts.extend(ReplicaStatus::ALL.map(|status| (status.label().to_owned(), 0)));
        }
        for repository in self.repositories.values() {
            let mut is_alone = !repository.replicas.is_empty();
            for (place, replica) in &repository.replicas {
                let (status, since, _) = shown(place, replica, down);
                let counts = match place {
                    Place::Relay(_) => &mut totals.relays,
                    Place::Git(_) => &mut totals.git,
                };
                *counts.entry(status.label().to_owned()).or_default() += 1;
                is_alone &= status != ReplicaStatus::Current;
                let lags = matches!(status, ReplicaStatus::Behind | ReplicaStatus::Absent);
                let lag = since.filter(|_| lags).map_or(0, |since| now - since);
                let lag = u64::try_from(lag / 1_000).unwrap_or_default();
                totals.longest_lag_seconds = totals.longest_lag_seconds.max(lag);
            }
            totals.repositories_alone += u64::from(is_alone);
        }
        totals
    }
}

/// Says since when a relay is not connected, and why; nothing of one that is.
type Down<'a> = dyn Fn(&RelayUrl) -> Option<(Option<i64>, Option<String>)> + 'a;

/// What is shown of a replica: of a relay that cannot be reached, that.
fn shown(
    place: &Place,
    replica: &Replica,
    down: &Down<'_>,
) -> (ReplicaStatus, Option<i64>, Option<String>) {
    if let Place::Relay(relay) = place
        && let Some((since, why)) = down(relay)
    {
        return (ReplicaStatus::Unreachable, since, why);
    }
    (replica.status, Some(replica.since), replica.note.clone())
}

fn restored(saved: Saved) -> Repository {
    let replicas = saved.replicas.into_iter();
    Repository {
        state: FollowedState {
            id: saved.state,
            created_at: Timestamp::from(saved.state_at),
        },
        replicas: replicas
            .map(|(place, replica)| (Place::parse(&place), replica))
            .collect(),
    }
}

#[cfg(test)]
mod tests;
