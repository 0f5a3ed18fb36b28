//! Rules of the operator: one snapshot of settings, swapped whole on reload.

use std::{collections::BTreeSet, str::FromStr, time::Duration};

use grip_nostr::{
    Announcement, Event, Filter, MaintainerRule, PublicKey, RepoAddr, kinds, vanishes_from,
};
use grip_relay::Members;
use grip_types::{Identifier, InvalidIdentifier, Service};
use url::Url;

/// The settings every admission decision reads.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The name announcements must list.
    pub service: Service,
    /// Other names this server is reached by: never asked for data, as it would ask itself.
    pub aliases: Vec<Service>,
    /// Names it had before: what was announced under one of them stays.
    pub former: Vec<Service>,
    pub maintainer_rule: MaintainerRule,
    /// Pull requests are hosted below `/prs/` for repositories that are not here (GRASP-06).
    pub contributors: bool,
    /// Repositories that may be announced here (`NGIT_REPOSITORY_WHITELIST`); empty = all.
    pub repository_whitelist: Selection,
    /// Repositories that may not (`NGIT_REPOSITORY_BLACKLIST`).
    pub repository_blacklist: Selection,
    /// Whose events are refused, whatever they are (`NGIT_EVENT_BLACKLIST`).
    pub event_blacklist: BTreeSet<PublicKey>,
    /// What is mirrored though it does not list this server.
    pub archive: Archive,
    /// The key of this service, whose own events need no relation (E-4).
    pub service_key: Option<PublicKey>,
    /// Who may announce repositories of a private service (GRASP-08); none = a public one.
    pub members: Option<Members>,
    /// What the operator has blocked by order: repositories, and everything of a key.
    pub blocked: Selection,
    /// Bring back what a blacklist took out of service when it does so no more
    /// (`NGIT_BLACKLIST_AUTO_RESTORE`).
    pub blacklist_auto_restore: bool,
    /// Keep requests to delete and let them do nothing (`NGIT_DELETION_REQUEST_DISRESPECTOR`).
    pub ignores_deletions: bool,
    /// Bytes that served requests of one key to delete, and as many to vanish, may take up; none for
    /// any number.
    pub request_bytes_per_key: Option<usize>,
    /// Refs of pull requests by keys that do not maintain a repository.
    pub pull_request_refs: PullRequestRefs,
    /// Bytes that they may add to it.
    pub pull_request_bytes: PullRequestBytes,
}

/// Bytes that pushes of pull requests may add at once, and as many again in the course of a day, where
/// their authors do not maintain the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullRequestBytes {
    /// From one network of clients; default 1 GiB.
    pub per_network: u64,
    /// By one key; default 1 GiB.
    pub per_author: u64,
    /// To one repository; default 8 GiB. One network has a quarter of what is free.
    pub per_repository: u64,
}

impl Default for PullRequestBytes {
    fn default() -> Self {
        Self {
            per_network: 1 << 30,
            per_author: 1 << 30,
            per_repository: 8 << 30,
        }
    }
}

/// How many refs of pull requests one repository may have. Any commit that is here may be named in any
/// number of events, each of which makes a ref, and every change of refs writes all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullRequestRefs {
    /// By one key; default 2,000.
    pub per_author: usize,
    /// By all; default 20,000.
    pub per_repository: usize,
}

impl Default for PullRequestRefs {
    fn default() -> Self {
        Self {
            per_author: 2_000,
            per_repository: 20_000,
        }
    }
}

/// What requests of one key take up unless the operator says otherwise.
const REQUEST_BYTES_PER_KEY: usize = 1 << 20;

/// Repositories that are mirrored though they do not list this server (GRASP-05).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    pub mode: Option<ArchiveMode>,
    /// Nothing else is taken, and nothing is pushed (G05-8).
    pub read_only: bool,
    /// How long tips that refs had before are kept.
    pub retention: TipRetention,
}

/// What the archive selects (G05-6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveMode {
    /// Every announcement met.
    All,
    Listed(Selection),
    /// Announcements whose `clone` names their author's repository on one of these servers.
    Services(Vec<Service>),
}

/// How long and how many tips are kept that refs of an archived repository had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TipRetention {
    /// From the move on; none for ever.
    pub time: Option<Duration>,
    /// Of one repository. Beyond it those go first that stood for the shortest time.
    pub tips: usize,
}

impl Default for TipRetention {
    fn default() -> Self {
        Self {
            time: None,
            tips: 10_000,
        }
    }
}

impl Archive {
    /// Says whether the operator archives what is announced. A private repository never is.
    pub fn selects(&self, announcement: &Announcement) -> bool {
        let is_selected = match &self.mode {
            None => false,
            Some(ArchiveMode::All) => true,
            Some(ArchiveMode::Listed(list)) => list.contains(&announcement.addr()),
            Some(ArchiveMode::Services(services)) => {
                services.iter().any(|it| announcement.clones_from(it))
            }
        };
        is_selected && !announcement.is_private()
    }
}

impl Policy {
    /// An open server: every repository that lists `service`.
    pub fn open(service: Service) -> Self {
        Self {
            service,
            aliases: Vec::new(),
            former: Vec::new(),
            maintainer_rule: MaintainerRule::default(),
            contributors: false,
            repository_whitelist: Selection::default(),
            repository_blacklist: Selection::default(),
            event_blacklist: BTreeSet::new(),
            archive: Archive::default(),
            service_key: None,
            members: None,
            blocked: Selection::default(),
            blacklist_auto_restore: false,
            ignores_deletions: false,
            request_bytes_per_key: Some(REQUEST_BYTES_PER_KEY),
            pull_request_refs: PullRequestRefs::default(),
            pull_request_bytes: PullRequestBytes::default(),
        }
    }

    /// Says whether `url` leads to this very server.
    pub fn is_own(&self, url: &Url) -> bool {
        let mut names = std::iter::once(&self.service).chain(&self.aliases);
        names.any(|name| name.has_authority(url))
    }

    /// Says whether what is announced has a repository here: because it lists this server, by
    /// whatever name that had, or because it is archived (G05-9).
    pub(crate) fn hosts(&self, announcement: &Announcement) -> bool {
        let is_listed = !self.archive.read_only
            && self.selects(&announcement.addr())
            && self.names().any(|name| announcement.lists(name));
        is_listed || self.archive.selects(announcement)
    }

    /// The names under which repositories are here.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Service> {
        std::iter::once(&self.service).chain(&self.former)
    }

    /// Says whether an event is a request to vanish from here, under any name we have or had.
    pub(crate) fn is_vanish(&self, event: &Event) -> bool {
        let mut names = self.names().chain(&self.aliases);
        !self.ignores_deletions && names.any(|name| vanishes_from(event, name))
    }

    /// Says whether the operator takes this repository.
    pub fn selects(&self, addr: &RepoAddr) -> bool {
        self.repository_whitelist.is_empty() || self.repository_whitelist.contains(addr)
    }

    /// Says whether the operator bans this repository.
    pub fn bans(&self, addr: &RepoAddr) -> bool {
        self.repository_blacklist.contains(addr)
            || self.blocked.contains(addr)
            || self.bans_author(&addr.owner)
    }

    /// Says whether this is the key of the service itself.
    pub(crate) fn is_service(&self, key: &PublicKey) -> bool {
        self.service_key.as_ref() == Some(key)
    }

    /// Says whether everything this key signs is refused.
    pub fn bans_author(&self, author: &PublicKey) -> bool {
        let is_banned =
            self.event_blacklist.contains(author) || self.blocked.owners.contains(author);
        is_banned && !self.is_service(author)
    }

    pub(crate) fn banned_authors(&self) -> impl Iterator<Item = &PublicKey> {
        let banned = self.event_blacklist.union(&self.blocked.owners);
        banned.filter(|author| !self.is_service(author))
    }
}

/// Repositories named by `<npub>`, `<npub>/<identifier>` or `<identifier>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    owners: BTreeSet<PublicKey>,
    repositories: BTreeSet<RepoAddr>,
    identifiers: BTreeSet<Identifier>,
}

/// Why a list of repositories or authors cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSelection {
    #[error("{0:?} is not an npub: check its spelling")]
    Npub(String),
    #[error("{entry:?} names no repository")]
    Identifier {
        entry: String,
        source: InvalidIdentifier,
    },
}

impl Selection {
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.repositories.is_empty() && self.identifiers.is_empty()
    }

    pub fn contains(&self, addr: &RepoAddr) -> bool {
        self.owners.contains(&addr.owner)
            || self.identifiers.contains(&addr.identifier)
            || self.repositories.contains(addr)
    }

    /// What finds the announcements of all that is selected.
    pub(crate) fn announcements(&self) -> Vec<Filter> {
        let of = |owners: Vec<&PublicKey>, identifiers: Vec<&Identifier>| {
            let owners = owners.into_iter().map(|owner| owner.to_bytes());
            let mut owners: Vec<_> = owners.collect();
            owners.sort_unstable();
            let names = identifiers.into_iter().map(|it| it.as_str().to_owned());
            let mut names: Vec<String> = names.collect();
            names.sort_unstable();
            let tags = (!names.is_empty()).then_some(('d', names));
            Filter {
                kinds: Some(vec![kinds::ANNOUNCEMENT.as_u16()]),
                authors: (!owners.is_empty()).then_some(owners),
                tags: tags.into_iter().collect(),
                ..Filter::default()
            }
        };
        let mut filters = Vec::new();
        if !self.owners.is_empty() {
            filters.push(of(self.owners.iter().collect(), Vec::new()));
        }
        if !self.identifiers.is_empty() {
            filters.push(of(Vec::new(), self.identifiers.iter().collect()));
        }
        let repositories = self.repositories.iter();
        filters.extend(repositories.map(|it| of(vec![&it.owner], vec![&it.identifier])));
        filters
    }

    /// Reads entries as [`str::parse`] does, leaves out those that are no selection, and returns why.
    pub fn parse_leniently(text: &str) -> (Self, Vec<InvalidSelection>) {
        let (mut selection, mut invalid) = (Self::default(), Vec::new());
        for entry in entries(text) {
            invalid.extend(selection.add(entry).err());
        }
        (selection, invalid)
    }

    pub(crate) fn add(&mut self, entry: &str) -> Result<(), InvalidSelection> {
        let identifier = |text: &str| {
            Identifier::parse(text).map_err(|source| InvalidSelection::Identifier {
                entry: entry.to_owned(),
                source,
            })
        };
        if let Some((owner, name)) = entry.split_once('/') {
            let addr = RepoAddr::new(author(owner)?, identifier(name)?);
            self.repositories.insert(addr);
        } else if entry.starts_with("npub1") {
            // A misspelt npub must not silently become an identifier that matches nothing.
            self.owners.insert(author(entry)?);
        } else {
            self.identifiers.insert(identifier(entry)?);
        }
        Ok(())
    }
}

impl FromStr for Selection {
    type Err = InvalidSelection;

    /// Reads entries separated by commas; blanks around them and empty entries do not count.
    fn from_str(text: &str) -> Result<Self, InvalidSelection> {
        let mut selection = Self::default();
        for entry in entries(text) {
            selection.add(entry)?;
        }
        Ok(selection)
    }
}

/// Reads a comma-separated list of npubs.
pub fn parse_authors(text: &str) -> Result<BTreeSet<PublicKey>, InvalidSelection> {
    entries(text).map(author).collect()
}

fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|e| !e.is_empty())
}

fn author(npub: &str) -> Result<PublicKey, InvalidSelection> {
    RepoAddr::parse_npub(npub).ok_or_else(|| InvalidSelection::Npub(npub.to_owned()))
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{Keys, ToBech32};

    use super::*;

    fn addr(keys: &Keys, identifier: &str) -> RepoAddr {
        RepoAddr::new(keys.public_key(), Identifier::parse(identifier).unwrap())
    }

    #[test]
    fn entries_name_an_owner_a_repository_or_an_identifier() {
        let (a, b, c) = (Keys::generate(), Keys::generate(), Keys::generate());
        let npub = |keys: &Keys| keys.public_key().to_bech32().unwrap();
        let list: Selection = format!(" {}, {}/tide table ,, sails ", npub(&a), npub(&b))
            .parse()
            .unwrap();
        assert!(list.contains(&addr(&a, "anything")));
        assert!(list.contains(&addr(&b, "tide table")) && !list.contains(&addr(&b, "x")));
        assert!(list.contains(&addr(&c, "sails")) && !list.contains(&addr(&c, "tide table")));
    }

    #[test]
    fn a_misspelt_npub_is_an_error_and_no_identifier() {
        let mut npub = Keys::generate().public_key().to_bech32().unwrap();
        npub.pop();
        assert!(matches!(
            npub.parse::<Selection>(),
            Err(InvalidSelection::Npub(_))
        ));
        assert!(matches!(
            format!("{npub}/x").parse::<Selection>(),
            Err(InvalidSelection::Npub(_))
        ));
        assert!(parse_authors("sails").is_err());
        assert!("..".parse::<Selection>().is_err());
    }

    #[test]
    fn an_empty_whitelist_takes_everything_and_the_blacklist_still_bans() {
        let keys = Keys::generate();
        let mut policy = Policy::open(Service::parse("grasp.example.com").unwrap());
        assert!(policy.selects(&addr(&keys, "x")) && !policy.bans(&addr(&keys, "x")));
        policy.repository_blacklist = "x".parse().unwrap();
        assert!(policy.bans(&addr(&keys, "x")) && !policy.bans(&addr(&keys, "y")));
        policy.event_blacklist.insert(keys.public_key());
        assert!(policy.bans(&addr(&keys, "y")));
    }
}
