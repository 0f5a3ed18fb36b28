//! The catalog of served repositories: listed, searched and sorted in memory.

use std::collections::{BTreeSet, HashMap};

use grip_nostr::{
    Announcement, Filter, MaintainerRule, PublicKey, RepoAddr, kinds, maintainer_set, values,
};
use grip_store::{EventStore, StoreError};

use crate::{
    activity::{self, Activity},
    profile::{self, Profile},
    query,
};

/// Longest name kept.
const MAX_NAME_CHARS: usize = 100;
/// Longest topic kept.
const MAX_TOPIC_CHARS: usize = 40;
/// Longest description kept; a page shows its first line.
const MAX_DESCRIPTION_CHARS: usize = 300;
/// Topics kept of one repository.
const MAX_TOPICS: usize = 10;
/// Longest text that is searched for.
const MAX_SEARCH_CHARS: usize = 100;

/// Every served repository as it was a moment ago.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Newest state first.
    entries: Vec<Entry>,
    /// Places of the entries in the other orders: sorting ten thousand names takes longer than the
    /// page that shows thirty of them.
    by_name: Vec<usize>,
    by_owner: Vec<usize>,
    places: HashMap<RepoAddr, usize>,
    profiles: HashMap<PublicKey, Profile>,
    /// What was done lately, newest first.
    pub activity: Vec<Activity>,
    /// All events of the store.
    pub events: u64,
}

/// One repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub addr: RepoAddr,
    pub name: String,
    /// Its first line.
    pub description: String,
    pub topics: Vec<String>,
    /// When the newest state of a maintainer was signed; 0 if none is served.
    pub updated_at: u64,
    pub maintainers: Vec<PublicKey>,
    /// All that is searched, in lower case.
    text: String,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Updated,
    Name,
    Owner,
}

impl Catalog {
    /// Reads what is served of `served`, by the same rule of maintainers as the node. Blocks.
    pub fn read(
        store: &EventStore,
        served: Vec<RepoAddr>,
        rule: MaintainerRule,
    ) -> Result<Self, StoreError> {
        let events = store.stats()?.events;
        let view = store.read()?;
        let of_kind = |kind: grip_nostr::Kind| Filter {
            kinds: Some(vec![kind.as_u16()]),
            ..Filter::default()
        };
        let mut announced: HashMap<String, HashMap<PublicKey, Announcement>> = HashMap::new();
        query::each(&view, of_kind(kinds::ANNOUNCEMENT), usize::MAX, |event| {
            if let Ok(announcement) = Announcement::parse(event) {
                let identifier = announcement.identifier.as_str().to_owned();
                let of_identifier = announced.entry(identifier).or_default();
                of_identifier.insert(announcement.owner(), announcement);
            }
        })?;
        let mut signed: HashMap<String, HashMap<PublicKey, u64>> = HashMap::new();
        query::each(&view, of_kind(kinds::STATE), usize::MAX, |event| {
            let identifier = grip_nostr::first_value(&event, "d").unwrap_or_default();
            let of_identifier = signed.entry(identifier.to_owned()).or_default();
            of_identifier.insert(event.pubkey, event.created_at.as_secs());
        })?;
        let owners: BTreeSet<PublicKey> = served.iter().map(|addr| addr.owner).collect();
        let mut profiles = profile::read(&view, owners)?;
        let none = HashMap::new();
        let entries = served.into_iter().filter_map(|addr| {
            let identifier = addr.identifier.as_str();
            let announcements = announced.get(identifier)?;
            let set = maintainer_set(rule, &addr.owner, |key| announcements.get(key));
            let states = signed.get(identifier).unwrap_or(&none);
            let newest = set.iter().filter_map(|key| states.get(key)).max();
            let announcement = announcements.get(&addr.owner)?;
            let profile = profiles.get(&addr.owner);
            let maintainers = set.iter().copied().collect();
            let updated_at = newest.copied().unwrap_or(0);
            Some(Entry::new(
                addr,
                announcement,
                updated_at,
                maintainers,
                profile,
            ))
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by(|a, b| {
            let newest_first = b.updated_at.cmp(&a.updated_at);
            newest_first.then_with(|| a.addr.cmp(&b.addr))
        });
        let places = entries.iter().enumerate();
        let places: HashMap<_, _> = places
            .map(|(place, entry)| (entry.addr.clone(), place))
            .collect();
        let activity = activity::read(&view, |addr| {
            if places.contains_key(addr) {
                return Some(addr.clone());
            }
            // A maintainer signs states for the repository of somebody else.
            let mut entries = entries.iter();
            let maintains = |entry: &&Entry| {
                entry.addr.identifier == addr.identifier && entry.maintainers.contains(&addr.owner)
            };
            entries.find(maintains).map(|entry| entry.addr.clone())
        })?;
        let authors: BTreeSet<_> = activity.iter().map(|activity| activity.author).collect();
        let mut by_name: Vec<usize> = (0..entries.len()).collect();
        by_name.sort_by_cached_key(|place| entries[*place].name.to_lowercase());
        let mut by_owner: Vec<usize> = (0..entries.len()).collect();
        by_owner.sort_by_cached_key(|place| {
            let owner = entries[*place].addr.owner;
            let name = profiles.get(&owner).map(|profile| &profile.name);
            (name.is_none(), name.map(|name| name.to_lowercase()), owner)
        });
        profiles.extend(profile::read(&view, authors)?);
        Ok(Self {
            by_name,
            by_owner,
            places,
            entries,
            activity,
            profiles,
            events,
        })
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, addr: &RepoAddr) -> Option<&Entry> {
        self.places.get(addr).map(|place| &self.entries[*place])
    }

    /// All repositories, newest state first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// The repositories that hold every word of `search`.
    pub fn find<'a>(&'a self, search: &str, sort: Sort) -> Vec<&'a Entry> {
        let search: String = search.chars().take(MAX_SEARCH_CHARS).collect();
        let search = search.to_lowercase();
        let words: Vec<&str> = search.split_whitespace().collect();
        let holds = |entry: &&Entry| words.iter().all(|word| entry.text.contains(word));
        let in_order = |places: &'a [usize]| places.iter().map(|place| &self.entries[*place]);
        match sort {
            Sort::Updated => self.entries.iter().filter(holds).collect(),
            Sort::Name => in_order(&self.by_name).filter(holds).collect(),
            Sort::Owner => in_order(&self.by_owner).filter(holds).collect(),
        }
    }

    /// The repositories that somebody owns, and those that he maintains for others.
    pub fn of(&self, key: &PublicKey) -> (Vec<&Entry>, Vec<&Entry>) {
        let concerned = self
            .entries
            .iter()
            .filter(|entry| entry.maintainers.contains(key));
        concerned.partition(|entry| entry.addr.owner == *key)
    }

    /// The profile of an owner, or of somebody who did something lately.
    pub fn profile(&self, owner: &PublicKey) -> Option<&Profile> {
        self.profiles.get(owner)
    }
}

impl Entry {
    fn new(
        addr: RepoAddr,
        announcement: &Announcement,
        updated_at: u64,
        maintainers: Vec<PublicKey>,
        profile: Option<&Profile>,
    ) -> Self {
        let name = match announcement.name().trim() {
            "" => addr.identifier.as_str().to_owned(),
            name => name.chars().take(MAX_NAME_CHARS).collect(),
        };
        let line = announcement.description().lines().next().unwrap_or("");
        let description: String = line.chars().take(MAX_DESCRIPTION_CHARS).collect();
        let topics = values(&announcement.event, "t").take(MAX_TOPICS);
        let cut = |topic: &str| topic.chars().take(MAX_TOPIC_CHARS).collect();
        let topics: Vec<String> = topics.map(cut).collect();
        let owner = profile.map_or("", |profile| &profile.name);
        let text = [
            &*name,
            addr.identifier.as_str(),
            &description,
            &topics.join(" "),
            owner,
            &addr.npub(),
        ];
        let text = text.join("\n").to_lowercase();
        Self {
            name,
            description,
            topics,
            updated_at,
            maintainers,
            text,
            addr,
        }
    }
}
