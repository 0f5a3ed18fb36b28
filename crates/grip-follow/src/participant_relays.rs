//! Sync plus (GRASP-03): the relays of those who take part in something served here, by their own
//! lists (NIP-65).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use grip_nostr::{Address, Event, EventId, FollowedRepository, PublicKey, kinds};

use crate::{
    RelayUrl,
    plan::{Class, Draft, Plan},
    targets::{Threads, VOICE},
};

/// Relays of one author for one purpose, in the order of their list (G03-7).
const MAX_RELAYS_OF_ONE: usize = 4;
/// Authors whose relays are followed; owners and maintainers come first.
const MAX_PARTICIPANTS: usize = 10_000;
/// Those of them that come by the repositories of one owner, so that a crowd of made-up names in one
/// leaves room for the people of others.
const MAX_BY_ONE: usize = 500;
/// Issues, patches and pull requests that one author's relays are asked about.
const MAX_ROOTS_OF_ONE: usize = 200;
/// Owners whose voice counts for the relays of one author.
const MAX_OWNERS_OF_ONE: usize = 8;
/// Relays that are followed for the lists of authors alone (G03-10).
const MAX_RELAYS: usize = 32;

/// Where lists of relays are looked up, and where those without one are looked for.
#[derive(Clone, Debug, Default)]
pub struct PlusOptions {
    pub index_relays: Vec<RelayUrl>,
    pub fallback_relays: Vec<RelayUrl>,
}

/// Everybody who takes part, and in what.
#[derive(Debug, Default)]
pub(crate) struct Participants {
    parts: BTreeMap<PublicKey, Part>,
    /// How many came by the repositories of one owner.
    introduced: HashMap<PublicKey, usize>,
}

/// What somebody takes part in.
#[derive(Debug, Default)]
struct Part {
    /// Issues, patches and pull requests.
    roots: BTreeSet<EventId>,
    /// Those of them that are theirs.
    own: BTreeSet<EventId>,
    /// Repositories that they maintain.
    repositories: BTreeSet<Arc<str>>,
    /// Owners of the repositories by which they are known, the first few.
    owners: BTreeSet<PublicKey>,
}

impl Participants {
    pub(crate) fn add_members(&mut self, repository: &FollowedRepository) {
        let address = Address::of_announcement(&repository.addr).to_string();
        let address: Arc<str> = address.into();
        for member in &repository.members {
            if let Some(part) = self.entry(member, &repository.addr.owner) {
                part.repositories.insert(Arc::clone(&address));
            }
        }
    }

    /// Says whether more people may come by the repositories of an owner.
    pub(crate) fn has_room(&self, owner: &PublicKey) -> bool {
        let introduced = self.introduced.get(owner).copied().unwrap_or_default();
        introduced < MAX_BY_ONE && self.parts.len() < MAX_PARTICIPANTS
    }

    pub(crate) fn add_threads(&mut self, owner: &PublicKey, threads: &Threads) {
        for taken in &threads.participants {
            let Some(part) = self.entry(&taken.author, owner) else {
                continue;
            };
            if part.roots.len() < MAX_ROOTS_OF_ONE {
                part.roots.insert(taken.root);
                if taken.is_its_author {
                    part.own.insert(taken.root);
                }
            }
        }
    }

    fn entry(&mut self, author: &PublicKey, owner: &PublicKey) -> Option<&mut Part> {
        if !self.parts.contains_key(author) {
            let introduced = self.introduced.entry(*owner).or_default();
            if self.parts.len() == MAX_PARTICIPANTS || *introduced == MAX_BY_ONE {
                return None;
            }
            *introduced += 1;
        }
        let part = self.parts.entry(*author).or_default();
        if part.owners.len() < MAX_OWNERS_OF_ONE {
            part.owners.insert(*owner);
        }
        Some(part)
    }
}

/// The relays of an author (kind 10002), each kind at most four.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RelayList {
    write: Vec<RelayUrl>,
    read: Vec<RelayUrl>,
}

impl RelayList {
    /// Reads a list; an address that is not usable is left out, never the whole list (G03-9).
    pub(crate) fn read(event: &Event, may_follow: impl Fn(&RelayUrl) -> bool) -> Self {
        let mut list = Self::default();
        for tag in event.tags.iter().filter(|tag| tag.kind() == "r") {
            let parts = tag.as_slice();
            let Some(url) = parts.get(1).and_then(|text| usable(text)) else {
                continue;
            };
            let marker = parts.get(2).map(String::as_str).unwrap_or_default();
            let purposes = [
                (&mut list.write, ["", "write"].contains(&marker)),
                (&mut list.read, ["", "read"].contains(&marker)),
            ];
            for (urls, is_meant) in purposes {
                let is_new = is_meant && urls.len() < MAX_RELAYS_OF_ONE && !urls.contains(&url);
                if is_new && may_follow(&url) {
                    urls.push(url.clone());
                }
            }
        }
        list
    }
}

/// An address that looks like a relay, not like a trap for those who follow lists.
fn usable(text: &str) -> Option<RelayUrl> {
    let relay = RelayUrl::parse(text).ok()?;
    let url = relay.url();
    let host = url.host_str()?.to_owned();
    let is_key =
        |segment: &str| segment.len() == 64 && segment.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut segments = url.path().split('/');
    let is_trap = segments.any(|segment| is_key(segment) || segment.eq_ignore_ascii_case(&host));
    (!is_trap).then_some(relay)
}

/// What is wanted of relays beside those that announcements name, the most important first.
pub(crate) fn wishes(
    participants: &Participants,
    options: &PlusOptions,
    bootstrap: &[RelayUrl],
    list_of: impl Fn(&PublicKey) -> Option<RelayList>,
    was_asked: &HashSet<Arc<str>>,
) -> Vec<(RelayUrl, Plan)> {
    let mut by_lists: HashMap<RelayUrl, ByLists> = HashMap::new();
    let (mut index, mut fallback) = (Draft::default(), Draft::default());
    for (author, part) in &participants.parts {
        let key: Arc<str> = author.to_hex().into();
        index.add(Class::Profiles, &key);
        let Some(list) = list_of(author) else {
            // Only where a look that succeeded found no list (G03-8).
            if was_asked.contains(&key) {
                fallback.add(Class::Profiles, &key);
                part.add_threads(&mut fallback, &part.roots);
            }
            continue;
        };
        for url in &list.write {
            let plan = by_lists.entry(url.clone()).or_default().name(part);
            plan.add(Class::Profiles, &key);
            part.add_threads(plan, &part.roots);
        }
        for url in &list.read {
            if part.own.is_empty() && part.repositories.is_empty() {
                continue;
            }
            let plan = by_lists.entry(url.clone()).or_default().name(part);
            part.add_threads(plan, &part.own);
            for address in &part.repositories {
                for class in [Class::Address, Class::RootAddress, Class::Quote] {
                    plan.add(class, address);
                }
            }
        }
    }
    let configured = |urls: &[RelayUrl], plan: &Plan| -> Vec<(RelayUrl, Plan)> {
        let urls = urls.iter().filter(|_| !plan.is_empty());
        urls.map(|url| (url.clone(), plan.clone())).collect()
    };
    let (index, fallback) = (index.finish(), fallback.finish());
    let mut wishes = configured(&options.index_relays, &index);
    wishes.extend(configured(bootstrap, &index));
    wishes.extend(configured(&options.fallback_relays, &fallback));
    wishes.extend(ranked(by_lists));
    wishes
}

/// A relay that lists of authors name.
#[derive(Default)]
struct ByLists {
    authors: usize,
    /// Owners of the repositories by which these are known.
    owners: BTreeSet<PublicKey>,
    plan: Draft,
}

impl ByLists {
    /// Counts the list of one more author.
    fn name(&mut self, part: &Part) -> &mut Draft {
        self.authors += 1;
        self.owners.extend(&part.owners);
        &mut self.plan
    }
}

/// The relays of the most owners whose people name them. The voice of an owner is shared among all
/// relays that come by their repositories: a crowd of made-up people in one takes nobody's place.
fn ranked(by_lists: HashMap<RelayUrl, ByLists>) -> Vec<(RelayUrl, Plan)> {
    let mut named: HashMap<PublicKey, u64> = HashMap::new();
    for owner in by_lists.values().flat_map(|it| &it.owners) {
        *named.entry(*owner).or_default() += 1;
    }
    let mut ranked: Vec<(RelayUrl, ByLists)> = by_lists.into_iter().collect();
    ranked.sort_by_cached_key(|(url, it)| {
        let voices: u64 = it.owners.iter().map(|owner| VOICE / named[owner]).sum();
        (Reverse((voices, it.authors)), url.clone())
    });
    let ranked = ranked.into_iter().take(MAX_RELAYS);
    ranked.map(|(url, it)| (url, it.plan.finish())).collect()
}

impl Part {
    /// What tags these issues, patches and pull requests (G03-2).
    fn add_threads(&self, plan: &mut Draft, roots: &BTreeSet<EventId>) {
        for id in roots {
            let id: Arc<str> = id.to_hex().into();
            for class in [Class::Event, Class::RootEvent, Class::Quote] {
                plan.add(class, &id);
            }
        }
    }
}

/// The address of an author's list.
pub(crate) fn list_address(author: PublicKey) -> Address {
    Address {
        kind: kinds::RELAY_LIST,
        author,
        d: String::new(),
    }
}

#[cfg(test)]
mod tests;
