//! Announcements: one per owner and identifier.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use grip_nostr::{Event, PublicKey, RepoAddr};
use grip_types::Identifier;

use super::{Expired, Home, Purgatory, promoted};
use crate::{
    AnnouncementEntry, Change, Family, Full, HIDDEN_LIFETIME, Held, Millis, Phase, Provenance,
};

/// What announcements gave up for others, or at the end of their time.
#[derive(Debug, Default)]
pub struct MadeRoom {
    pub expired: Vec<Expired>,
    pub changes: Vec<Change>,
    /// The announcements as they were, for [`Purgatory::put_back_announcements`].
    pub before: Vec<AnnouncementEntry>,
}

impl Purgatory {
    /// Holds an announcement. A newer version replaces the held one and begins its time again
    /// (G01-18); an older version and one already held change nothing.
    pub fn add_announcement(
        &mut self,
        event: Event,
        identifier: Identifier,
        from: impl Into<Provenance>,
        now: Millis,
    ) -> Result<Vec<Change>, Full> {
        let from = from.into();
        let origin = from.source.origin;
        let held = Held::new(&event, origin, now, now + self.bounds.lifetime);
        let addr = RepoAddr::new(event.pubkey, identifier);
        let home = Home::Announcement(addr.identifier.clone());
        if self.ids.get(&event.id).is_some_and(|held| *held != home) {
            return Ok(Vec::new());
        }
        let before = self.find_announcement(&addr).cloned();
        if let Some(before) = &before
            && !held.event.supersedes(&before.held.event)
        {
            let held = promoted(&before.held, origin).filter(|_| event.id == before.held.id());
            let phase = before.phase;
            return Ok(held.map_or_else(Vec::new, |held| {
                vec![self.set_announcement(AnnouncementEntry { addr, phase, held })]
            }));
        }
        let entry = self.place_instead_of(before, &from, |family| AnnouncementEntry {
            addr: addr.clone(),
            phase: Phase::Shown,
            held: held.clone().charged_to(family, from.source.network),
        })?;
        let id = entry.held.id();
        let mut changes = vec![self.set_announcement(entry)];
        changes.extend(self.unremember(&id));
        Ok(changes)
    }

    /// The held announcement of a repository. Look at its phase: a hidden one has no repository.
    pub fn find_announcement(&self, addr: &RepoAddr) -> Option<&AnnouncementEntry> {
        // Nobody announces a contributor repository.
        let of_identifier = self.announcements.get(&addr.identifier);
        let of_identifier = of_identifier.filter(|_| !addr.is_contributor());
        of_identifier?.get(&addr.owner)
    }

    /// The held announcements of all owners of an identifier, hidden ones included.
    pub fn announcements(
        &self,
        identifier: &Identifier,
    ) -> impl Iterator<Item = &AnnouncementEntry> {
        let owners = self.announcements.get(identifier);
        owners.into_iter().flat_map(|owners| owners.values())
    }

    pub fn remove_announcement(&mut self, addr: &RepoAddr) -> Vec<Change> {
        self.take_announcement(addr)
            .map(|entry| Change::remove_announcement(&entry.addr))
            .into_iter()
            .collect()
    }

    /// Begins the 30 minutes again, on a state or an authorised push for it (G01-19). A hidden
    /// announcement must be revived instead.
    pub fn restart_announcement_timer(&mut self, addr: &RepoAddr, now: Millis) -> Vec<Change> {
        let entry = self.find_announcement(addr).cloned();
        let Some(mut entry) = entry.filter(|entry| entry.phase == Phase::Shown) else {
            return Vec::new();
        };
        let until = (now + self.bounds.lifetime).min(self.latest_end(&entry.held));
        entry.held.expires_at = until.max(entry.held.expires_at);
        vec![self.set_announcement(entry)]
    }

    /// Shows an announcement again and begins its 30 minutes. Returns the phase it was in; the
    /// caller creates its repository again if it was hidden.
    pub fn revive(&mut self, addr: &RepoAddr, now: Millis) -> (Option<Phase>, Vec<Change>) {
        let Some(mut entry) = self.find_announcement(addr).cloned() else {
            return (None, Vec::new());
        };
        let before = entry.phase;
        entry.phase = Phase::Shown;
        entry.held.expires_at = now + self.bounds.lifetime;
        (Some(before), vec![self.set_announcement(entry)])
    }

    /// Hides announcements of the identifier of `newcomer` that are beyond the bound of those that
    /// are shown, as if their time had run out, so that the name is never closed to a new owner. An owner whose
    /// announcement is hidden loses nothing but an empty repository, which the next state brings
    /// back (G01-20).
    ///
    /// The network with the most of them gives one up: of these, those without a held state go
    /// first, and the oldest of them. Authors who maintain something served neither count here nor
    /// give anything up.
    pub fn make_room(&mut self, newcomer: &RepoAddr, now: Millis) -> MadeRoom {
        let mut made = MadeRoom::default();
        let count = self.shown_strangers(&newcomer.identifier).count();
        for _ in self.bounds.per_identifier..count {
            let Some(addr) = self.least_shown(newcomer) else {
                break;
            };
            self.expire_announcement(&addr, now, &mut made);
        }
        made
    }

    fn shown_strangers(&self, identifier: &Identifier) -> impl Iterator<Item = &AnnouncementEntry> {
        let shown = |entry: &&AnnouncementEntry| entry.phase == Phase::Shown;
        let entries = self.announcements(identifier).filter(shown);
        entries.filter(|entry| !entry.held.is_granted())
    }

    /// The shown announcement of a stranger that gives way to `newcomer`.
    fn least_shown(&self, newcomer: &RepoAddr) -> Option<RepoAddr> {
        let identifier = &newcomer.identifier;
        let mut per_network: HashMap<_, usize> = HashMap::new();
        for entry in self.shown_strangers(identifier) {
            *per_network.entry(entry.held.network()).or_default() += 1;
        }
        let states = self.find_state(identifier).iter();
        let with_state: HashSet<PublicKey> = states.map(|state| state.held.author()).collect();
        let others = self
            .shown_strangers(identifier)
            .filter(|entry| entry.addr != *newcomer);
        let least = others.min_by_key(|entry| {
            // A sender without a network stands for many.
            let network = entry.held.network();
            let beside = network.map_or(1, |_| per_network[&network]);
            let has_state = with_state.contains(&entry.addr.owner);
            (Reverse(beside), has_state, entry.held.added_at)
        });
        least.map(|entry| entry.addr.clone())
    }

    /// Finds room as if `before` had left already.
    fn place_instead_of(
        &mut self,
        before: Option<AnnouncementEntry>,
        from: &Provenance,
        entry: impl Fn(Option<Family>) -> AnnouncementEntry,
    ) -> Result<AnnouncementEntry, Full> {
        let Some(before) = before else {
            return self.place(from, entry);
        };
        let _ = self.take_announcement(&before.addr);
        let placed = self.place(from, entry);
        let _ = self.set_announcement(before);
        placed
    }

    /// First phase: hide it. Second phase, or the event's own end: forget it.
    pub(super) fn expire_announcement(
        &mut self,
        addr: &RepoAddr,
        now: Millis,
        made: &mut MadeRoom,
    ) {
        let Some(mut entry) = self.find_announcement(addr).cloned() else {
            return;
        };
        made.before.push(entry.clone());
        let has_ended = entry.held.has_ended(now);
        if entry.phase == Phase::Shown {
            let hidden = Expired::AnnouncementRepository(addr.clone());
            made.expired.push(hidden);
        }
        if entry.phase == Phase::Shown && !has_ended {
            entry.phase = Phase::Hidden;
            // From now and not from the deadline, which may lie far back after a pause.
            entry.held.expires_at = now + HIDDEN_LIFETIME;
            made.changes.push(self.set_announcement(entry));
            self.forget_hidden(&addr.identifier, now, made);
            return;
        }
        made.changes.extend(self.remove_announcement(addr));
        let (event_id, origin) = (entry.held.id(), entry.held.origin);
        let remembered = self.remember(event_id, Some(origin), now);
        made.changes.extend(remembered);
        made.expired.push(Expired::Announcement {
            addr: addr.clone(),
            event_id,
            created_at: entry.held.event.created_at(),
            has_ended,
        });
    }

    /// Forgets the announcements that were hidden first, as long as there are too many of one name
    /// or in all: every decision about a name reads those it has.
    fn forget_hidden(&mut self, identifier: &Identifier, now: Millis, made: &mut MadeRoom) {
        let hidden = |entry: &&AnnouncementEntry| entry.phase == Phase::Hidden;
        let of_name = self.announcements(identifier).filter(hidden);
        let mut of_name: Vec<_> = of_name.map(hidden_key).collect();
        of_name.sort_unstable();
        let beyond = of_name.len().saturating_sub(self.bounds.per_identifier);
        for (.., addr) in of_name.into_iter().take(beyond) {
            self.expire_announcement(&addr, now, made);
        }
        while self.usage.hides_too_many(&self.bounds)
            && let Some((.., addr)) = self.hidden.first().cloned()
        {
            self.expire_announcement(&addr, now, made);
        }
    }

    /// Puts the entry in the place of an older one, bounds aside.
    pub(super) fn set_announcement(&mut self, entry: AnnouncementEntry) -> Change {
        let _ = self.take_announcement(&entry.addr);
        let change = Change::put_announcement(&entry);
        self.count_in(&entry);
        if entry.phase == Phase::Hidden {
            self.hidden.insert(hidden_key(&entry));
        }
        let home = Home::Announcement(entry.addr.identifier.clone());
        self.ids.insert(entry.held.id(), home);
        let owners = self.announcements.entry(entry.addr.identifier.clone());
        owners.or_default().insert(entry.addr.owner, entry);
        change
    }

    fn take_announcement(&mut self, addr: &RepoAddr) -> Option<AnnouncementEntry> {
        let owners = self.announcements.get_mut(&addr.identifier)?;
        let entry = owners.remove(&addr.owner)?;
        if owners.is_empty() {
            self.announcements.remove(&addr.identifier);
        }
        self.ids.remove(&entry.held.id());
        if entry.phase == Phase::Hidden {
            self.hidden.remove(&hidden_key(&entry));
        }
        self.count_out(&entry);
        Some(entry)
    }
}

fn hidden_key(entry: &AnnouncementEntry) -> (Millis, Millis, RepoAddr) {
    let held = &entry.held;
    (held.expires_at, held.added_at, entry.addr.clone())
}
