//! Announcements: one per owner and identifier.

use grip_nostr::{Event, RepoAddr};
use grip_types::{Identifier, Origin};

use super::{Expired, Home, Purgatory, promoted};
use crate::{
    AnnouncementEntry, Change, Full, HIDDEN_LIFETIME, Held, Millis, Phase, entry::Entry,
    journal::Class,
};

impl Purgatory {
    /// Holds an announcement. A newer version replaces the held one and begins its time again
    /// (G01-18); an older version and one already held change nothing.
    pub fn add_announcement(
        &mut self,
        event: Event,
        identifier: Identifier,
        origin: Origin,
        now: Millis,
    ) -> Result<Vec<Change>, Full> {
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
        let entry = AnnouncementEntry {
            addr,
            phase: Phase::Shown,
            held,
        };
        self.check_replacing(before.as_ref(), &entry)?;
        let id = entry.held.id();
        let mut changes = vec![self.set_announcement(entry)];
        changes.extend(self.unremember(&id));
        Ok(changes)
    }

    /// The held announcement of a repository. Look at its phase: a hidden one has no repository.
    pub fn find_announcement(&self, addr: &RepoAddr) -> Option<&AnnouncementEntry> {
        self.announcements.get(&addr.identifier)?.get(&addr.owner)
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
        match self.find_announcement(addr) {
            Some(entry) if entry.phase == Phase::Shown => self.revive(addr, now),
            _ => Vec::new(),
        }
    }

    /// Shows an announcement again and begins its 30 minutes; the caller creates its repository
    /// again if it was hidden.
    pub fn revive(&mut self, addr: &RepoAddr, now: Millis) -> Vec<Change> {
        let Some(mut entry) = self.find_announcement(addr).cloned() else {
            return Vec::new();
        };
        entry.phase = Phase::Shown;
        entry.held.expires_at = now + self.bounds.lifetime;
        vec![self.set_announcement(entry)]
    }

    /// Checks the bounds as if `before` had left already.
    fn check_replacing(
        &mut self,
        before: Option<&AnnouncementEntry>,
        entry: &AnnouncementEntry,
    ) -> Result<(), Full> {
        if let Some(before) = before {
            self.usage.remove(&before.indexed().weight);
        }
        let others = |it: &Identifier| {
            let all = self.count_of(Class::Announcement, it);
            all - usize::from(before.is_some())
        };
        let room = self
            .usage
            .check(&entry.indexed().weight, &self.bounds, others);
        if let Some(before) = before {
            self.usage.add(&before.indexed().weight);
        }
        room
    }

    /// First phase: hide it. Second phase, or the event's own end: forget it.
    pub(super) fn expire_announcement(
        &mut self,
        addr: &RepoAddr,
        now: Millis,
        expired: &mut Vec<Expired>,
        changes: &mut Vec<Change>,
    ) {
        let Some(mut entry) = self.find_announcement(addr).cloned() else {
            return;
        };
        let has_ended = entry.held.has_ended(now);
        if entry.phase == Phase::Shown {
            expired.push(Expired::AnnouncementRepository(addr.clone()));
        }
        if entry.phase == Phase::Shown && !has_ended {
            entry.phase = Phase::Hidden;
            // From now and not from the deadline, which may lie far back after a pause.
            entry.held.expires_at = now + HIDDEN_LIFETIME;
            changes.push(self.set_announcement(entry));
            return;
        }
        changes.extend(self.remove_announcement(addr));
        let (event_id, origin) = (entry.held.id(), entry.held.origin);
        changes.extend(self.remember(event_id, Some(origin), now));
        expired.push(Expired::Announcement {
            addr: addr.clone(),
            event_id,
        });
    }

    /// Puts the entry in the place of an older one, bounds aside.
    pub(super) fn set_announcement(&mut self, entry: AnnouncementEntry) -> Change {
        let _ = self.take_announcement(&entry.addr);
        let change = Change::put_announcement(&entry);
        self.count_in(&entry);
        self.hidden += usize::from(entry.phase == Phase::Hidden);
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
        self.hidden -= usize::from(entry.phase == Phase::Hidden);
        self.count_out(&entry);
        Some(entry)
    }
}
