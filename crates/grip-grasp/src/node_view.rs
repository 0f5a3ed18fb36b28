//! The view of admission on the node: event store, purgatory and objects on disk.

use grip_git::ObjectKind;
use grip_nostr::{
    Address, Event, EventId, Kind, PublicKey, RepoAddr, Timestamp, expiration, kinds,
};
use grip_purgatory::{AnnouncementEntry, CompactEvent, Phase, Purgatory, Waiting};
use grip_store::EventView;
use grip_types::{Identifier, Oid, RefName};

use crate::{
    admission::{EventStatus, Found, HeldState, KnownAnnouncement, RequestRefs, View, ViewError},
    departures::Departure,
    grasp::Core,
    policy::Policy,
};

/// Pull requests of one author and kind that are looked at, the newest.
const MAX_LOOKED_AT: usize = 20_000;

/// Implements [`View`] over one snapshot or transaction of the event store.
pub(crate) struct NodeView<'a> {
    core: &'a Core,
    events: &'a dyn EventView,
    /// A held event that is judged again, and therefore must not meet itself.
    leaving_out: Option<EventId>,
}

impl<'a> NodeView<'a> {
    pub(crate) fn new(core: &'a Core, events: &'a dyn EventView) -> Self {
        Self {
            core,
            events,
            leaving_out: None,
        }
    }

    /// The same view as if the held event `id` had not come yet.
    pub(crate) fn leaving_out(core: &'a Core, events: &'a dyn EventView, id: EventId) -> Self {
        Self {
            leaving_out: Some(id),
            ..Self::new(core, events)
        }
    }

    fn purgatory<T>(&self, read: impl FnOnce(&Purgatory) -> T) -> Result<T, ViewError> {
        Ok(read(&self.core.purgatory.lock()))
    }

    /// The newest served version of each author.
    fn served(&self, kind: Kind, identifier: &Identifier) -> Result<Vec<Event>, ViewError> {
        let found = self.events.with_d(kind, identifier.as_str());
        let mut found = found.map_err(ViewError::new)?;
        found.retain(is_in_time);
        Ok(found)
    }

    /// Announcements that count nowhere by `policy` are left out.
    fn read(
        &self,
        served: Vec<EventId>,
        held: Vec<(CompactEvent, Phase)>,
        policy: &Policy,
    ) -> Result<Vec<KnownAnnouncement>, ViewError> {
        let in_force = || self.core.policy.load_full();
        let reader = self.core.announcements.reader(policy, in_force);
        let mut known = Vec::new();
        for id in served {
            let read = reader.get(id, || self.events.get(&id).map_err(ViewError::new))?;
            let in_time = read.filter(|it| is_in_time(&it.announcement.event));
            known.extend(in_time.map(|read| KnownAnnouncement {
                read,
                status: EventStatus::Served,
            }));
        }
        for (event, phase) in held {
            let read = reader.get(event.id(), || Ok::<_, ViewError>(Some(event.unpack())))?;
            let status = match phase {
                Phase::Shown => EventStatus::Held,
                Phase::Hidden => EventStatus::Hidden,
            };
            known.extend(read.map(|read| KnownAnnouncement { read, status }));
        }
        Ok(known)
    }

    fn shown<'e>(
        &self,
        entries: impl Iterator<Item = &'e AnnouncementEntry>,
    ) -> impl Iterator<Item = (CompactEvent, Phase)> {
        let shown = entries.filter(|entry| self.shows(&entry.held.id()));
        shown.map(|entry| (entry.held.event.clone(), entry.phase))
    }

    fn shows(&self, id: &EventId) -> bool {
        self.leaving_out.as_ref() != Some(id)
    }
}

impl View for NodeView<'_> {
    fn served_kind(&self, id: &EventId) -> Result<Option<Kind>, ViewError> {
        self.events.kind(id).map_err(ViewError::new)
    }

    fn served_event(&self, id: &EventId) -> Result<Option<Event>, ViewError> {
        let found = self.events.get(id).map_err(ViewError::new)?;
        Ok(found.filter(is_in_time))
    }

    fn latest(&self, address: &Address) -> Result<Option<Event>, ViewError> {
        let found = self.events.latest(address).map_err(ViewError::new)?;
        Ok(found.filter(is_in_time))
    }

    fn is_address_served(&self, address: &Address) -> Result<bool, ViewError> {
        self.events
            .contains_address(address)
            .map_err(ViewError::new)
    }

    fn is_referenced(&self, id: &EventId) -> Result<bool, ViewError> {
        let named = self.events.is_referenced(id, &kinds::TAKEN_FROM_ANYBODY);
        named.map_err(ViewError::new)
    }

    fn is_address_referenced(&self, address: &Address) -> Result<bool, ViewError> {
        let idle = &kinds::TAKEN_FROM_ANYBODY;
        let named = self.events.is_address_referenced(address, idle);
        named.map_err(ViewError::new)
    }

    fn is_request_retired(&self, id: &EventId) -> Result<bool, ViewError> {
        self.events.is_request_retired(id).map_err(ViewError::new)
    }

    fn deletion_of(&self, event: &Event) -> Result<Option<EventId>, ViewError> {
        self.events.deletion_of(event).map_err(ViewError::new)
    }

    fn announcements(
        &self,
        identifier: &Identifier,
        policy: &Policy,
    ) -> Result<Vec<KnownAnnouncement>, ViewError> {
        let served = self
            .events
            .ids_with_d(kinds::ANNOUNCEMENT, identifier.as_str());
        // Parsed without the lock, which everything that waits shares.
        let held = self.purgatory(|purgatory| {
            let entries = purgatory.announcements(identifier);
            self.shown(entries).collect()
        })?;
        self.read(served.map_err(ViewError::new)?, held, policy)
    }

    fn announcements_of(
        &self,
        addr: &RepoAddr,
        policy: &Policy,
    ) -> Result<Vec<KnownAnnouncement>, ViewError> {
        let served = self.events.latest_id(&Address::of_announcement(addr));
        let served = served.map_err(ViewError::new)?.into_iter().collect();
        let held = self.purgatory(|purgatory| {
            let entry = purgatory.find_announcement(addr);
            self.shown(entry.into_iter()).collect()
        })?;
        self.read(served, held, policy)
    }

    fn held_announcement(&self, addr: &RepoAddr) -> Result<Option<Event>, ViewError> {
        let held = self.purgatory(|purgatory| {
            let entry = purgatory.find_announcement(addr);
            let shown = entry.filter(|entry| self.shows(&entry.held.id()));
            shown.map(|entry| entry.held.event.clone())
        })?;
        Ok(held.map(|event| event.unpack()))
    }

    fn served_states(&self, identifier: &Identifier) -> Result<Vec<Event>, ViewError> {
        self.served(kinds::STATE, identifier)
    }

    fn held_states(&self, identifier: &Identifier) -> Result<Vec<HeldState>, ViewError> {
        self.purgatory(|purgatory| {
            let entries = purgatory.find_state(identifier).iter();
            let shown = entries.filter(|entry| self.shows(&entry.held.id()));
            let held = shown.map(|entry| HeldState {
                id: entry.held.id(),
                author: entry.held.author(),
                created_at: entry.held.event.created_at(),
            });
            held.collect()
        })
    }

    fn held_event(&self, id: &EventId) -> Result<Option<Event>, ViewError> {
        if !self.shows(id) {
            return Ok(None);
        }
        self.purgatory(|purgatory| {
            let waiting = purgatory.find_event(id);
            waiting.map(|waiting| waiting.held().event.unpack())
        })
    }

    fn is_kept(&self, id: &EventId) -> Result<bool, ViewError> {
        let is_kept = self.purgatory(|purgatory| purgatory.contains(id))?;
        Ok(is_kept && self.shows(id))
    }

    fn is_known(&self, author: &PublicKey) -> Result<bool, ViewError> {
        self.core.is_known(author, self.events)
    }

    fn is_announcement_held(&self, addr: &RepoAddr) -> Result<bool, ViewError> {
        self.purgatory(|purgatory| {
            let entry = purgatory.find_announcement(addr);
            entry.is_some_and(|entry| self.shows(&entry.held.id()))
        })
    }

    fn is_held(&self, id: &EventId) -> Result<bool, ViewError> {
        if !self.shows(id) {
            return Ok(false);
        }
        self.purgatory(|purgatory| match purgatory.find_event(id) {
            Some(Waiting::Announcement(entry)) => entry.phase == Phase::Shown,
            Some(_) => true,
            None => false,
        })
    }

    fn expired_before(&self, id: &EventId) -> Result<bool, ViewError> {
        self.purgatory(|purgatory| purgatory.was_expired(id))
    }

    fn is_wanted(&self, id: &EventId) -> Result<bool, ViewError> {
        self.purgatory(|purgatory| purgatory.find_wanted(id).is_some())
    }

    fn placeholders(&self, id: &EventId) -> Result<Vec<RepoAddr>, ViewError> {
        self.purgatory(|purgatory| {
            let placeholder = purgatory.find_pr_placeholder(id);
            placeholder.map_or_else(Vec::new, |found| found.refs.keys().cloned().collect())
        })
    }

    fn request_refs(
        &self,
        repository: &RepoAddr,
        author: &PublicKey,
        least: usize,
    ) -> Result<RequestRefs, ViewError> {
        // Of one that cannot be read the audit tells.
        let Ok(refs) = self.core.repositories.refs(repository) else {
            return Ok(RequestRefs::default());
        };
        let all = refs.iter().filter(|it| it.name.is_under_nostr()).count();
        let mut of_author = 0;
        for kind in [kinds::PULL_REQUEST, kinds::PULL_REQUEST_UPDATE] {
            let most = if all < least { 0 } else { MAX_LOOKED_AT };
            let ids = self.events.ids_of(author, kind, most);
            let ids = ids.map_err(ViewError::new)?;
            let names = ids.iter().map(|id| RefName::for_nostr_event(id.as_bytes()));
            of_author += names.filter(|name| refs.get(name).is_some()).count();
        }
        Ok(RequestRefs { all, of_author })
    }

    fn is_name_known(&self, identifier: &Identifier) -> Result<bool, ViewError> {
        let is_hosted = !self.core.hosted.owners(identifier).is_empty();
        let is_held = |purgatory: &Purgatory| {
            purgatory.has_pending_events(identifier)
                || purgatory.announcements(identifier).next().is_some()
        };
        Ok(is_hosted || self.purgatory(is_held)?)
    }

    fn has_anything(&self, addr: &RepoAddr) -> Result<bool, ViewError> {
        let core = self.core;
        if core.hosted.status(addr).is_some() || core.departures.get(addr).is_some() {
            return Ok(true);
        }
        let waits = self.purgatory(|purgatory| {
            let waiting = purgatory.waiting_for(&addr.identifier).map(Waiting::held);
            let mut states = waiting.filter(|held| held.event.kind() == kinds::STATE);
            purgatory.find_announcement(addr).is_some()
                || states.any(|held| held.author() == addr.owner)
        })?;
        Ok(waits
            || self.is_address_served(&Address::of_announcement(addr))?
            || self.is_address_served(&Address::of_state(addr))?)
    }

    fn waiting_event(&self, id: &EventId) -> Result<Option<Event>, ViewError> {
        Ok(self.core.waiting_event(id).filter(|_| self.shows(id)))
    }

    fn departure(&self, addr: &RepoAddr) -> Result<Option<Departure>, ViewError> {
        Ok(self.core.departures.get(addr))
    }

    fn is_staged(&self, repository: &RepoAddr, id: &EventId, tip: &Oid) -> Result<bool, ViewError> {
        let name = RefName::for_nostr_event(id.as_bytes());
        Ok(self.core.repositories.is_staged(repository, &name, tip))
    }

    fn objects(&self, identifier: &Identifier, oids: &[Oid]) -> Result<Vec<Found>, ViewError> {
        let kinds = self.core.repositories.kinds(identifier, oids);
        let kinds = kinds.map_err(ViewError::new)?;
        Ok(kinds.into_iter().map(found).collect())
    }
}

/// Says whether the event's own time (NIP-40) is not over; the store has it until it is taken out.
fn is_in_time(event: &Event) -> bool {
    expiration(event).is_none_or(|end| end > Timestamp::now())
}

pub(crate) fn found(kind: Option<ObjectKind>) -> Found {
    match kind {
        None => Found::Missing,
        Some(ObjectKind::Commit) => Found::Commit,
        Some(_) => Found::Other,
    }
}
