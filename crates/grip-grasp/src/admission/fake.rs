//! A small node in memory: admits events and does what the decisions say.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use grip_nostr::{
    Address, Announcement, Deletion, Event, EventId, Kind, MaintainerRule, PublicKey, RepoAddr,
    Timestamp, address_of, first_value, kinds, references, supersedes,
};
use grip_types::{Identifier, Oid, Origin, Service};
use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};

use super::{
    Arrival, Cause, Decision, Effect, EventStatus, Found, HeldState, KnownAnnouncement, Outcome,
    ReadAnnouncement, RequestRefs, View, ViewError, admit,
};
use crate::{departures::Departure, policy::Policy};

pub(crate) const SERVICE: &str = "grasp.example.com";
pub(crate) const D: &str = "tide-table";

/// What is served and held, and which objects exist.
pub(crate) struct FakeView {
    pub(crate) policy: Policy,
    pub(crate) served: Vec<Event>,
    pub(crate) held: Vec<Event>,
    pub(crate) hidden: BTreeSet<EventId>,
    pub(crate) expired: BTreeSet<EventId>,
    pub(crate) wanted: BTreeSet<EventId>,
    pub(crate) objects: BTreeMap<Oid, Found>,
    pub(crate) placeholders: Vec<(EventId, RepoAddr)>,
    pub(crate) staged: Vec<(RepoAddr, EventId, Oid)>,
    pub(crate) departures: BTreeMap<RepoAddr, Departure>,
    /// Refs of pull requests in every repository, by author.
    pub(crate) request_refs: BTreeMap<PublicKey, usize>,
    /// Looks by key so far.
    pub(crate) looks: Cell<usize>,
    /// Events read so far.
    pub(crate) reads: Cell<usize>,
}

impl FakeView {
    /// A node of the legacy maintainer rule, by which being listed is enough: scenes are shorter.
    pub(crate) fn new() -> Self {
        let mut view = Self::reciprocal();
        view.policy.maintainer_rule = MaintainerRule::Legacy;
        view
    }

    /// The same with an owner whose announcement is served.
    pub(crate) fn hosted(maintainers: &[&Keys]) -> (Self, Keys) {
        let mut view = Self::new();
        let owner = view.hosting(maintainers);
        (view, owner)
    }

    /// A node of the default rules.
    pub(crate) fn reciprocal() -> Self {
        Self {
            policy: Policy::open(Service::parse(SERVICE).unwrap()),
            served: Vec::new(),
            held: Vec::new(),
            hidden: BTreeSet::new(),
            expired: BTreeSet::new(),
            wanted: BTreeSet::new(),
            objects: BTreeMap::new(),
            placeholders: Vec::new(),
            staged: Vec::new(),
            departures: BTreeMap::new(),
            request_refs: BTreeMap::new(),
            looks: Cell::new(0),
            reads: Cell::new(0),
        }
    }

    /// Decides without doing anything about it.
    pub(crate) fn ask(&self, event: &Event) -> Decision {
        self.ask_as(event, Origin::Submitted)
    }

    /// What becomes of an event that is asked about.
    pub(crate) fn outcome(&self, event: &Event) -> Outcome {
        self.ask(event).outcome
    }

    /// Why an event that is asked about is refused.
    pub(crate) fn cause(&self, event: &Event) -> Cause {
        refusal(&self.ask(event)).0
    }

    /// Refuses an event for this cause, in a text that begins so; returns the text.
    #[track_caller]
    pub(crate) fn refuses(&self, event: &Event, cause: Cause, start: &str) -> String {
        let (why, text) = refusal(&self.ask(event));
        assert_eq!(why, cause, "{text}");
        assert!(text.starts_with(start), "{text}");
        text
    }

    /// What becomes of an event that is taken.
    pub(crate) fn taken(&mut self, event: &Event) -> Outcome {
        self.take(event).outcome
    }

    pub(crate) fn ask_as(&self, event: &Event, origin: Origin) -> Decision {
        let now = Timestamp::from_secs(1_000_000);
        admit(event, self, &self.policy, Arrival { now, origin }).unwrap()
    }

    /// Decides, and does what was decided.
    pub(crate) fn take(&mut self, event: &Event) -> Decision {
        let decision = self.ask(event);
        for effect in &decision.effects {
            match effect {
                Effect::DropStates { ids, .. } => self.forget(|e| ids.contains(&e.id)),
                Effect::DropPullRequest(id) => self.forget(|e| e.id == *id),
                Effect::EvictAnnouncement(addr) => self.forget(|e| announces(e, addr)),
                Effect::Leave { by, of } => {
                    let left = Announcement::parse((**by).clone()).unwrap();
                    self.departures.insert(left.addr(), Departure::by(by));
                    if matches!(of, Some(EventStatus::Held | EventStatus::Hidden)) {
                        self.forget(|e| announces(e, &left.addr()));
                    }
                }
                Effect::KeepAlive(addr) => {
                    let revived = self.held.iter().filter(|e| announces(e, addr));
                    let revived: Vec<EventId> = revived.map(|e| e.id).collect();
                    self.hidden.retain(|id| !revived.contains(id));
                }
                _ => {}
            }
        }
        match decision.outcome {
            Outcome::Serve => self.serve(event),
            Outcome::Hold => self.hold(event),
            _ => {}
        }
        decision
    }

    fn forget(&mut self, which: impl Fn(&Event) -> bool) {
        self.held.retain(|event| !which(event));
    }

    pub(crate) fn serve(&mut self, event: &Event) {
        self.held.retain(|held| held.id != event.id);
        if let Some(address) = address_of(event) {
            self.served
                .retain(|e| address_of(e) != Some(address.clone()));
        }
        if let Some(deletion) = Deletion::parse(event.clone()) {
            self.served.retain(|e| !deletion.covers(e));
        }
        self.served.push(event.clone());
    }

    /// Keeps an event unseen; of an announcement only the newest.
    pub(crate) fn hold(&mut self, event: &Event) {
        self.hidden.remove(&event.id);
        let address = address_of(event).filter(|a| a.kind == kinds::ANNOUNCEMENT);
        self.held
            .retain(|e| e.id != event.id && (address.is_none() || address_of(e) != address));
        self.held.push(event.clone());
    }

    fn looked(&self) {
        self.looks.set(self.looks.get() + 1);
    }

    fn read(&self, event: &Event) -> Event {
        self.reads.set(self.reads.get() + 1);
        event.clone()
    }

    fn status_of_held(&self, event: &Event) -> EventStatus {
        if self.hidden.contains(&event.id) {
            EventStatus::Hidden
        } else {
            EventStatus::Held
        }
    }

    pub(crate) fn has(&mut self, oids: &[Oid]) {
        self.objects
            .extend(oids.iter().map(|oid| (*oid, Found::Commit)));
    }

    /// An owner whose announcement is served.
    pub(crate) fn hosting(&mut self, maintainers: &[&Keys]) -> Keys {
        let owner = Keys::generate();
        self.serve(&listing(&owner, maintainers, 100));
        owner
    }
}

fn announces(event: &Event, addr: &RepoAddr) -> bool {
    Announcement::parse(event.clone()).is_ok_and(|a| a.addr() == *addr)
}

fn relates(event: &Event) -> bool {
    !kinds::TAKEN_FROM_ANYBODY.contains(&event.kind)
}

impl View for FakeView {
    fn served_kind(&self, id: &EventId) -> Result<Option<Kind>, ViewError> {
        self.looked();
        let mut served = self.served.iter();
        Ok(served.find(|event| event.id == *id).map(|event| event.kind))
    }

    fn is_address_served(&self, address: &Address) -> Result<bool, ViewError> {
        self.looked();
        let mut served = self.served.iter();
        Ok(served.any(|event| address_of(event).as_ref() == Some(address)))
    }

    fn is_kept(&self, id: &EventId) -> Result<bool, ViewError> {
        self.looked();
        Ok(self.held.iter().any(|event| event.id == *id))
    }

    fn is_known(&self, author: &PublicKey) -> Result<bool, ViewError> {
        self.looked();
        let is_word = |event: &&Event| !kinds::TAKEN_FROM_ANYBODY.contains(&event.kind);
        let mut said = self.served.iter().chain(&self.held).filter(is_word);
        Ok(said.any(|event| event.pubkey == *author))
    }

    fn is_announcement_held(&self, addr: &RepoAddr) -> Result<bool, ViewError> {
        self.looked();
        Ok(self.held.iter().any(|event| announces(event, addr)))
    }

    fn served_event(&self, id: &EventId) -> Result<Option<Event>, ViewError> {
        let found = self.served.iter().find(|event| event.id == *id);
        Ok(found.map(|event| self.read(event)))
    }

    fn latest(&self, address: &Address) -> Result<Option<Event>, ViewError> {
        let found = |event: &&Event| address_of(event).as_ref() == Some(address);
        Ok(self.served.iter().find(found).map(|event| self.read(event)))
    }

    fn is_referenced(&self, id: &EventId) -> Result<bool, ViewError> {
        let mut relating = self.served.iter().filter(|e| relates(e));
        Ok(relating.any(|event| references(event).ids.contains(id)))
    }

    fn is_address_referenced(&self, address: &Address) -> Result<bool, ViewError> {
        let mut relating = self.served.iter().filter(|e| relates(e));
        Ok(relating.any(|event| references(event).addresses.contains(address)))
    }

    fn is_name_known(&self, identifier: &Identifier) -> Result<bool, ViewError> {
        let mut known = self.served.iter().chain(&self.held);
        Ok(known.any(|event| first_value(event, "d") == Some(identifier.as_str())))
    }

    fn has_anything(&self, addr: &RepoAddr) -> Result<bool, ViewError> {
        let mut known = self.served.iter().chain(&self.held);
        let is_own = |event: &Event| {
            event.pubkey == addr.owner && first_value(event, "d") == Some(addr.identifier.as_str())
        };
        Ok(known.any(is_own) || self.departures.contains_key(addr))
    }

    fn waiting_event(&self, id: &EventId) -> Result<Option<Event>, ViewError> {
        self.held_event(id)
    }

    fn is_request_retired(&self, _: &EventId) -> Result<bool, ViewError> {
        Ok(false)
    }

    fn deletion_of(&self, event: &Event) -> Result<Option<EventId>, ViewError> {
        let deletions = self
            .served
            .iter()
            .filter_map(|e| Deletion::parse(e.clone()));
        Ok(deletions
            .filter(|d| d.covers(event))
            .map(|d| d.event.id)
            .next())
    }

    fn announcements(
        &self,
        identifier: &Identifier,
        policy: &Policy,
    ) -> Result<Vec<KnownAnnouncement>, ViewError> {
        let served = of_kind(&self.served, kinds::ANNOUNCEMENT, identifier);
        let served = served.map(|event| (event, EventStatus::Served));
        let held = of_kind(&self.held, kinds::ANNOUNCEMENT, identifier);
        let held = held.map(|event| {
            let status = self.status_of_held(&event);
            (event, status)
        });
        let known = served.chain(held).filter_map(|(event, status)| {
            let read = ReadAnnouncement::read(self.read(&event), policy)?;
            Some(KnownAnnouncement { read, status })
        });
        Ok(known.collect())
    }

    fn announcements_of(
        &self,
        addr: &RepoAddr,
        policy: &Policy,
    ) -> Result<Vec<KnownAnnouncement>, ViewError> {
        let known = |events: &[Event], status: fn(&Self, &Event) -> EventStatus| {
            let mut events = of_kind(events, kinds::ANNOUNCEMENT, &addr.identifier);
            let event = events.find(|event| event.pubkey == addr.owner)?;
            let read = ReadAnnouncement::read(self.read(&event), policy)?;
            let status = status(self, &event);
            Some(KnownAnnouncement { read, status })
        };
        let served = known(&self.served, |_, _| EventStatus::Served);
        let held = known(&self.held, Self::status_of_held);
        Ok(served.into_iter().chain(held).collect())
    }

    fn held_announcement(&self, addr: &RepoAddr) -> Result<Option<Event>, ViewError> {
        let mut held = of_kind(&self.held, kinds::ANNOUNCEMENT, &addr.identifier);
        let found = held.find(|event| event.pubkey == addr.owner);
        Ok(found.map(|event| self.read(&event)))
    }

    fn served_states(&self, identifier: &Identifier) -> Result<Vec<Event>, ViewError> {
        let events = of_kind(&self.served, kinds::STATE, identifier);
        Ok(events.map(|event| self.read(&event)).collect())
    }

    fn held_states(&self, identifier: &Identifier) -> Result<Vec<HeldState>, ViewError> {
        let held = of_kind(&self.held, kinds::STATE, identifier);
        Ok(held
            .map(|event| HeldState {
                id: event.id,
                author: event.pubkey,
                created_at: event.created_at,
            })
            .collect())
    }

    fn held_event(&self, id: &EventId) -> Result<Option<Event>, ViewError> {
        let found = self.held.iter().find(|event| event.id == *id);
        Ok(found.map(|event| self.read(event)))
    }

    fn is_held(&self, id: &EventId) -> Result<bool, ViewError> {
        Ok(self.is_kept(id)? && !self.hidden.contains(id))
    }

    fn expired_before(&self, id: &EventId) -> Result<bool, ViewError> {
        Ok(self.expired.contains(id))
    }

    fn is_wanted(&self, id: &EventId) -> Result<bool, ViewError> {
        Ok(self.wanted.contains(id))
    }

    fn departure(&self, addr: &RepoAddr) -> Result<Option<Departure>, ViewError> {
        Ok(self.departures.get(addr).copied())
    }

    fn is_staged(&self, repository: &RepoAddr, id: &EventId, tip: &Oid) -> Result<bool, ViewError> {
        let upload = (repository.clone(), *id, *tip);
        Ok(self.staged.contains(&upload))
    }

    fn request_refs(
        &self,
        _: &RepoAddr,
        author: &PublicKey,
        _: usize,
    ) -> Result<RequestRefs, ViewError> {
        let of_author = self.request_refs.get(author).copied().unwrap_or_default();
        let all = self.request_refs.values().sum();
        Ok(RequestRefs { all, of_author })
    }

    fn placeholders(&self, id: &EventId) -> Result<Vec<RepoAddr>, ViewError> {
        let of_event = self.placeholders.iter().filter(|(event, _)| event == id);
        Ok(of_event.map(|(_, repository)| repository.clone()).collect())
    }

    fn objects(&self, _: &Identifier, oids: &[Oid]) -> Result<Vec<Found>, ViewError> {
        let found = |oid| self.objects.get(oid).copied().unwrap_or(Found::Missing);
        Ok(oids.iter().map(found).collect())
    }
}

fn of_kind(events: &[Event], kind: Kind, d: &Identifier) -> impl Iterator<Item = Event> {
    let matches = move |e: &&Event| e.kind == kind && first_value(e, "d") == Some(d.as_str());
    events.iter().filter(matches).cloned()
}

pub(crate) fn identifier() -> Identifier {
    Identifier::parse(D).unwrap()
}

pub(crate) fn addr(keys: &Keys) -> RepoAddr {
    RepoAddr::new(keys.public_key(), identifier())
}

pub(crate) fn oid(n: u64) -> Oid {
    format!("{n:040x}").parse().unwrap()
}

/// Signs an event of `kind`; a tag is written as its members.
pub(crate) fn sign(keys: &Keys, kind: Kind, tags: &[&[&str]], at: u64) -> Event {
    let tags = tags
        .iter()
        .map(|tag| Tag::parse(tag.iter().copied()).unwrap());
    EventBuilder::new(kind, "")
        .tags(tags)
        .custom_created_at(Timestamp::from_secs(at))
        .finalize(keys)
        .unwrap()
}

/// A deletion request for one event.
pub(crate) fn delete_id(keys: &Keys, id: &EventId) -> Event {
    sign(keys, kinds::DELETION, &[&["e", &id.to_hex()]], 500)
}

pub(crate) fn announce(keys: &Keys, clone: &str, relay: &str, more: &[&[&str]], at: u64) -> Event {
    let mut tags: Vec<&[&str]> = Vec::new();
    let (d, clone, relay) = (["d", D], ["clone", clone], ["relays", relay]);
    tags.extend([&d[..], &clone[..], &relay[..]]);
    tags.extend(more);
    sign(keys, kinds::ANNOUNCEMENT, &tags, at)
}

pub(crate) fn clone_url(keys: &Keys) -> String {
    format!("https://{SERVICE}/{}", addr(keys).path())
}

fn hex(keys: &[&Keys]) -> Vec<String> {
    keys.iter().map(|k| k.public_key().to_hex()).collect()
}

/// An announcement that lists this server.
pub(crate) fn listing(keys: &Keys, maintainers: &[&Keys], at: u64) -> Event {
    announce_with(
        keys,
        &clone_url(keys),
        &format!("wss://{SERVICE}"),
        maintainers,
        at,
    )
}

/// An announcement that lists another server.
pub(crate) fn elsewhere(keys: &Keys, maintainers: &[&Keys], at: u64) -> Event {
    let clone = format!("https://git.other.example/{}", addr(keys).path());
    announce_with(keys, &clone, "wss://git.other.example", maintainers, at)
}

fn announce_with(keys: &Keys, clone: &str, relay: &str, others: &[&Keys], at: u64) -> Event {
    let mut maintainers = vec!["maintainers".to_owned()];
    maintainers.extend(hex(others));
    let maintainers: Vec<&str> = maintainers.iter().map(String::as_str).collect();
    announce(keys, clone, relay, &[&maintainers], at)
}

pub(crate) fn state(keys: &Keys, refs: &[(&str, Oid)], at: u64) -> Event {
    let refs: Vec<(&str, String)> = refs.iter().map(|(n, o)| (*n, o.to_hex())).collect();
    let refs: Vec<[&str; 2]> = refs
        .iter()
        .map(|(name, oid)| [*name, oid.as_str()])
        .collect();
    let mut tags: Vec<&[&str]> = vec![&["d", D]];
    tags.extend(refs.iter().map(|tag| &tag[..]));
    sign(keys, kinds::STATE, &tags, at)
}

/// Two states of one author and one second: the one that counts by NIP-01, then the other.
pub(crate) fn tied_states(
    keys: &Keys,
    at: u64,
    a: &[(&str, Oid)],
    b: &[(&str, Oid)],
) -> [Event; 2] {
    // Ids are as good as random, so a meaningless branch decides soon who is lower.
    for n in 0..u64::MAX {
        let name = format!("refs/heads/try-{n}");
        let mut refs = b.to_vec();
        refs.push((&name, oid(1)));
        let pair = [state(keys, a, at), state(keys, &refs, at)];
        if supersedes(&pair[0], &pair[1]) {
            return pair;
        }
    }
    unreachable!("half of all ids are higher")
}

impl Decision {
    /// Fails unless `effect` is among what is to be done.
    #[track_caller]
    pub(crate) fn must_do(&self, effect: &Effect) {
        assert!(self.effects.contains(effect), "{self:#?}");
    }
}

pub(crate) fn refusal(decision: &Decision) -> (Cause, String) {
    match &decision.outcome {
        Outcome::Refuse(reason) => (reason.cause, reason.to_string()),
        other => panic!("expected a refusal, got {other:?}: {:#?}", decision.steps),
    }
}

pub(crate) fn coordinate(kind: u16, key: &PublicKey) -> String {
    format!("{kind}:{}:{D}", key.to_hex())
}
